"""``makeway bench``: that it measures, and what; never how fast."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from makeway.api import codec
from makeway.api.objects.workload import Workload
from makeway.api.reading.manifests import load
from makeway.api.reading.together import check_together
from makeway.bench import command as bench
from makeway.cli.main import main


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROUNDS", 2), ("OBJECTS_PER_ROUND", 2), ("DOCUMENTS", 12), ("IMPORTS", 1)):
        monkeypatch.setattr(bench, name, value)


@pytest.mark.usefixtures("small")
def test_the_result_is_one_json_object_on_one_line() -> None:
    result = CliRunner().invoke(main, ["bench", "codec", "--json"])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\n") == 1
    measured = json.loads(result.stdout)
    assert list(measured) == [
        "name", "decode_us", "encode_us", "object_bytes", "validate_documents", "validate_bytes",
        "validate_cpu_seconds", "import_ms", "python", "machine",
    ]  # fmt: skip
    assert (measured["name"], measured["validate_documents"]) == ("codec", 12)


@pytest.mark.usefixtures("small")
def test_the_text_names_the_aims() -> None:
    lines = CliRunner().invoke(main, ["bench", "codec"]).stdout.splitlines()
    assert [line.partition("(")[2] for line in lines[:4]] == [
        "aim: 15 µs)", "aim: 4 µs)", "aim: 5 s)", "aim: 150 ms)",
    ]  # fmt: skip


def test_an_unknown_name_is_wrong_usage_and_lists_the_names() -> None:
    result = CliRunner().invoke(main, ["bench", "zzz"])
    assert result.exit_code == 2
    assert "codec" in result.stderr


def test_what_is_measured_is_sound_and_of_a_real_size() -> None:
    data = bench.workload_bytes()
    assert 1_800 <= len(data) <= 2_400
    assert codec.encode(codec.decode(data, Workload)) == data
    documents = bench.many_documents(30)
    manifests = load("documents.yaml", documents)
    check_together(manifests)
    assert len(manifests) == 30
    assert [problem for manifest in manifests for problem in manifest.problems] == []
    assert 300 <= len(documents) / 30 <= 500
