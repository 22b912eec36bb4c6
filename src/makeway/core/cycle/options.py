"""Options of one family (KEP-8691): which is preferred, which yields, which takes over (S-12.4, 12.5, 12.7).

Not here: making Options, gates and status of the family (the Options' controller).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from makeway.core.model import FlavorName, Queue, Workload

if TYPE_CHECKING:
    from makeway.core.state import State

NOWHERE = 2**31  # after every flavor of a group


def preference(queue: Queue, allowed: frozenset[FlavorName]) -> tuple[int, ...]:
    """How much a queue prefers an Option with these flavors: the best place per group; less is better (S-12.4)."""
    return tuple(
        min((place for place, flavor in enumerate(group.flavors) if flavor in allowed), default=NOWHERE)
        for group in queue.groups
    )


def running_sibling(state: State, workload: Workload) -> Workload | None:
    """The Option of its family that is Admitted."""
    if workload.family is None:
        return None
    siblings = state.holders.of_family.get(workload.family, {})
    return next((each for key, each in sorted(siblings.items()) if each.admitted and key != workload.key), None)


def stays_beside(queue: Queue, option: Workload, running: Workload) -> bool:
    """Whether an Option may be admitted although ``running`` is: it is preferred, and the policy keeps it (S-12.5)."""
    if option.option_rank >= running.option_rank or queue.on_success == "RemoveOther":
        return False
    return queue.on_success != "RemoveBelowTarget" or not _is_below_target(queue, option)


def _is_below_target(queue: Queue, option: Workload) -> bool:
    allowed = frozenset(flavor for pod_set in option.pod_sets for flavor in pod_set.allowed)
    for group, place in zip(queue.groups, preference(queue, allowed), strict=True):
        if queue.target_flavor in group.flavors:
            return place > group.flavors.index(queue.target_flavor)
    return False
