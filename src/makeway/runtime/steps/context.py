"""What all parts of a step share: its time, the state, the known objects, and the observers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from makeway.controllers.contract import Action, Ref, View
from makeway.core.model import DAWN, Millis
from makeway.core.state import State
from makeway.runtime.executor import Executor
from makeway.runtime.set_aside import Probe, SetAside
from makeway.runtime.state_updates import StateUpdater
from makeway.runtime.steps.observers import Observer


@dataclass(slots=True)
class StepContext:
    state: State
    view: View
    updates: StateUpdater
    executor: Executor
    set_aside: SetAside
    observer: Observer
    stopwatch: Callable[[], float]  # seconds; only figures depend on it
    probe: Probe | None = None  # called before a part handles an object: a test may make that fail
    now: Millis = DAWN  # of the step that is running

    def begin(self, now: Millis) -> None:
        """A step begins."""
        self.now = self.updates.context.now = now

    def submit(self, action: Action) -> None:
        self.executor.submit(action, self.now)

    def gave_up(self, ref: Ref, part: str, error: Exception, *, again: bool = True) -> None:
        """A part cannot handle an object, and goes on without it. Raises the error where that is not tolerated."""
        self.set_aside.put(ref, part, error, self.now, again=again)

    def handled(self, ref: Ref, part: str) -> None:
        """A part has no trouble with an object, or none any more."""
        if self.set_aside:
            self.set_aside.handled(ref, part)
