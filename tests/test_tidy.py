"""House rules that no linter has. A rule is a function, which is tested on a bad sample and on the project."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from makeway.core.trace import WORDS, Rule

ROOT = Path(__file__).parents[1]
FUNCTION_LINES = 70
FUNCTION_LINES_P90 = 25
FILE_LINES = 600
FOLDER_MODULES = 15
CLASS_METHODS = 20
BANNED = {"util", "utils", "helper", "helpers", "manager", "managers", "misc", "common"}
MADE_BY_TOOLS = re.compile(r"\.(?!ci$|gitignore$).*|__pycache__|dist")  # .git, .venv, caches

# A wire object and what decisions or processes know of it have one name; nothing else may stand for two things.
TWINS = {
    "Namespace", "Node", "Pod", "PodSet", "PodSetAssignment", "PriorityClass", "Taint",
    "Toleration", "Workload",
}  # fmt: skip
# One method per rule of a Store, or per promise that a Store is held to.
MANY_METHODS = {"StoreRules", "StoreConformance"}

# Written so that no pattern matches its own text.
PRIVATE = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:wor[k]|roo[t]|hom[e]/\w+|User[s]/\w+)(?![\w-])"),
    "the host of a package index": re.compile(r"pypi\.org|pythonhosted\.org|artifactory\.|devpi\."),
    "an index line": re.compile(r"(?:^|\s)--(?:extra-)?index-url|(?:^|\s)--find-links[ =]|^\s*index-url\s*=", re.M),
}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def tracked_files() -> list[Path]:
    """The files that are or would be committed; without git, all files that no tool made."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True
    )
    if listed.returncode == 0 and listed.stdout:
        paths: Iterable[Path] = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    else:
        paths = (p for p in ROOT.rglob("*") if not any(map(MADE_BY_TOOLS.fullmatch, p.relative_to(ROOT).parts)))
    return sorted(path for path in paths if path.is_file())


def function_lengths(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every function with its number of lines. Only statements are walked, since most of a tree is expressions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from function_lengths(node)


class Outline(NamedTuple):
    docstring: str
    functions: tuple[tuple[str, int], ...]
    classes: tuple[tuple[str, int], ...]


@functools.cache
def outline(text: str) -> Outline:
    """The parts of a file that several rules need. Parsing is slow, so it is done once."""
    tree = ast.parse(text)
    return Outline(ast.get_docstring(tree) or "", tuple(function_lengths(tree)), tuple(classes(tree)))


def classes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The classes of a module, each with the number of its methods."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)


def too_long(text: str) -> list[str]:
    found = [f"{name} has {n} lines" for name, n in outline(text).functions if n > FUNCTION_LINES]
    if (lines := len(text.splitlines())) > FILE_LINES:
        found.append(f"the file has {lines} lines")
    return found


def ninetieth_percentile(lengths: list[int]) -> int:
    return sorted(lengths)[(len(lengths) * 9 - 1) // 10]


def banned_words(path: Path) -> set[str]:
    """The banned words in the names of a file and its folders: a shared function belongs to the module of its noun."""
    words = {word for part in path.with_suffix("").parts for word in part.lower().split("_")}
    return words & BANNED


def has_door_sign(text: str) -> bool:
    return bool(outline(text).docstring)


def has_unreleased_section(changelog: str) -> bool:
    """Whether there is an Unreleased section that is not empty."""
    return re.search(r"^## Unreleased\n+(?!## )\S", changelog, re.M) is not None


def private_matters(text: str) -> list[str]:
    return [f"{what}: {found.group().strip()}" for what, mark in PRIVATE.items() if (found := mark.search(text))]


SOURCES = python_files("src")
ALL_PYTHON = python_files("src", "tests", "tools")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", ALL_PYTHON, ids=name_of)
def test_files_and_functions_are_short_and_well_named(path: Path) -> None:
    assert too_long(path.read_text("utf-8")) == []
    assert banned_words(path.relative_to(ROOT)) == set()


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_at_its_door_what_it_is_for(path: Path) -> None:
    assert has_door_sign(path.read_text("utf-8"))


def test_every_folder_of_the_package_has_a_door() -> None:
    folders = {path.parent for path in SOURCES}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_no_folder_is_too_full_to_be_read() -> None:
    modules = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    assert {name_of(folder): n for folder, n in modules.items() if n > FOLDER_MODULES} == {}


def test_no_class_has_too_many_methods() -> None:
    found = {name: n for path in SOURCES for name, n in outline(path.read_text("utf-8")).classes if n > CLASS_METHODS}
    assert {name: n for name, n in found.items() if name not in MANY_METHODS} == {}
    assert MANY_METHODS - found.keys() == set(), "small enough now"


def test_a_class_name_means_one_thing() -> None:
    modules: dict[str, list[str]] = {}
    for path in SOURCES:
        for name, _ in outline(path.read_text("utf-8")).classes:
            modules.setdefault(name, []).append(name_of(path))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1 and name not in TWINS} == {}
    assert {name for name in TWINS if len(modules.get(name, ())) < 2} == set(), "no twin any more"


def test_nine_of_ten_functions_are_shorter_still() -> None:
    lengths = [n for path in SOURCES for _, n in outline(path.read_text("utf-8")).functions]
    assert ninetieth_percentile(lengths) <= FUNCTION_LINES_P90


def undefined_exports(text: str) -> set[str]:
    """The names that a module exports but does not have; ruff does not check that of an ``__init__``."""
    tree = ast.parse(text)
    names: set[str] = set()
    exports: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            names |= targets
            if "__all__" in targets and node.value is not None:
                exports |= set(ast.literal_eval(node.value))
    return exports - names


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name == "__init__.py"], ids=name_of)
def test_a_door_exports_what_is_behind_it(path: Path) -> None:
    modules = {file.stem for file in path.parent.iterdir()}
    assert undefined_exports(path.read_text("utf-8")) - modules == set()


