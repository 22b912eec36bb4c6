"""A process that is stuck, whatever signals it gets."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

_SEIZE, _INTERRUPT, _WALL = 0x4206, 0x4207, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def stuck(pid: int) -> Iterator[None]:
    """Hold a process as a debugger does: no signal but SIGKILL reaches it."""
    if _libc.ptrace(_SEIZE, pid, 0, 0) != 0:
        pytest.skip(f"processes cannot be held here: {os.strerror(ctypes.get_errno())}")
    assert _libc.ptrace(_INTERRUPT, pid, 0, 0) == 0
    os.waitpid(pid, _WALL)
    try:
        yield
    except BaseException:
        os.kill(pid, signal.SIGKILL)  # the test did not, and the wait below would have no end
        raise
    finally:
        with suppress(ChildProcessError):
            os.waitpid(pid, _WALL)  # the tracer reaps it first
