"""Writes of our own controllers are recorded if the object has a record, and otherwise not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from makeway.adapters.server.changes.field_ownership import ApplyConflict, applied
from makeway.adapters.server.storage.beginning import open_store
from makeway.adapters.server.storage.store import SqliteStore
from makeway.api.objects.kubernetes import Job, amended
from makeway.api.quantity import Time
from makeway.api.versions import kind_of
from makeway.core.model import Millis
from makeway.runtime.ports import Stored

NOW = Time.parse("2026-01-01T00:00:00Z")
JOBS = kind_of(Job)
WANTED: dict[str, Any] = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"},
    "spec": {"suspend": True, "parallelism": 2, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path, lambda: Millis(NOW.millis)) as store:
        yield store


def unsuspended(each: Stored) -> Job:
    job: Job = each.value()
    return replace(job, spec=amended(job.spec, {"suspend": False}))


def test_who_applies_again_is_told_whose_the_field_is_now(store: SqliteStore) -> None:
    made = store.create(applied(JOBS, "v1", None, WANTED, manager="kubectl", force=False, now=NOW))
    started = store.update(unsuspended(made))
    owners = {each["manager"]: each["fieldsV1"] for each in started.tree()["metadata"]["managedFields"]}
    assert owners["makeway"] == {"f:spec": {"f:suspend": {}}}
    assert "f:suspend" not in owners["kubectl"]["f:spec"]
    with pytest.raises(ApplyConflict, match=r'conflict with "makeway" using batch/v1: \.spec\.suspend'):
        applied(JOBS, "v1", started.tree(), WANTED, manager="kubectl", force=False, now=NOW)
    other = {**WANTED, "spec": {**WANTED["spec"], "parallelism": 3}}
    del other["spec"]["suspend"]
    tree = applied(JOBS, "v1", started.tree(), other, manager="kubectl", force=False, now=NOW)
    assert (tree["spec"]["suspend"], tree["spec"]["parallelism"]) == (False, 3)


def test_what_nobody_recorded_is_not_recorded(store: SqliteStore) -> None:
    started = store.update(unsuspended(store.create(WANTED)))
    assert started.tree()["spec"]["suspend"] is False
    assert "managedFields" not in started.tree()["metadata"]


def test_a_write_of_nothing_is_none(store: SqliteStore) -> None:
    made = store.create(applied(JOBS, "v1", None, WANTED, manager="kubectl", force=False, now=NOW))
    assert store.update(made.value()) == made
