"""Structs are ready for decoding when their module is there: threads that meet them first do not end the process."""

from __future__ import annotations

import subprocess
import sys

EVERY_MODULE = """
import importlib, pkgutil, sys
import msgspec
import makeway

names = [each.name for each in pkgutil.walk_packages(makeway.__path__, "makeway.")]
for name in names:
    if not name.endswith("__main__") and not name.startswith("makeway.testing"):  # that one needs the tools of tests
        importlib.import_module(name)

def below(base):
    for kind in base.__subclasses__():
        yield kind
        yield from below(kind)

found_out = []

def notice(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "get_class_annotations":
        found_out.append(frame.f_locals["obj"].__qualname__)

structs = [  # those of core are values that are never decoded: they hold what no JSON says
    kind for kind in below(msgspec.Struct)
    if kind.__module__.startswith("makeway.") and not kind.__module__.startswith("makeway.core.")
]
more = type("More", (msgspec.Struct,), {"__annotations__": {"name": str}}) if "--late" in sys.argv else None
sys.setprofile(notice)
for kind in [*structs, *filter(None, [more])]:
    msgspec.json.Decoder(kind)
sys.setprofile(None)
print(len(structs), *found_out)
"""


def found_out(*options: str) -> tuple[int, list[str]]:
    """How many structs there are, and those that msgspec had to find out about."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_MODULE, *options], capture_output=True, text=True, check=True, timeout=120
    )
    count, *names = done.stdout.split()
    return int(count), names


def test_nothing_is_left_to_find_out_about_any_struct() -> None:
    count, late = found_out()
    assert count > 200
    assert late == [], "give it the decorator `ready`"


def test_one_that_is_not_ready_would_be_seen() -> None:
    assert found_out("--late")[1] == ["More"]


THREADS_THAT_BEGIN = """
import random, sys
from threading import Barrier, Thread
from makeway.api import codec
from makeway.api.versions import KINDS

sys.setswitchinterval(1e-6)
together = Barrier(4)

def read(seed):
    kinds = [each.type for each in KINDS]
    random.Random(seed).shuffle(kinds)
    together.wait()
    for kind in kinds:
        codec.decode(b'{"metadata": {"name": "x"}}', kind)

threads = [Thread(target=read, args=(seed,)) for seed in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_may_meet_each_kind_for_the_first_time_together() -> None:
    """Of 25 runs before, all ended by a segmentation fault."""
    done = subprocess.run([sys.executable, "-c", THREADS_THAT_BEGIN], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
