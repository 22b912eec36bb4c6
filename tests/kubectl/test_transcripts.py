"""kubectl as the judge: every verb with every available kubectl, every transcript with the newest one.

``MAKEWAY_KUBECTLS=all`` runs every transcript with every kubectl.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kubectl.conftest import Makeway, kubectls
from tests.kubectl.stages import staged
from tests.kubectl.transcripts import minor, read

pytestmark = pytest.mark.slow

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
FOUND = kubectls()
if not FOUND:
    pytest.skip("no kubectl on PATH, and none fetched by tools/kubectl.py", allow_module_level=True)


NEWEST = max(FOUND, key=minor)
RUNS = [
    pytest.param(path, version, id=f"{path.stem}-{version}")
    for path in TRANSCRIPTS
    for version in sorted(FOUND, key=minor)
    if version == NEWEST or path.stem == "verbs" or os.environ.get("MAKEWAY_KUBECTLS") == "all"
]


@pytest.mark.parametrize(("path", "version"), RUNS)
def test_a_transcript(path: Path, version: str, server: Makeway, home: Path) -> None:
    transcript = read(path)
    stage = staged(home, server, transcript, version, FOUND[version])
    for step in transcript.steps:
        printed = stage.printed(step)
        assert printed == step.expected(version), f"$ {step.command}\n{printed}"


def test_there_are_transcripts() -> None:
    assert len(TRANSCRIPTS) > 10
