"""A data file with an unreadable object of each kind: the server starts, is ready, and serves the others."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import httpx2
import pytest

from makeway.embedded.control_plane import ControlPlane, ControlPlaneSettings
from makeway.embedded.local_node import LocalNode, NodeSettings
from makeway.embedded.pod_logs import Logs
from tests.cli.living import EVENTS, JOBS, Living, flavor, job, queue, true_conditions, until
from tests.unreadable import UNREADABLE, put_into_file

pytestmark = pytest.mark.slow

FILE = "makeway.db"
STARTS = 3


def unreadable() -> list[dict[str, Any]]:
    """All unreadable objects, each with its own name."""
    found = []
    for number, tree in enumerate(UNREADABLE.values()):
        meta = {**tree["metadata"], "name": f"bad-{number}", "uid": f"00000000-0000-4000-8000-{number:012d}"}
        where = {"namespace": "default"} if "namespace" in meta else {}
        found.append({**tree, "metadata": {**meta, **where}})
    return found


def runs(name: str) -> dict[str, Any]:
    tree = job(name)
    tree["spec"]["template"]["spec"]["containers"][0] |= {"image": "busybox", "command": ["true"]}
    return tree


def served(folder: Path, name: str, *, is_first: bool) -> None:
    """One start: the server is ready, a Job runs to its end, and a read of each unreadable object says so."""
    with ControlPlane(folder, ControlPlaneSettings(on_nodes=True)) as plane:
        url = plane.start(Logs(folder))
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        headers = {"authorization": f"Bearer {plane.token}"}
        live = plane.live
        local = LocalNode(
            folder, plane.store, NodeSettings(), plane.clock,
            tell=live.tell, failed=plane.fail, gave_up=live.gave_up,
        )  # fmt: skip
        local.start()
        try:
            with httpx2.Client(base_url=url, verify=trust, headers=headers, timeout=30) as client:
                server = Living(plane, client, folder)
                assert client.get("/readyz").status_code == 200
                if is_first:
                    server.create(flavor(), *queue())
                server.create(runs(name))
                until(lambda: "Complete" in true_conditions(server.get(f"{JOBS}/{name}")), f"{name} completes")
                if not is_first:
                    _check_told(server)
                assert client.get("/readyz").status_code == 200
        finally:
            local.stop()
    assert plane.failure is None


def _check_told(server: Living) -> None:
    names = {each["metadata"]["name"] for each in unreadable()}

    def silent() -> set[str]:
        events = [each for each in server.items(EVENTS) if each["reason"] == "SetAside"]
        return names - {each["involvedObject"]["name"] for each in events}

    until(lambda: not silent(), "each says why")
    counted = {series: value for series, value in server.metrics().items() if "set_aside_total" in series}
    assert sum(counted.values()) >= len(names)


def test_a_server_lives_with_objects_that_nobody_can_read(tmp_path: Path, set_aside: list[str]) -> None:
    served(tmp_path, "before", is_first=True)
    assert not set_aside
    put_into_file(tmp_path / FILE, unreadable())
    for number in range(STARTS):
        served(tmp_path, f"after-{number}", is_first=False)
