"""Suites about victims: the candidates, their order, and the targets that are chosen."""

from __future__ import annotations

from makeway.core.amounts import add, multiply
from makeway.core.lowering import effective_priority
from makeway.core.model import FR, PODS, FlavorName, Queue, QueueName, ResourceName, Uid, Workload, WorkloadKey
from makeway.core.preemption import classical
from makeway.core.preemption import fair_sharing as fair_share
from makeway.core.preemption.candidates import Candidates, Lenders
from makeway.core.preemption.eligibility import Equals, may_preempt
from makeway.core.queue_policies import ReclaimWithinCohort, WithinClusterQueue
from makeway.core.quota.tree import QuotaNode
from makeway.testing.vectors.facts import Findings, load, now_of, policy_of, rows, table, wire_of, workload_from
from makeway.testing.vectors.reading import Case

ABOVE_ALL = 2**40  # a priority against which every workload is a candidate


def targets(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    incoming = workload_from(case.given["workload"], loaded, case.given["clusterQueue"])
    requests = {each.name: each.requests for each in incoming.pod_sets}
    need: set[FR] = set()
    request: dict[FR, int] = {}
    for part in rows(case.given, "assignment"):
        for name, choice in table(part, "flavors").items():
            resource = ResourceName(name)
            fr = (FlavorName(choice["flavor"]), resource)
            one = 1 if resource == PODS else requests[part["podSet"]].get(resource, 0)
            request[fr] = add(request.get(fr, 0), multiply(one, part["count"]))
            if choice["mode"] == "Preempt":
                need.add(fr)
    find_victims = fair_share.find_victims if loaded.state.policy.fair_sharing else classical.find_victims
    victims = find_victims(loaded.state, incoming, tuple(sorted(need)), request, now_of(case))
    got = sorted((each.workload.key, each.reason) for each in victims.targets)
    found.same("victims", got, sorted((each["workload"], each["reason"]) for each in rows(case.want, "preempted")))
    found.explain(incoming.key, (*(each.step for each in victims.targets), *victims.steps))
    return found


def candidate_order(case: Case) -> Findings:
    """All candidates use one flavor-resource and are below the preemptor, so only their order is compared."""
    found = Findings()
    loaded = load(case)
    queue = QueueName(case.given["clusterQueue"])
    fr = (FlavorName("flavor"), ResourceName("cpu"))
    running = [workload_from(each["workload"], loaded).but(usage={fr: 1}) for each in rows(case.given, "candidates")]
    for each in running:
        loaded.state.holders.add(each)
    others = sorted({each.queue for each in running} - {queue})
    incoming = Workload(key=WorkloadKey("/"), uid=Uid(""), queue=queue, priority=ABOVE_ALL, queued_at=now_of(case))
    candidates = Candidates(
        incoming, Queue(name=queue, within=WithinClusterQueue.LOWER_PRIORITY, reclaim=ReclaimWithinCohort.ANY),
        loaded.state.holders, (fr,),
        Lenders({}, {each: QuotaNode("cohort", is_queue=False) for each in others}), Equals(),
    )  # fmt: skip
    got = [each.workload.key.partition("/")[2] for each in candidates.read()]
    found.same("order", got, rows(case.want, "order"))
    return found


def policy(case: Case) -> Findings:
    found = Findings()
    loaded = load(case)
    incoming = workload_from(case.given["preemptor"], loaded, "")
    running = workload_from(case.given["candidate"], loaded, "")
    name = case.given["policy"]
    asked = WithinClusterQueue(name) if name in set(WithinClusterQueue) else ReclaimWithinCohort(name)
    got = may_preempt(incoming, running, asked, None, now_of(case))
    found.same("may preempt", got, case.want["satisfies"])
    return found


def priority(case: Case) -> Findings:
    found = Findings()
    wire = wire_of(case.given["workload"])
    effective, base = effective_priority(wire, policy_of(case)), wire.spec.priority or 0
    got = {"base": base, "boost": effective - base, "effective": effective}
    found.same("priority", got, case.want)
    return found