IMPORTED = re.compile(r"\bfrom (makeway(?:\.\w+)*) import (\w+(?:, \w+)*)")


@functools.cache
def words_in(module: str) -> frozenset[str] | None:
    """All words of a module, and the modules in it; None: there is no such module."""
    place = ROOT / "src" / Path(*module.split("."))
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return None
    return frozenset({each.stem for each in place.glob("*")} | set(re.findall(r"\w+", file.read_text("utf-8"))))


def imports_of_nothing(text: str) -> list[str]:
    """Names that a program imports and that do not exist; no other check reads programs in strings."""
    found = []
    for module, names in IMPORTED.findall(text):
        known = words_in(module)
        missing = [module] if known is None else [f"{module}.{n}" for n in names.split(", ") if n not in known]
        found += missing
    return found


def test_programs_in_strings_import_what_is_there() -> None:
    found = {name_of(path): imports_of_nothing(path.read_text("utf-8")) for path in ALL_PYTHON}
    assert {name: missing for name, missing in found.items() if missing} == {}


def test_changelog_has_an_unreleased_section() -> None:
    assert has_unreleased_section((ROOT / "CHANGELOG.md").read_text("utf-8"))


def test_nothing_private_is_committed() -> None:
    found = {name_of(path): private_matters(path.read_text("utf-8", "replace")) for path in tracked_files()}
    assert {name: matters for name, matters in found.items() if matters} == {}


LOCKS = ("requirements.lock", "requirements-dev.lock")


def pins_of(lock: str) -> set[str]:
    """Every package with its version, without the comments on what needs it, which may differ between two locks."""
    return set(re.findall(r"^[\w.\[\]-]+==\S+", lock, re.M))


def named_in(requirements: Iterable[str]) -> set[str]:
    """The packages that a list of requirements names."""
    return {re.split(r"[^\w.-]", each, maxsplit=1)[0].lower() for each in requirements}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_every_package_by_hash_and_names_no_host(name: str) -> None:
    lock = (ROOT / name).read_text("utf-8")
    pins = re.findall(r"^[\w.\[\]-]+==\S+.*$", lock, re.M)
    assert pins
    assert all(pin.endswith("\\") for pin in pins), "a hash follows every pin"
    assert "://" not in lock


def test_who_only_runs_it_gets_what_is_tested_and_nothing_of_the_tests() -> None:
    runtime, dev = (pins_of((ROOT / name).read_text("utf-8")) for name in LOCKS)
    assert runtime < dev
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    packages = {pin.partition("==")[0] for pin in runtime}
    assert named_in(project["project"]["dependencies"]) <= packages
    assert not named_in(project["dependency-groups"]["dev"]) & packages


