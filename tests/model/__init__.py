"""The second opinion: a slow, plain model of S-1 to S-9 and S-19.

It copies the world, sorts everything and imports nothing of makeway, so that it can be compared with the engine.
Each function names the rule it follows (``S-2.10`` is rule 2.10). No Options.

amounts     quantities, saturating arithmetic, pod requests (S-1)
facts       what a raw Workload object says: conditions, priority, queue time, shape (S-1.7, S-3, S-4.3, S-7.1)
world       settings, the world, the snapshot of a cycle (S-2.1 to 2.3, S-3.1, S-5.2)
quota       the quota tree (S-2)
placing     which flavor a pod may use (S-6.4)
flavors     flavor assignment (S-6)
preemption  candidates and targets without fair sharing (S-7, S-8)
fair        shares, the order by shares, targets by shares (S-9)
targets     either of the two, and the rounds that bound them
queues      heap, parking, wakes, what happens between cycles (S-3, S-4)
nomination  checks, assignment and targets of one head (S-5.3 to 5.5)
rotation    the turns of equals (S-7.14)
holds       quota that is not lent while an entitled workload waits (S-5.14)
rounds      the identity of a workload in counted rounds, and when they end (S-19.3.2, 19.3.3)
claims      what a preemptor is promised while its victims leave, and how often it may preempt (S-10.13, S-19)
cycle       one scheduling cycle (S-5)
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
