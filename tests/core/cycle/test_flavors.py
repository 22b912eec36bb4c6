"""Which flavor each resource gets (S-6), by scenario; the outcome of evictions is given, not searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.cycle.flavors import AT_END, Assignment, Mode, NoFit, Search, Tried, is_better
from makeway.core.model import (
    FR,
    Expression,
    Flavor,
    FlavorGroup,
    FlavorName,
    ResourceName,
    Taint,
    Toleration,
    Workload,
)
from makeway.core.policy import Policy, ResourcePolicy
from makeway.core.state import State
from makeway.core.trace import Rule
from makeway.testing.builders import CPU, cohort, flavor, holder, pod_set, queue, state, workload

MODES = (Mode.NO_FIT, Mode.NO_CANDIDATES, Mode.PREEMPT, Mode.RECLAIM, Mode.FIT)


def assign(
    on: State, each: Workload, *, evicting: Mapping[str, tuple[Mode, int]] | None = None, tried: Tried | None = None,
    only: Any = None,
) -> Assignment:  # fmt: skip
    """``evicting`` says per flavor what preemption would achieve; nothing, where it is silent."""

    def simulate(fr: FR, amount: int) -> tuple[Mode, int]:
        assert amount > 0, "nobody leaves for one who asks for nothing"
        return (evicting or {}).get(fr[0], (Mode.NO_CANDIDATES, 0))

    search = Search(
        tree=on.tree, node=on.tree.queues[each.queue], queue=on.queues[each.queue], flavors=on.flavors,
        policy=on.policy, simulate=simulate, tried=tried or {}, only=only,
    )  # fmt: skip
    return search.assign(each, [part.count for part in each.pod_sets])


def chosen(found: Assignment) -> list[dict[str, str]]:
    return [{resource: choice.flavor for resource, choice in part.choices.items()} for part in found.pod_sets]


# --- fungibility -----------------------------------------------------------------------------------------------------


def six_eleven(**settings: Any) -> State:
    """F1 is full, 2 of it with lower priority; of F2 the cohort has 4 to lend."""
    return state(
        queue("q", {"f1": 4, "f2": 0}, cohort="r", within="LowerPriority", **settings),
        queue("y", {"f2": 4}, cohort="r"),
        holder("low", usage={"f1": 4}, priority=-1),
    )


FUNGIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "S-6.11 by default a later flavor that fits is better than a preemption": ({}, "f2"),
    "S-6.11 borrowing is tried last, and still better": ({"try_next_when_borrowing": True}, "f2"),
    "S-6.11 unless preemption is preferred": ({"try_next_when_borrowing": True, "prefer_preemption": True}, "f1"),
    "S-6.11 or ends the search": ({"try_next_when_preempting": False}, "f1"),
}


@pytest.mark.parametrize(("settings", "flavor_name"), FUNGIBLE.values(), ids=FUNGIBLE)
def test_fungibility(settings: dict[str, Any], flavor_name: str) -> None:
    found = assign(six_eleven(**settings), workload("w", cpu=2), evicting={"f1": (Mode.PREEMPT, 0)})
    assert chosen(found) == [{"cpu": flavor_name}], found.steps


def test_P13_a_flavor_that_needs_a_preemption_nobody_can_give_loses_to_one_that_fits() -> None:
    found = assign(six_eleven(prefer_preemption=True, try_next_when_borrowing=True), workload("w", cpu=2))
    assert chosen(found) == [{"cpu": "f2"}]
    assert found.mode is Mode.FIT


def gateless(on: State, gate: str) -> State:
    on.policy = replace(on.policy, gates=replace(on.policy.gates, **{gate: False}))
    return on


def test_S_6_7_without_fungibility_the_first_that_fits_or_the_highest_mode_is_taken() -> None:
    on = gateless(six_eleven(try_next_when_borrowing=True, prefer_preemption=True), "flavor_fungibility")
    assert chosen(assign(on, workload("w", cpu=2), evicting={"f1": (Mode.PREEMPT, 0)})) == [{"cpu": "f2"}]
    found = assign(on, workload("w", cpu=4, priority=1), evicting={"f1": (Mode.RECLAIM, 0)})
    assert chosen(found) == [{"cpu": "f2"}]


RANKED = {
    "S-6.6 whatever the level, no fit loses": ((Mode.NO_CANDIDATES, 5), (Mode.NO_FIT, 0), True, True),
    "S-6.6 no candidates lose to a preemption": ((Mode.PREEMPT, 5), (Mode.NO_CANDIDATES, 0), True, True),
    "S-6.6 a higher mode at a higher level": ((Mode.FIT, 1), (Mode.PREEMPT, 0), True, False),
    "S-6.6 the same mode at a lower level": ((Mode.FIT, 0), (Mode.FIT, 1), True, True),
    "S-6.6 a higher mode at the same level": ((Mode.RECLAIM, 1), (Mode.PREEMPT, 1), True, True),
    "S-6.6 equal is not better": ((Mode.FIT, 0), (Mode.FIT, 0), False, False),
    "S-6.6 both without fit": ((Mode.NO_FIT, 0), (Mode.NO_FIT, 1), False, False),
}


@pytest.mark.parametrize(("a", "b", "borrowing", "preempting"), RANKED.values(), ids=RANKED)
def test_ranking(a: tuple[Mode, int], b: tuple[Mode, int], borrowing: bool, preempting: bool) -> None:
    assert is_better(a, b, prefer_preemption=False) is borrowing
    assert is_better(a, b, prefer_preemption=True) is preempting


outcome = st.tuples(st.sampled_from(MODES), st.integers(0, 2))


@pytest.mark.property
@given(a=outcome, b=outcome, c=outcome, prefer=st.booleans())
def test_P23_the_ranking_is_an_order(
    a: tuple[Mode, int], b: tuple[Mode, int], c: tuple[Mode, int], prefer: bool
) -> None:
    def better(x: tuple[Mode, int], y: tuple[Mode, int]) -> bool:
        return is_better(x, y, prefer_preemption=prefer)

    assert not (better(a, b) and better(b, a))
    assert not (better(a, b) and better(b, c)) or better(a, c)
    assert a == b or better(a, b) or better(b, a) or a[0] is b[0] is Mode.NO_FIT


# --- the mode of one flavor ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    cpu: int
    mode: Mode
    level: int = 0
    why: NoFit | None = None
    settings: tuple[tuple[str, Any], ...] = ()


CASES = [
    Case("S-6.5.1 more than could ever be had", 11, Mode.NO_FIT, why=NoFit.EXCEEDS_MAX_QUOTA),
    Case("S-6.5.2 within its own quota", 1, Mode.FIT),
    Case("S-6.5.2 by borrowing", 2, Mode.FIT, 1),
    Case("S-6.5.3 within its nominal quota it may displace", 3, Mode.NO_CANDIDATES, 1),
    Case("S-6.5.4 beyond it it may not", 6, Mode.NO_FIT, why=NoFit.WAITING_FOR_QUOTA),
    Case(
        "S-6.5.3 unless it may displace while borrowing",
        6,
        Mode.NO_CANDIDATES,
        1,
        settings=(("borrow", "LowerPriority"),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_mode(case: Case) -> None:
    """5 of its own, 4 of them used, and 5 of another, 3 of them used: 1 of its own, 3 all in all."""
    on = state(
        queue("q", 5, cohort="r", **dict(case.settings)),
        queue("y", 5, cohort="r"),
        holder("mine", cpu=4),
        holder("theirs", queue="y", cpu=4),
    )
    found = assign(on, workload("w", cpu=case.cpu))
    assert (found.mode, found.level, found.why) == (case.mode, case.level, case.why), found.steps


def test_S_6_5_3_one_level_below_the_top_a_cohort_may_reclaim_even_beyond_its_queues_quota() -> None:
    on = state(
        queue("q", 0, cohort="l"), cohort("l", 3, parent="r"), queue("y", 1, cohort="r"), holder("y1", queue="y", cpu=3)
    )
    found = assign(on, workload("w", cpu=3), evicting={"default": (Mode.RECLAIM, 1)})
    assert (found.mode, found.level) == (Mode.RECLAIM, 1)
    assert found.need == (("default", "cpu"),)


def test_P10_nothing_is_asked_for_so_it_fits_even_where_more_is_used_than_there_is() -> None:
    on = state(queue("q", {"f": {"cpu": 4, "gpu": 1}}), holder("over", usage={"f": {"gpu": 3}}))
    found = assign(on, workload("w", requests={"cpu": 2, "gpu": 0}))
    assert (found.mode, found.need) == (Mode.FIT, ())


def test_fair_sharing_may_displace_while_borrowing() -> None:
    policy = replace(Policy.default(), fair_strategies=("LessThanInitialShare",))
    line = queue("q", 0, cohort="r", reclaim="Any")
    on = state(line, queue("y", 2, cohort="r"), holder("y1", queue="y", cpu=2), policy=policy)
    assert assign(on, workload("w", cpu=1)).mode is Mode.NO_CANDIDATES


# --- several resources and podSets -----------------------------------------------------------------------------------


def test_S_6_1_the_first_resource_of_a_group_decides_for_all_of_it() -> None:
    on = state(
        queue("q", {"f1": {"cpu": 1, "gpu": 8}, "f2": {"cpu": 8, "gpu": 8}}, within="LowerPriority"),
        holder("h", usage={"f1": {"cpu": 1}}),
    )
    found = assign(on, workload("w", requests={"gpu": 1, "cpu": 1}), evicting={"f1": (Mode.PREEMPT, 0)})
    assert chosen(found) == [{"cpu": "f2", "gpu": "f2"}]


def test_S_6_1_podsets_of_a_group_get_the_same_flavors_for_their_sum() -> None:
    on = state(queue("q", {"f1": 3, "f2": 9}))
    grouped = (pod_set("a", cpu=2, group="g"), pod_set("b", cpu=2), pod_set("c", cpu=2, group="g"))
    assert chosen(assign(on, workload("w", pod_sets=grouped))) == [{"cpu": "f2"}, {"cpu": "f1"}, {"cpu": "f2"}]
    apart = tuple(replace(each, group="") for each in grouped)
    assert chosen(assign(on, workload("w", pod_sets=apart))) == [{"cpu": "f1"}, {"cpu": "f2"}, {"cpu": "f2"}]


def test_S_6_5_earlier_podsets_count_against_the_same_flavor() -> None:
    on = state(queue("q", 3))
    both = (pod_set("a", cpu=2), pod_set("b", cpu=2))
    found = assign(on, workload("w", pod_sets=both))
    assert (found.mode, found.why) == (Mode.NO_FIT, NoFit.EXCEEDS_MAX_QUOTA)
    assert found.steps[-1].numbers == (2000, 2000, 3000)
    assert chosen(found) == [{"cpu": "default"}, {}], "S-6.10 what earlier podSets were assigned stays"


def test_S_6_2_what_the_queue_does_not_cover_does_not_fit() -> None:
    on = state(queue("q", 3))
    asked = workload("w", requests={"cpu": 1, "gpu": 1})
    found = assign(on, asked)
    assert (found.mode, found.why) == (Mode.NO_FIT, NoFit.NO_MATCHING_FLAVOR)
    on.policy = replace(on.policy, resources=ResourcePolicy(ignores_undeclared=True))
    found = assign(on, asked)
    assert (found.mode, chosen(found)) == (Mode.FIT, [{"cpu": "default"}])


def test_S_1_10_none_of_what_is_not_covered_is_ignored() -> None:
    found = assign(state(queue("q", 3)), workload("w", requests={"cpu": 1, "gpu": 0}))
    assert (found.mode, chosen(found)) == (Mode.FIT, [{"cpu": "default"}])


def test_S_1_9_pods_are_counted_where_the_queue_covers_them() -> None:
    on = state(queue("q", {"f": {"cpu": 9, "pods": 3}}))
    assert assign(on, workload("w", count=3)).usage == {("f", "cpu"): 3000, ("f", "pods"): 3}
    assert assign(on, workload("w", count=4)).why is NoFit.EXCEEDS_MAX_QUOTA


def test_P21_a_negative_request_is_nothing_and_a_huge_one_saturates() -> None:
    on = state(queue("q", 3))
    odd = workload("w", pod_sets=(pod_set("a", requests={CPU: -5}), pod_set("b", count=2**40, cpu=2**40)))
    found = assign(on, odd)
    assert [part.requests["cpu"] for part in found.pod_sets] == [0, 2**63 - 1]  # type: ignore[index]
    assert found.why is NoFit.EXCEEDS_MAX_QUOTA


GROUPS = (
    FlavorGroup(resources=(CPU,), flavors=(FlavorName("c1"), FlavorName("c2"))),
    FlavorGroup(resources=(ResourceName("gpu"),), flavors=(FlavorName("g1"),)),
)


def test_each_resource_group_has_its_own_flavors_and_the_worst_decides() -> None:
    on = state(
        queue("q", {"c1": {"cpu": 4}, "c2": {"cpu": 4}, "g1": {"gpu": 2}}, groups=GROUPS),
        holder("h", usage={"g1": {"gpu": 2}}),
    )
    found = assign(on, workload("w", requests={"cpu": 1, "gpu": 1}))
    assert chosen(found) == [{"cpu": "c1", "gpu": "g1"}]
    assert (found.mode, found.need) == (Mode.NO_CANDIDATES, (("g1", "gpu"),))


def test_S_6_10_the_most_severe_of_the_groups_reasons_is_told() -> None:
    quotas = {"c1": {"cpu": 4}, "c2": {"cpu": 4}, "g1": {"gpu": 2}}
    on = state(queue("q", quotas, groups=GROUPS), flavor("g1", taints=[Taint("t", "", "NoSchedule")]))
    assert assign(on, workload("w", requests={"cpu": 9, "gpu": 1})).why is NoFit.NO_MATCHING_FLAVOR
    on = state(queue("q", quotas, groups=GROUPS), flavor("c1", taints=[Taint("t", "", "NoSchedule")]))
    found = assign(on, workload("w", requests={"cpu": 9, "gpu": 1}))
    assert found.why is NoFit.EXCEEDS_MAX_QUOTA, "of one group's flavors the mildest counts"


@pytest.mark.parametrize(("worst", "mode"), [(True, Mode.PREEMPT), (False, Mode.FIT)])
def test_S_6_9_a_podset_is_as_bad_as_its_worst_resource(worst: bool, mode: Mode) -> None:
    """Where preemption is preferred, cpu that borrows is the worse one and stands for both; it fits, gpu does not."""
    on = state(
        queue("q", {"f": {"cpu": 0, "gpu": 1}}, cohort="r", prefer_preemption=True),
        queue("y", {"f": {"cpu": 4, "gpu": 0}}, cohort="r"),
        holder("h", usage={"f": {"gpu": 1}}),
    )
    on.policy = replace(on.policy, gates=replace(on.policy.gates, assignment_mode_by_worst_resource=worst))
    found = assign(on, workload("w", requests={"cpu": 1, "gpu": 1}), evicting={"f": (Mode.PREEMPT, 0)})
    assert (found.mode, found.level) == (mode, 1)


def test_S_6_6_the_worst_resource_of_a_flavor_is_the_same_one_without_fungibility() -> None:
    """cpu borrows and so stands for f: it fits, and the first that fits is taken; f2 would do for both."""
    on = state(
        queue("q", {"f": {"cpu": 0, "gpu": 1}, "f2": {"cpu": 1, "gpu": 1}}, cohort="r", prefer_preemption=True),
        queue("y", {"f": {"cpu": 4, "gpu": 0}}, cohort="r"),
        holder("h", usage={"f": {"gpu": 1}}),
    )
    found = assign(
        gateless(on, "flavor_fungibility"),
        workload("w", requests={"cpu": 1, "gpu": 1}),
        evicting={"f": (Mode.PREEMPT, 0)},
    )
    assert (found.mode, chosen(found)) == (Mode.PREEMPT, [{"cpu": "f", "gpu": "f"}])


# --- which flavors are there for it ----------------------------------------------------------------------------------

SPOT = flavor("spot", {"type": "spot"})


def match(part: Any, *flavors: Flavor) -> bool:
    on = state(queue("q", {each.name: 9 for each in flavors}), *flavors)
    return assign(on, workload("w", pod_sets=(part,))).mode is Mode.FIT


def term(*expressions: tuple[str, str, tuple[str, ...]]) -> tuple[Expression, ...]:
    return tuple(Expression(*each) for each in expressions)


LABELS: dict[str, tuple[dict[str, Any], bool]] = {
    "S-6.4 keys that the flavor lacks are passed over": ({"node_selector": {"type": "spot", "zone": "a"}}, True),
    "S-6.4 those it has must match": ({"node_selector": {"type": "ondemand"}}, False),
    "S-6.4 a term that loses all its expressions holds": (
        {"affinity": (term(("zone", "In", ("a",))), term(("type", "In", ("ondemand",))))}, True,
    ),
    "S-6.4 a term that keeps one must hold": ({"affinity": (term(("type", "In", ("ondemand",))),)}, False),
    "S-6.4 one of several terms is enough": (
        {"affinity": (term(("type", "In", ("x",))), term(("type", "Exists", ())))}, True,
    ),
    "no terms at all hold": ({"affinity": ()}, True),
    "NotIn": ({"affinity": (term(("type", "NotIn", ("spot",))),)}, False),
    "DoesNotExist": ({"affinity": (term(("type", "DoesNotExist", ())),)}, False),
}  # fmt: skip


@pytest.mark.parametrize(("part", "holds"), LABELS.values(), ids=LABELS)
def test_labels(part: dict[str, Any], holds: bool) -> None:
    assert match(pod_set(**part), SPOT) is holds


NUMBERS = {
    "Gt": ("Gt", "5", ("4",), True),
    "Gt an equal": ("Gt", "5", ("5",), False),
    "Lt": ("Lt", "5", ("6",), True),
    "Lt an equal": ("Lt", "5", ("5",), False),
    "no number": ("Gt", "five", ("4",), False),
    "nothing to compare with": ("Gt", "5", (), False),
}


@pytest.mark.parametrize(("operator", "value", "values", "holds"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_in_labels(operator: str, value: str, values: tuple[str, ...], holds: bool) -> None:
    assert Expression("n", operator, values).holds({"n": value}) is holds
    assert not Expression("n", operator, values).holds({})


TAINT = Taint("gpu", "yes", "NoSchedule")
TOLERATIONS = {
    "none": ((), False),
    "equal": ((Toleration("gpu", "Equal", "yes", "NoSchedule"),), True),
    "any effect": ((Toleration("gpu", "Equal", "yes"),), True),
    "another effect": ((Toleration("gpu", "Equal", "yes", "NoExecute"),), False),
    "another value": ((Toleration("gpu", "Equal", "no"),), False),
    "another key": ((Toleration("tpu", "Exists"),), False),
    "exists": ((Toleration("gpu", "Exists"),), True),
    "everything": ((Toleration("", "Exists"),), True),
}


@pytest.mark.parametrize(("tolerations", "tolerated"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_taints(tolerations: tuple[Toleration, ...], tolerated: bool) -> None:
    assert match(pod_set(tolerations=tolerations), flavor("f", taints=[TAINT])) is tolerated
    assert match(pod_set(), flavor("f", taints=[TAINT], tolerations=tolerations)) is tolerated


def test_S_6_3_flavors_that_are_not_allowed_or_not_there_are_passed_over() -> None:
    on = state(queue("q", {"f1": 9, "f2": 9, "f3": 9}))
    part = pod_set(allowed=frozenset({FlavorName("f2"), FlavorName("f3")}))
    assert chosen(assign(on, workload("w", pod_sets=(part,)))) == [{"cpu": "f2"}]
    del on.flavors[FlavorName("f2")]
    found = assign(on, workload("w", pod_sets=(part,)))
    assert chosen(found) == [{"cpu": "f3"}]
    assert [step.rule for step in found.steps] == [Rule.NOT_ALLOWED, Rule.NOT_FOUND, Rule.FITS]


# --- resuming --------------------------------------------------------------------------------------------------------


def three(*, used: tuple[str, ...] = (), **settings: Any) -> State:
    return state(
        queue("q", {"f1": 0, "f2": 0, "f3": 0}, cohort="r", **settings),
        queue("y", {"f1": 2, "f2": 2, "f3": 2}, cohort="r"),
        *(holder(name, queue="y", usage={name: 2}) for name in used),
    )


def test_S_6_12_the_scan_goes_on_after_the_flavor_where_it_stopped() -> None:
    asked = workload("w", cpu=2)
    first = assign(three(), asked)
    assert (chosen(first), first.tried) == ([{"cpu": "f1"}], {(0, "cpu"): 0})
    second = assign(three(used=("f2",)), asked, tried=first.tried)
    assert (chosen(second), second.tried) == ([{"cpu": "f3"}], {(0, "cpu"): AT_END}), "f1 is not looked at"
    assert chosen(assign(three(), asked, tried=second.tried)) == [{"cpu": "f1"}], "from the front again"


def test_S_5_7_3_a_second_look_sees_only_the_flavor_of_the_first() -> None:
    asked = workload("w", cpu=2)
    only = {(0, CPU): FlavorName("f2")}
    found = assign(three(), asked, only=only)
    assert (chosen(found), found.tried) == ([{"cpu": "f2"}], {(0, "cpu"): 1})
    kept = three(try_next_when_borrowing=True)
    assert assign(kept, asked, only=only).tried == {(0, "cpu"): AT_END}, "a scan that does not stop there runs on"


def test_a_scan_that_has_nothing_left_says_so() -> None:
    found = assign(three(), workload("w", cpu=2), tried={(0, CPU): 2})
    assert (found.mode, found.why) == (Mode.NO_FIT, NoFit.NO_MATCHING_FLAVOR)


def test_public_names() -> None:
    assert [mode.public for mode in MODES] == ["NoFit", "Preempt", "Preempt", "Preempt", "Fit"]
    assert [why.public for why in NoFit] == ["WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]
