"""Transcripts: commands as a user types them, and all that they print. How they are read, run and compared.

A transcript is a text file. ``$ command`` is a line for the shell, ``> `` continues it, what follows is what it prints
to either stream, and ``[1]`` at the end its exit code, if that is not 0. ``$~ command`` is tried again until it prints
what is expected: others may have to do something first. ``<<< name`` to ``>>>`` puts a file into the folder in which
the commands run; a line that begins with ``#`` is for readers.

Every transcript has a namespace of its own, ``$NS``, which kubectl uses by default, and ``$N`` tells its names apart
from those of the same transcript under another kubectl. What differs on every run (times, ages, uids, versions of
objects, random suffixes, ports, folders) is printed as a word in capitals; runs of spaces inside a line count as two.
A line that some kubectls do not print begins with the version from which on it is printed so: ``1.37|``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

TAGS = ("1.32", "1.37")  # where what kubectl prints has changed; each counts up to the next
PATIENCE_SECONDS = 15.0
COMMAND_SECONDS = 60
_TAGGED = re.compile(r"(\d+\.\d+)\|(?: (.*)|$)")
_NORMAL: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), word)
    for pattern, word in (
        (r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n", ""),  # what kubectl logs about itself
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "TIME"),
        (r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w\w\w \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"((?:Resource Version|resourceVersion\"?): +\"?)\d+", r"\1VERSION"),
        (r"(?<=  )\d+(s|m|h|d|m\d+s|h\d+m|d\d+h)(?=\s|$)", "AGE"),
        (r"^\d+(s|m|h|d|m\d+s)(?= )", "AGE"),
        (r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?=[\s\"'.,)]|$)", "-RANDOM"),
        (r"-[0-9a-f]{5}(?=[\s\"'.,)]|$)", "-RANDOM"),
        (r"(LIVE|MERGED)-\d+/", r"\1/"),
        (r"kubectl-edit-\d+", "kubectl-edit-RANDOM"),
        (r"\(\d\w* ago\)", "(AGE ago)"),
        (r"\b(was|waited) \d+s\b", r"\1 AGE"),
        (r"^UID +\w+$", "UID  TOKEN"),
        (r"https://127\.0\.0\.1:\d+", "https://SERVER"),
        (r"(?<!^[+-])(?<=\S) {2,}", "  "),
        (r" +$", ""),
    )
)


@dataclass
class Step:
    """One command, and the lines that each kubectl (None: every one) prints."""

    command: str
    is_tried_again: bool
    printed: list[tuple[str | None, str]] = field(default_factory=list)
    before: list[str] = field(default_factory=list)  # comments and files, as they stand in the transcript

    def expected(self, version: str) -> str:
        tag = max((each for each in TAGS if minor(each) <= minor(version)), key=minor, default=TAGS[0])
        return "\n".join(line for each, line in self.printed if each in (None, tag)).strip("\n")


def minor(version: str) -> int:
    return int(version.partition(".")[2])


@dataclass
class Transcript:
    path: Path
    steps: list[Step]
    files: dict[str, str]
    after: list[str]


def read(path: Path) -> Transcript:
    steps: list[Step] = []
    files: dict[str, str] = {}
    waiting: list[str] = []
    lines = iter(path.read_text("utf-8").splitlines())
    for line in lines:
        if line.startswith(("<<< ", "#", "$ ", "$~ ")) and steps:
            while steps[-1].printed and not steps[-1].printed[-1][1]:  # an empty line before it is for readers
                waiting.append(steps[-1].printed.pop()[1])
        if line.startswith("<<< "):
            content = list(takewhile(lambda inner: inner != ">>>", lines))
            files[line[4:].strip()] = "\n".join(content) + "\n"
            waiting += [line, *content, ">>>"]
        elif line.startswith("#") or (not steps and not line):
            waiting.append(line)
        elif line.startswith(("$ ", "$~ ")):
            mark, _, command = line.partition(" ")
            steps.append(Step(command, mark == "$~", before=waiting))
            waiting = []
        elif line.startswith("> ") and steps and not steps[-1].printed:
            steps[-1].command += "\n" + line[2:]
        elif waiting and not line:
            waiting.append(line)
        else:
            tagged = _TAGGED.fullmatch(line)
            steps[-1].printed.append((tagged[1], tagged[2] or "") if tagged else (None, line))
    return Transcript(path, steps, files, waiting)


@dataclass(frozen=True)
class Stage:
    """The place where a transcript runs: a folder, and what its commands know."""

    folder: Path
    kubectl: Path
    version: str  # 1.37
    namespace: str
    kubeconfigs: Mapping[str, str]

    @property
    def suffix(self) -> str:
        return f"v{self.version.partition('.')[2]}"

    def prepare(self, transcript: Transcript) -> None:
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(self.kubectl)
        for name, text in self.kubeconfigs.items():
            (self.folder / name).write_text(text)
        for name, text in transcript.files.items():
            (self.folder / name).write_text(self._filled(text))

    def run(self, command: str) -> str:
        """Return the output of a command, with values that differ on every run replaced by words."""
        done = subprocess.run(
            ["/bin/sh", "-c", self._filled(command)], cwd=self.folder, env=self._environment(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=COMMAND_SECONDS,
            check=False,
        )  # fmt: skip
        text = done.stdout.rstrip("\n")
        if done.returncode:
            text += f"\n[{done.returncode}]"
        return self.normal(text).strip("\n")

    def _filled(self, text: str) -> str:
        return text.replace("$NS", self.namespace).replace("$N", self.suffix)

    def _environment(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        known = {"PATH": path, "KUBECONFIG": str(self.folder / "admin"), "HOME": str(self.folder.parent), "TZ": "UTC"}
        return {**known, "TMPDIR": str(self.folder), "LC_ALL": "C.UTF-8", "KUBECTL_KUBERC": "false"}

    def normal(self, text: str) -> str:
        text = text.replace(str(self.folder), "DIR").replace(self.namespace, "$NS").replace(self.suffix, "$N")
        for pattern, word in _NORMAL:
            text = pattern.sub(word, text)
        return text

    def printed(self, step: Step) -> str:
        """Return the output of a step; of one that is tried again the first expected output, else the last."""
        expected, until = step.expected(self.version), time.monotonic() + PATIENCE_SECONDS
        while True:
            text = self.run(step.command)
            if not step.is_tried_again or text == expected or time.monotonic() > until:
                return text
            time.sleep(0.05)


def version_of(kubectl: Path) -> str:
    """Major and minor."""
    done = subprocess.run([kubectl, "version", "--client"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"v(\d+\.\d+)\.", done.stdout)
    return found[1] if found else ""


def on_path() -> Path | None:
    found = shutil.which("kubectl")
    return Path(found).resolve() if found else None
