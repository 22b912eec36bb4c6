"""Waiting lists: order, heads, parking, stickiness, waking (S-4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from makeway.core.model import DAWN, InvariantError, QueueName, Uid, Workload
from makeway.core.queueing.pending import HeadReturn, Pending, Requeue, Trigger, may_queue, shape
from makeway.core.undo import UndoLog
from makeway.testing.builders import pod_set, seconds, workload

Q = QueueName("q")
NOW = seconds(100)


def pending(*waiting: Workload, strict: bool = False) -> Pending:
    made = Pending(UndoLog())
    made.list_of(Q).strict = strict
    for each in waiting:
        made.push(each, NOW)
    return made


def keys(*names: str) -> list[str]:
    return [f"default/{name}" for name in names]


def head(of: Pending, *, due_only: bool = True, sticky_blocks: bool = False) -> str | None:
    found = of.head(Q, due_only=due_only, sticky_blocks=sticky_blocks)
    return None if found is None else found.uid


def back(of: Pending, each: Workload, reason: Requeue, **how: Any) -> bool:
    """Pop a head and put it back."""
    of.pop(each)
    return of.requeue(each, HeadReturn(reason, **how), NOW)


def everybody(_: Workload) -> bool:
    return True


def test_S_4_1_priority_then_time_then_family_then_rank_then_uid() -> None:
    made = pending(
        workload("z", queued=1),
        workload("a", queued=2),
        workload("high", priority=1, queued=9),
        workload("opt-2", queued=1, family=Uid("p"), option_rank=1, uid=Uid("a1")),
        workload("opt-1", queued=1, family=Uid("p"), option_rank=0, uid=Uid("z1")),
        workload("b", queued=1, uid=Uid("b")),
    )
    assert made.in_order(Q) == keys("high", "b", "opt-1", "opt-2", "z", "a")


@pytest.mark.parametrize("strict", [True, False])
def test_S_4_2_a_strict_queue_waits_for_its_first_another_passes_over_who_is_not_due(strict: bool) -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    made = pending(a, b, strict=strict)
    back(made, a, "PendingPreemption")
    assert head(made) == (None if strict else "b")
    assert head(made, due_only=False) == "a", "parity looks at every head in every cycle"


def test_a_sticky_head_that_is_not_due_blocks_only_without_claims() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    made = pending(b, a)
    back(made, a, "PendingPreemption")
    assert head(made, sticky_blocks=True) is None
    assert head(made, sticky_blocks=False) == "b"


def test_all_refused_means_no_head() -> None:
    a = workload("a")
    made = pending(a)
    back(made, a, "PreemptionFailed")
    assert head(made) is None
    made.happen(Trigger.RETRY, a)
    assert head(made) == "a"
    assert Pending(UndoLog()).head(Q, due_only=True, sticky_blocks=False) is None


REQUEUED: dict[str, tuple[Requeue, bool, bool]] = {
    "S-4.5 a namespace that does not match is parked everywhere": ("NamespaceMismatch", True, True),
    "S-4.5 what is not even considered": ("Generic", False, True),
    "S-4.5 no fit": ("NoFit", False, True),
    "S-4.5 nobody to displace": ("PreemptionNoCandidates", False, True),
    "S-4.5 a closed gate": ("PreemptionGated", False, True),
    "S-4.5 victims on their way": ("PendingPreemption", False, False),
    "S-4.5 a migration": ("PendingMigration", False, False),
    "S-4.5 writes that failed": ("PreemptionFailed", False, False),
    "S-4.5 lost to another entry": ("FailedAfterNomination", False, False),
}


@pytest.mark.parametrize(("reason", "strict", "best_effort"), REQUEUED.values(), ids=REQUEUED)
def test_who_is_parked(reason: Requeue, strict: bool, best_effort: bool) -> None:
    a = workload("a")
    assert back(pending(a, strict=True), a, reason) is strict
    assert back(pending(a), a, reason) is best_effort


def test_S_4_5_1_who_was_woken_meanwhile_or_has_flavors_left_is_not_parked_and_is_due() -> None:
    a = workload("a")
    for how in ({"woken": True}, {"has_untried": True}):
        made = pending(a)
        assert back(made, a, "NoFit", **how) is False
        assert head(made) == "a", how


def test_S_5_1_who_only_lost_to_another_entry_is_due_at_once() -> None:
    a = workload("a")
    made = pending(a)
    back(made, a, "FailedAfterNomination")
    assert head(made) == "a"


BACKING_OFF = {
    "no back-off": ({}, True),
    "Requeued is False": ({"backing_off": True}, False),
    "a time to come": ({"requeue_at": seconds(101)}, False),
    "a time that is now": ({"requeue_at": seconds(100)}, True),
}


@pytest.mark.parametrize(("fields", "may"), BACKING_OFF.values(), ids=BACKING_OFF)
def test_S_4_5_2_who_backs_off_is_parked(fields: dict[str, Any], may: bool) -> None:
    a = workload("a", **fields)
    assert may_queue(a, NOW) is may
    made = pending(a)
    assert (head(made) == "a") is may
    assert back(pending(workload("a")), a, "FailedAfterNomination") is not may
    assert made.wake([Q], NOW, everybody) == [], "nobody who may not, nobody who is in the line already"


def test_a_strict_head_that_backs_off_takes_no_alikes_with_it() -> None:
    a, b = workload("a", queued=1, requeue_at=seconds(200)), workload("b", queued=2)
    made = pending(b)
    back(made, a, "NoFit")
    assert made.in_order(Q) == [], "parked for its verdict, it is, and so are those of its shape"
    strict = pending(b, strict=True)
    back(strict, a, "NoFit")
    assert strict.in_order(Q) == keys("b")


def test_S_4_5_3_those_of_the_same_shape_are_parked_too_until_the_next_wake() -> None:
    a, b, other = workload("a", cpu=2, queued=1), workload("b", cpu=2, queued=2), workload("c", cpu=1, queued=3)
    made = pending(a, b, other)
    assert back(made, a, "NoFit")
    assert made.in_order(Q) == keys("c")
    made.push(workload("late", cpu=2), NOW)
    made.push(workload("different", cpu=2, priority=1), NOW)
    assert made.in_order(Q) == keys("different", "c")
    assert sorted(made.wake([Q], NOW, everybody)) == keys("a", "b", "late")
    made.push(workload("later", cpu=2, queued=9), NOW)
    assert "default/later" in made.in_order(Q)


def test_shapes_do_not_count_where_the_gate_is_off() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    made = pending(a, b)
    back(made, a, "NoFit", binds_shape=False)
    assert made.in_order(Q) == keys("b")
    made.list_of(Q).verdicts.since[shape(a)] = DAWN
    made.push(workload("c"), NOW, shapes_count=False)
    assert made.in_order(Q) == keys("c", "b")


@pytest.mark.parametrize(
    "change",
    [
        {"count": 2}, {"min_count": 1}, {"group": "g"}, {"allowed": frozenset({"spot"})}, {"node_selector": {"a": "b"}},
        {"affinity": ()}, {"name": "other"}, {"cpu": 2},
    ],
    ids=str,
)  # fmt: skip
def test_a_shape_is_all_a_verdict_depends_on(change: dict[str, Any]) -> None:
    plain = workload("a", pod_sets=(pod_set(),))
    assert shape(plain) == shape(workload("b", queued=5, pod_sets=(pod_set(),)))
    assert shape(plain) != shape(workload("a", pod_sets=(pod_set(**change),)))
    assert shape(plain) != shape(plain.but(priority=1))


def test_S_4_9_the_sticky_one_comes_first_until_it_has_quota_or_is_gone() -> None:
    a, b = workload("a", queued=5), workload("b", queued=1, priority=3)
    made = pending(a, b)
    back(made, a, "PendingPreemption")
    assert made.in_order(Q) == keys("a", "b")
    back(made, a, "NoFit", binds_shape=False)
    assert made.in_order(Q) == keys("b")
    made.wake([Q], NOW, everybody)
    assert made.in_order(Q) == keys("a", "b"), "being parked and woken does not end it"
    made.push(a.but(priority=-1), NOW)
    assert made.in_order(Q) == keys("a", "b"), "nor does an update"
    made.forget(b)
    assert made.list_of(Q).sticky
    made.forget(a)
    assert not made.list_of(Q).sticky


def test_a_newer_sticky_one_replaces_it_and_a_strict_queue_has_none() -> None:
    a, b = workload("a", queued=1), workload("b", queued=2)
    made = pending(a, b)
    back(made, a, "PendingPreemption")
    back(made, b, "PendingMigration")
    assert made.in_order(Q) == keys("b", "a")
    strict = pending(a, b, strict=True)
    back(strict, b, "PendingPreemption")
    assert strict.in_order(Q) == keys("a", "b")


def test_S_4_6_a_wake_brings_back_whom_the_selector_lets_in_and_makes_refused_heads_due() -> None:
    a, b, c = (workload(name, queued=i, cpu=i + 1) for i, name in enumerate("abc"))
    made = pending(a, b, c)
    back(made, a, "NoFit")
    back(made, b, "PreemptionGated")
    back(made, c, "PreemptionFailed")
    woken = made.wake([Q, QueueName("unknown")], NOW, lambda each: each.uid != "b")
    assert woken == keys("a")
    assert made.in_order(Q) == keys("a", "c")
    made.forget(a)
    assert head(made) == "c"


def test_S_4_7_a_change_that_does_not_matter_leaves_it_where_it_is() -> None:
    a, b, c = (workload(name, queued=i, cpu=i + 1) for i, name in enumerate("abc"))
    made = pending(a, b, c)
    back(made, a, "NoFit")
    back(made, b, "PreemptionFailed")
    for each in (a, b, c, workload("stranger")):
        made.refresh(each.but(local_queue="new"))
    assert made.in_order(Q) == keys("b", "c")
    assert head(made) == "c", "b was refused and is not due"
    assert {each.local_queue for each in (*made.list_of(Q).waiting.values(), *made.list_of(Q).parked.values())} == {
        "new"
    }


def test_a_queue_counts_its_wakes() -> None:
    a = workload("a")
    made = pending(a)
    made.wake([Q, Q], NOW, everybody)
    assert made.pop(a) == 1


def test_a_line_that_lost_somebody_is_found_out() -> None:
    a = workload("a")
    made = pending(a)
    made.list_of(Q).classes.heads.clear()
    with pytest.raises(InvariantError, match="is not in the line"):
        made.list_of(Q).leave(a.key)


some = st.builds(
    workload,
    st.sampled_from("abcdefgh"),
    priority=st.integers(0, 2),
    queued=st.integers(0, 2),
)


@st.composite
def two_orders(draw: st.DrawFn) -> tuple[list[Workload], list[Workload]]:
    waiting = draw(st.lists(some, max_size=8, unique_by=lambda each: each.uid))
    return waiting, draw(st.permutations(waiting))


@pytest.mark.property
@given(orders=two_orders())
def test_P23_the_order_of_a_line_does_not_depend_on_how_it_came_about(
    orders: tuple[list[Workload], list[Workload]],
) -> None:
    waiting, shuffled = orders
    line = pending(*waiting).in_order(Q)
    assert line == pending(*shuffled).in_order(Q)
    by = {each.key: each for each in waiting}
    places = [(-by[key].priority, by[key].queued_at, by[key].uid) for key in line]
    assert places == sorted(places)
