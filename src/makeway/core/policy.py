"""Gates and settings as one value, built once and handed down: nothing in here is looked up while deciding.

One attribute per gate rather than a set of names: a misspelled gate is then found by the type checker, not by a user
whose gate does nothing, and reading one costs nothing inside a search.

All spans are whole milliseconds and all amounts whole numbers; the names say the units.

Not here: what changes no decision, such as the journal's size, ports and metrics (their owners read the
configuration), and how a configuration becomes a policy (``lowering``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Self

from makeway.api.gates import GATES, Gate

Profile = Literal["default", "parity"]
FairStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
DAY_MS = 24 * 60 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Gates:
    """The active gates of api 9.2; the defaults are ours."""

    partial_admission: bool = True
    flavor_fungibility: bool = True
    priority_sorting_within_cohort: bool = True
    scheduling_equivalence_hashing: bool = True
    reclaimable_pods: bool = True
    recompute_assignment_upon_preemption_targets_overlap: bool = True
    fair_sharing_preempt_within_nominal: bool = True
    fair_sharing_prioritize_non_borrowing: bool = True
    unadmitted_workloads_observability: bool = True
    unadmitted_workloads_explicit_status: bool = False
    workload_priority_class_defaulting: bool = True
    admission_gated_by: bool = True
    multi_kueue: bool = True
    multi_kueue_incremental_dispatcher_respect_config_order: bool = True
    reject_updates_to_cq_with_invalid_on_flavors: bool = False
    disable_wait_for_pods_ready: bool = False
    priority_boost: bool = False
    prioritize_preemptor_workloads: bool = False
    concurrent_admission: bool = True
    multi_kueue_orchestrated_preemption: bool = True
    time_based_same_priority_preemption: bool = True
    generic_workload: bool = True
    workload_aware_preemption: bool = True
    preemption_claims: bool = True
    preemption_revalidate_targets: bool = True
    preemption_epochs: bool = True
    assignment_mode_by_worst_resource: bool = True

    @classmethod
    def of_profile(cls, profile: Profile) -> Self:
        return cls(**{_ATTRIBUTES[gate.name]: gate.parity if profile == "parity" else gate.ours for gate in _ACTIVE})

    def turned(self, written: Mapping[str, bool]) -> Self:
        """These gates with some set by their public names; names of gates without effect are ignored."""
        return replace(self, **{_ATTRIBUTES[name]: value for name, value in written.items() if name in _ATTRIBUTES})

    def public(self) -> dict[str, bool]:
        """By their public names, as reports and journals show them."""
        return {name: getattr(self, attribute) for name, attribute in _ATTRIBUTES.items()}


def _attribute(gate: str) -> str:
    """``MultiKueuePolicy`` -> ``multi_kueue``; a run of capitals is one word: ``ToCQWith`` -> ``to_cq_with``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", gate).lower()