def test_the_backend_is_pinned_once() -> None:
    pins = set(re.findall(r'"hatchling==([\d.]+)"', (ROOT / "pyproject.toml").read_text("utf-8")))
    assert len(pins) == 1
    (pin,) = pins
    assert all(f"hatchling=={pin} " in (ROOT / name).read_text("utf-8") for name in LOCKS)


# The rules themselves: each must find its own fault.


def test_long_functions_and_files_are_found() -> None:
    body = "    pass\n"
    assert too_long("def f():\n" + body * (FUNCTION_LINES - 1)) == []
    assert too_long("def f():\n" + body * FUNCTION_LINES) == [f"f has {FUNCTION_LINES + 1} lines"]
    assert too_long("class C:\n  async def g():\n" + body * FUNCTION_LINES) == [f"g has {FUNCTION_LINES + 1} lines"]
    assert too_long("x = 1\n" * (FILE_LINES + 1)) == [f"the file has {FILE_LINES + 1} lines"]


def test_classes_are_counted_with_their_methods() -> None:
    text = "class A:\n    x: int\n\n    def f(self): ...\n\n    async def g(self): ...\n\n\nclass _B:\n    pass\n"
    assert outline(text).classes == (("A", 2), ("_B", 0))


def test_the_percentile_is_the_value_that_nine_of_ten_do_not_exceed() -> None:
    assert ninetieth_percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 100]) == 9
    assert ninetieth_percentile([1] * 8 + [50, 60]) == 50
    assert ninetieth_percentile([7]) == 7


@pytest.mark.parametrize("name", ["src/util/a.py", "api/string_utils.py", "queue_manager.py", "tests/common/test_a.py"])
def test_banned_names_are_found(name: str) -> None:
    assert banned_words(Path(name))


def test_domain_names_are_not_banned() -> None:
    assert banned_words(Path("src/makeway/api/quantity.py")) == set()


def test_a_missing_door_sign_is_found() -> None:
    assert not has_door_sign("# a comment is no sign\nx = 1\n")
    assert not has_door_sign('""\n')


def test_a_missing_or_empty_unreleased_section_is_found() -> None:
    assert has_unreleased_section("# Changelog\n\n## Unreleased\n\n- something\n")
    assert not has_unreleased_section("# Changelog\n\n## 0.1.0\n\n- something\n")
    assert not has_unreleased_section("# Changelog\n\n## Unreleased\n\n## 0.1.0\n")


def test_an_export_of_nothing_is_found() -> None:
    assert undefined_exports('__all__ = ["A", "b"]\n\nfrom c import A\n') == {"b"}
    assert undefined_exports('__all__ = ["A", "b"]\n\nfrom c import b as A\n\n\ndef b() -> None: ...\n') == set()


def test_an_import_of_nothing_is_found() -> None:
    assert imports_of_nothing('RUN = "from makeway.core.trace import Rule, WORDS"') == []
    gone = "from makeway." + "cli import main, nowhere; from makeway." + "nowhere.at import all"
    assert imports_of_nothing(gone) == ["makeway.cli.nowhere", "makeway.nowhere.at"]


@pytest.mark.parametrize(
    "text",
    [
        "see /" + "work/main for it",
        "(/" + "work)",
        "#!/" + "root/bin/python",
        "/" + "home/anna/src",
        "https://" + "pypi" + ".org/simple",
        "https://files." + "pythonhosted" + ".org/x.whl",
        "a==1\n--" + "index-url https://example.invalid/simple\n",
        "--" + "extra-index-url=x",
        "index-" + "url = x",
    ],
)
def test_private_matters_are_found(text: str) -> None:
    assert private_matters(text)


@pytest.mark.parametrize("text", ["/apis/kueue.x-k8s.io/v1beta2/workloads", "a network/worker", "--no-emit-index-url"])
def test_public_matters_are_left_alone(text: str) -> None:
    assert private_matters(text) == []


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_words_and_a_paragraph(rule: Rule) -> None:
    assert WORDS[rule]
    assert f"\n**{rule}** — " in (ROOT / "docs/reference/rules.md").read_text("utf-8")
