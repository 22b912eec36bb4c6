"""What the shipped helpers need: only a module written for a test tool imports one, and the extra brings it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = {"hypothesis", "pytest"}
WRITTEN_FOR_TOOLS = {"makeway.testing.conformance": TOOLS, "makeway.testing.strategies": {"hypothesis"}}
# Imports every module by itself, and answers with those that cannot be: by name, and what each of them lacks first.
IMPORT_ALL = """
import importlib, json, pkgutil, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in set(sys.argv[1:]):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import makeway.testing

lacking, modules = {}, []
for module in pkgutil.walk_packages(makeway.testing.__path__, "makeway.testing."):
    modules.append(module.name)
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        lacking[module.name] = error.name.partition(".")[0]
print(json.dumps([modules, lacking]))
"""


def imported_without(*tools: str) -> tuple[list[str], dict[str, str]]:
    """All modules, and those that cannot be imported with the name that they lack."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *tools], capture_output=True, text=True, check=True, cwd=ROOT / "src"
    )
    modules, lacking = json.loads(done.stdout)
    return modules, lacking


def test_only_what_is_written_for_a_tool_needs_it() -> None:
    for tool in sorted(TOOLS):
        modules, lacking = imported_without(tool)
        assert len(modules) > 10
        assert lacking == {name: tool for name, needs in WRITTEN_FOR_TOOLS.items() if tool in needs}
    _, lacking = imported_without(*sorted(TOOLS))
    assert lacking.keys() == WRITTEN_FOR_TOOLS.keys()
    assert imported_without()[1] == {}


def test_the_extra_brings_these_tools_as_we_use_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extra = project["project"]["optional-dependencies"]["testing"]
    assert {each.partition(">=")[0] for each in extra} == TOOLS
    assert set(extra) <= set(project["dependency-groups"]["dev"])
