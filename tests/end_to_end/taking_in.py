"""The fate of an object that a client writes: it is refused, or harmless for all that read it.

An object that a Store accepts goes to all its readers, in virtual time: the controllers of a server of one machine, an
engine that starts anew, tables, the plan and the first status of a node agent. Their errors are not caught here, and an
object that an engine sets aside counts as an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from makeway.adapters.node.environment import NodePlace, NotThere
from makeway.adapters.node.fields import NodeContext, gpus_in, planned
from makeway.adapters.node.statuses import waiting_status
from makeway.adapters.node.supervision.records import PLAN, read_plan, write
from makeway.adapters.server.resources.tables import table
from makeway.api import codec
from makeway.api.objects.configuration import Configuration
from makeway.api.problems import Problem, has_errors
from makeway.api.quantity import Quantity
from makeway.api.reading.documents import Tree
from makeway.api.validation import validate
from makeway.api.versions import KINDS, from_stored
from makeway.core.lowering import policy_of
from makeway.runtime.ports import Invalid, Stored, StoreError
from makeway.testing.bad_values import FieldPlace, good_object, planted
from tests.controllers.pod_world import PODS, PodWorld, queues

Fate = Literal["refused", "harmless"]
SECONDS = 20  # of virtual time for the controllers
SET_ASIDE = "makeway_objects_set_aside_total"
REQUESTS = ("Binding", "Eviction", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview")
HERE = NodeContext(
    NodePlace("n", "10.0.0.1", {"cpu": Quantity.parse("4")}), base={"PATH": "/bin"}, agent="/run/agent.sock"
)


class Everything:
    """Secrets and ConfigMaps of any name, with the keys that valid objects ask for."""

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return {"x": b"\xff"}

    config_map = secret


class Taking:
    """``folder`` is for plans of pods. Refusals have a path; ``misplaced`` collects those whose path is not near the
    wrong field.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.misplaced: list[tuple[FieldPlace, Tree, list[str]]] = []

    def fate(self, place: FieldPlace, value: Tree) -> Fate:
        tree = planted(place, value)
        if place.kind.name in REQUESTS or place.kind.type is Configuration:
            return self._read_only(place, value, tree)
        world = PodWorld()
        world.create(*queues(50))
        try:
            stored = world.store.create(tree)
            if place.is_status:
                world.settle()
                stored = world.store.get(stored.kind, stored.namespace, stored.name)
                shown = from_stored(place.kind, place.version, stored.tree())
                told = tree["status"] if len(place.steps) == 1 else {**(shown.get("status") or {}), **tree["status"]}
                stored = world.store.update_status({**shown, "status": told})
        except Invalid as error:
            self._note(place, value, error.problems)
            _try_as_update(world, place, tree)
            return "refused"
        except StoreError:
            return "refused"
        self._go_on(world, stored)
        return "harmless"

    def _read_only(self, place: FieldPlace, value: Tree, tree: dict[str, Tree]) -> Fate:
        """A kind that is answered and not stored, or read from a file."""
        reading = codec.read(tree)
        problems = [*reading.problems, *(validate(reading.value) if reading.value is not None else ())]
        if has_errors(problems):
            self._note(place, value, problems)
            return "refused"
        if isinstance(reading.value, Configuration):
            policy_of(reading.value)
        return "harmless"

    def _go_on(self, world: PodWorld, stored: Stored) -> None:
        world.settle()
        self._show(world)
        self._plan(world)
        world.run(SECONDS)
        _check(world)
        world.engine = world.new_engine()
        world.settle()
        _check(world)
        if _is_there(world, stored):
            world.store.delete(stored.kind, stored.namespace, stored.name)
        world.run(SECONDS)
        _check(world)

    def _show(self, world: PodWorld) -> None:
        for kind in KINDS:
            if kind.name in REQUESTS or kind.type is Configuration:
                continue
            items = world.store.list(kind.stored).items
            if items:
                table(kind, kind.versions[-1], items, now=world.clock.now, objects="Object")

    def _plan(self, world: PodWorld) -> None:
        for each in world.store.list(PODS).items:
            pod = each.value()
            waiting_status(pod, "ContainerCreating", "", world.clock.now)
            devices = [f"gpu-{i}" for i in range(min(8, gpus_in(pod)))]
            try:
                plan = planned(pod, self._folder, HERE, Everything(), devices).plan
            except NotThere:
                continue
            write(self._folder, PLAN, plan)
            assert read_plan(self._folder) == plan

    def _note(self, place: FieldPlace, value: Tree, problems: Sequence[Problem]) -> None:
        paths = [each.path for each in problems if each.severity == "error"]
        if not any(_is_near(place.path, path) for path in paths):
            self.misplaced.append((place, value, paths))


def _try_as_update(world: PodWorld, place: FieldPlace, tree: dict[str, Tree]) -> None:
    """An object that is refused on creation is also tried as an update, which is refused in another way."""
    if place.is_status:
        return
    world.store.create(good_object(place.kind, place.version))
    with suppress(StoreError):
        world.store.update(tree)


def _is_there(world: PodWorld, stored: Stored) -> bool:
    return any(each.uid == stored.uid for each in world.store.list(stored.kind).items)


def _is_near(field: str, told: str) -> bool:
    """Whether a problem names the field, something in it, a block around it, or a field beside it."""
    block, (items, bracket, _) = field.rpartition(".")[0], field.rpartition("[")
    if bracket and told.startswith(f"{items}["):
        return True  # some lists are named by the names of their items
    return not block or told.startswith((field, f"{block}.")) or (bool(told) and field.startswith(told))


def _check(world: PodWorld) -> None:
    metrics = world.engine.metrics
    assert metrics is not None
    aside = [line for line in metrics.text().splitlines() if line.startswith(SET_ASIDE)]
    assert not [line for line in aside if not line.endswith(" 0")], aside
