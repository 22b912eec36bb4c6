"""Wire objects to the model. No other part of core sees a wire object, so the wire format matters to none of them.

Promise: what comes in was validated, so nothing here can fail; what goes out holds integers and plain text only.
"""

from __future__ import annotations

from makeway.core.lowering.loading import Loaded, load_state
from makeway.core.lowering.policy import policy_of
from makeway.core.lowering.queues import Reason, cohort_of, flavor_of, inactive_reasons, queue_of
from makeway.core.lowering.workloads import (
    LoweringContext,
    effective_priority,
    is_queueable,
    is_worth_a_look,
    workload_of,
)

__all__ = [
    "Loaded",
    "LoweringContext",
    "Reason",
    "cohort_of",
    "effective_priority",
    "flavor_of",
    "inactive_reasons",
    "is_queueable",
    "is_worth_a_look",
    "load_state",
    "policy_of",
    "queue_of",
    "workload_of",
]  # fmt: skip