_ACTIVE: tuple[Gate, ...] = tuple(gate for gate in GATES.values() if gate.status == "active")
_ATTRIBUTES: dict[str, str] = {gate.name: _attribute(gate.name) for gate in _ACTIVE}
assert set(_ATTRIBUTES.values()) == {each.name for each in fields(Gates)}, "the table and the attributes have parted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeuing:
    """Where an evicted workload comes back in its queue, and after how long (S-4.3, S-10.8)."""

    timestamp: Literal["Eviction", "Creation"] = "Eviction"
    backoff_base_ms: int = MINUTE_MS
    backoff_max_ms: int = 60 * MINUTE_MS
    backoff_limit_count: int | None = None  # None: no limit


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReady:
    """How long an admitted workload may be without all its pods (S-10.7)."""

    timeout_ms: int = 30 * MINUTE_MS
    recovery_timeout_ms: int | None = 30 * MINUTE_MS  # None: a workload that was ready may stay unready
    block_admission: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """One resource turned into others before quota is counted (S-1.6)."""

    input: str
    replaces: bool = False  # True: the input itself is not counted
    multiply_by: str = ""  # a requested resource; "": by nothing
    outputs_nano: tuple[tuple[str, int], ...] = ()  # resource, and 10^-9 of it per one of the input; by name


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePolicy:
    """Which requested resources count against quota, and as what (S-1.6, S-6.2)."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: tuple[Transformation, ...] = ()  # at most one per input
    ignores_undeclared: bool = False  # True: what a queue does not cover is not counted, False: it does not fit


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKueuePolicy:
    """How workloads are handed to other clusters (S-13, S-14)."""

    gc_interval_ms: int | None = MINUTE_MS  # None: orphans are left alone
    origin: str = "multikueue"
    worker_lost_timeout_ms: int = 15 * MINUTE_MS
    dispatcher: Literal["AllAtOnce", "Incremental", "External"] = "AllAtOnce"
    incremental_step: int = 3  # clusters added per round
    single_cluster_preemption_timeout_ms: int = 5 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One requirement on labels; all of a selector hold together."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Which jobs are ours to start and stop (api 9)."""

    own_namespace: str = "kueue-system"
    without_queue_name: bool = False  # True: also jobs that name no queue
    namespaces: tuple[Requirement, ...] | None = None  # None: all but kube-system and our own
    frameworks: tuple[str, ...] = ("batch/job",)
    copied_labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the system decides. Equal inputs and equal policies give equal decisions."""

    profile: Profile = "default"  # decides what is marked parity in S and no gate or setting names (api 9.2)
    gates: Gates = field(default_factory=Gates)

    fair_strategies: tuple[FairStrategy, ...] = ()  # empty: classical preemption, no shares
    pods_ready: PodsReady | None = None  # None: nothing waits for pods
    requeuing: Requeuing = field(default_factory=Requeuing)  # its timestamp counts without ``pods_ready`` too
    resources: ResourcePolicy = field(default_factory=ResourcePolicy)
    multi_kueue: MultiKueuePolicy = field(default_factory=MultiKueuePolicy)
    jobs: Jobs = field(default_factory=Jobs)
    keep_finished_ms: int | None = None  # None: for ever; 0: not at all
    keep_deactivated_ms: int | None = None

    claim_timeout_ms: int = 5 * MINUTE_MS
    wake_batch_interval_ms: int = 0  # 0: the wakes of one engine step are one
    status_write_interval_ms: int = 30 * SECOND_MS  # 0: no limit
    option_min_stay_ms: int = 0
    option_evaluation_timeout_ms: int | None = MINUTE_MS  # None: without end
    option_upgrade_preempts: bool = False
    scoring: Literal["Spread", "Pack"] = "Spread"
    over_quota: Literal["Keep", "Evict"] = "Keep"
    strict_fifo_lends: bool = False
    entitled_hold: Literal["All", "StrictFIFO"] = "All"  # whose entitled quota is not borrowed while it waits (S-5.14)
    rotation: Literal["Fair", "Literal"] = "Fair"  # how equals take turns where time counts (S-7.14)
    rounds_end_after_ms: int = 10 * MINUTE_MS  # of quota held in peace, after which counted rounds end (S-19.3.2)
    journal_age_ms: int = 30 * DAY_MS  # how old a line of the journal may get
    journal_bytes: int = 512 * 2**20  # what all lines that are kept may take together

    @property
    def fair_sharing(self) -> bool:
        return bool(self.fair_strategies)

    @property
    def is_parity(self) -> bool:
        """Whether the recorded system is followed also where we would decide otherwise."""
        return self.profile == "parity"

    @property
    def takes_turns(self) -> bool:
        """Whether equals that time displaces come back in turn (S-7.14)."""
        return self.rotation == "Fair"

    @property
    def counts_time_run(self) -> bool:
        """Whether, of equals whose time is up, the one that has run longest leaves first (S-7.14)."""
        return self.takes_turns and not self.is_parity

    @property
    def holds_in_all_queues(self) -> bool:
        """Whether what a waiting workload is entitled to is not lent, whatever its queue's strategy is (S-5.14)."""
        return self.entitled_hold == "All"

    @property
    def lends_what_is_reserved(self) -> bool:
        """Whether what is reserved for the head of a StrictFIFO queue is lent again after the cycle (S-5.13)."""
        return self.is_parity or self.strict_fifo_lends

    @classmethod
    def of_profile(cls, profile: Profile) -> Policy:
        return cls.parity() if profile == "parity" else cls.default()

    @classmethod
    def default(cls) -> Policy:
        return cls()

    @classmethod
    def parity(cls) -> Policy:
        """The recorded system's behaviour, which the conformance vectors compare with (api 9.1, 9.2)."""
        return cls(
            profile="parity",
            gates=Gates.of_profile("parity"),
            wake_batch_interval_ms=SECOND_MS,
            entitled_hold="StrictFIFO",
            option_evaluation_timeout_ms=None,
            option_upgrade_preempts=True,
        )
