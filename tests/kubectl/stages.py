"""Stages for transcripts on a running server."""

from __future__ import annotations

from pathlib import Path

from tests.kubectl.conftest import Makeway
from tests.kubectl.transcripts import Stage, Transcript


def staged(home: Path, server: Makeway, transcript: Transcript, version: str, kubectl: Path) -> Stage:
    """A stage of its own for a transcript, with its namespace."""
    name = f"space-{transcript.path.stem.replace('_', '-')}-v{version.partition('.')[2]}"
    folder = home / name
    folder.mkdir()
    there = {
        role: text.replace("namespace: default", f"namespace: {name}")
        for role, text in (("admin", server.admin), ("viewer", server.viewer))
    }
    stage = Stage(folder, kubectl, version, name, there)
    stage.prepare(transcript)
    assert stage.run("kubectl create namespace $NS") == "namespace/$NS created"
    return stage
