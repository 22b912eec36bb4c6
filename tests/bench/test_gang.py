"""``makeway bench gang``: that it measures what it says, on small clusters; never how fast."""

from __future__ import annotations

from makeway.bench import gang as bench_gang

ROW = ["case", "nodes", "pods", "cpuMs", "victims", "writes"]


def test_places_are_found_for_all() -> None:
    for row in (bench_gang.place_large(20, 30), bench_gang.place_large(20, 30, half_full=True)):
        assert list(row) == ROW
        assert (row["nodes"], row["pods"], row["victims"], row["writes"]) == (20, 30, 0, 30)
    small = bench_gang.place_small(10, 5, 3)
    assert (small["pods"], small["victims"], small["writes"]) == (15, 0, 15)


def test_the_shapes_of_preemption_have_the_victims_that_arithmetic_gives() -> None:
    """A node that is used loses all its low pods, as the cpu of these and of the members shows."""
    for gangs in (1, 2):
        row = bench_gang.preempt_pods(10, 100, gangs)
        assert (row["pods"], row["victims"], row["writes"]) == (10, 100, 210)
    assert bench_gang.preempt_groups(10, 5)["victims"] == 50
    assert bench_gang.preempt_groups(10, 10, 2)["victims"] == 50
    assert bench_gang.preempt_for_pod(10, 100)["victims"] == 10


def test_gangs_leave_as_a_whole() -> None:
    row = bench_gang.preempt_among_gangs(20, 4, 20, 20)
    assert row["pods"] == 4
    assert row["victims"] % 20 == 0
    assert row["victims"] > 0
