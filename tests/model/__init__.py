"""The second opinion: a slow, plain model of sections 1-9 of the semantics reference, and of section 4 of the design.

It copies the world, sorts everything and imports nothing of makeway, so that it can be compared with the engine.
Each function names the rule it follows (``S-2.10`` is rule 2.10). No Options.

amounts     quantities, saturating arithmetic, pod requests (1)
facts       what a raw Workload object says: conditions, priority, queue time, shape (1.7, 3, 4.3, 7.1)
world       settings, the world, the snapshot of a cycle (2.1-2.3, 3.1, 5.2)
quota       the quota tree (2)
placing     which flavor a pod may use (6.4)
flavors     flavor assignment (6)
preemption  candidates and targets without fair sharing (7, 8)
fair        shares, the order by shares, targets by shares (9)
targets     either of the two, and the rounds that bound them
queues      heap, parking, wakes, what happens between cycles (3, 4)
nomination  checks, assignment and targets of one head (5.3-5.5)
rotation    whose turn it is among equals (7.14)
holds       what is not lent while somebody entitled waits (5.14)
rounds      by what the rounds of a workload are known and when they end (design 4, epochs 2 and 3)
claims      what a preemptor is promised while its victims leave, and how often it may preempt (10.13, design 4)
cycle       one scheduling cycle (5)
play        whole scenarios: cycles and what happens between them
scenarios   random worlds as plain data
builders    small worlds by hand
stories     small worlds that live for hours
"""

from tests.model.amounts import Amounts, FlavorResource
from tests.model.cycle import Result, cycle
from tests.model.flavors import Assignment, assign
from tests.model.preemption import Incoming, Target
from tests.model.queues import create, delete, heads, release, wake, wake_expired, wake_turns
from tests.model.quota import available, potential_available
from tests.model.targets import targets
from tests.model.world import Settings, Snapshot, World, load, snapshot

__all__ = [
    "Amounts",
    "Assignment",
    "FlavorResource",
    "Incoming",
    "Result",
    "Settings",
    "Snapshot",
    "Target",
    "World",
    "assign",
    "available",
    "create",
    "cycle",
    "delete",
    "heads",
    "load",
    "potential_available",
    "release",
    "snapshot",
    "targets",
    "wake",
    "wake_expired",
    "wake_turns",
]
