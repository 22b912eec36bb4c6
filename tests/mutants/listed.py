"""Forty wrong versions of quota and preemption: the file, the old text, the new text, and the rule that it breaks.

``old`` stands exactly once in its file. When the code changes, change the mutant with it: each is a mistake that
a programmer could make there.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    file: str  # below makeway/core
    old: str
    new: str
    breaks: str


QUOTA = "quota/tree.py"
ELIGIBILITY = "preemption/eligibility.py"
CANDIDATES = "preemption/candidates.py"
CLASSICAL = "preemption/classical.py"
POLICIES = "queue_policies.py"

MUTANTS = (
    # --- quota
    Mutant(
        QUOTA,
        "                amount = at.overflow(fr, used + amount) - at.overflow(fr, used)\n",
        "                amount += 0\n",
        "S-2.7: charges the parent too",
    ),
    Mutant(QUOTA, ") - at.overflow(fr, used)", ")", "S-2.7: charges the parent what it was charged before"),
    Mutant(QUOTA, "max(0, used - local)", "used - local", "S-2.8: releases below the local part"),
    Mutant(QUOTA, "0 if local >= UNLIMITED else max(", "max(", "0029: sees what is kept without a limit"),
    Mutant(QUOTA, "self.charge(node, fr, -amount)", "self.charge(node, fr, amount)", "S-2.8: releases the wrong way"),
    Mutant(QUOTA, "self._log.put(at.usage, fr, used + amount)", "at.usage[fr] = used + amount", "P35: no way back"),
    Mutant(
        QUOTA,
        "above = min(above, add(subtract(shown",
        "above = max(above, add(subtract(shown",
        "S-2.10: the limit lifts",
    ),
    Mutant(
        QUOTA,
        "            above = add(max(0, subtract(local, used)), above) if local else above\n",
        "",
        "S-2.10: no local",
    ),
    Mutant(QUOTA, "max(0, subtract(used, local))), limit)", "used), limit)", "S-2.10: counts local use as borrowed"),
    Mutant(QUOTA, "most = min(most, add(whole, limit))", "pass", "S-2.11: no limit"),
    Mutant(
        QUOTA,
        "amount <= max(0, self.available(node, fr))",
        "amount <= self.available(node, fr)",
        "S-2.14: zero blocked",
    ),
    Mutant(
        QUOTA, "amount) > node.subtree.get(fr, 0)", "amount) >= node.subtree.get(fr, 0)", "S-2.12: borrows at nominal"
    ),
    Mutant(
        QUOTA,
        "usage.get(fr, 0) <= whole.get(fr, 0) or",
        "usage.get(fr, 0) < whole.get(fr, 0) or",
        "S-2.13, R-4",
    ),
    Mutant(
        QUOTA, "return ancestor.height, ancestor.parent is not None", "return ancestor.height, True", "S-2.16: the root"
    ),
    Mutant(
        QUOTA, "rest = subtract(amount, self.local_available(node, fr))", "rest = amount", "S-2.16: local counts twice"
    ),
    Mutant(
        QUOTA,
        "add(node.subtree.get(fr, 0), subtract(amount, child.local.get(fr, 0)))",
        "add(node.subtree.get(fr, 0), amount)",
        "S-2.4: what is kept is lent",
    ),
    Mutant(
        QUOTA, "kept = max(0, subtract(node.subtree.get(fr, 0), limit))", "kept = limit", "S-2.5: keeps what it lends"
    ),
    Mutant(QUOTA, "1 + max(child.height for child in leaves)", "1", "S-2.15: no height"),
    # --- which workloads are candidates
    Mutant(
        ELIGIBILITY,
        "if expiry is not None and since < expiry:",
        "if expiry is not None and since <= expiry:",
        "S2: the edge",
    ),
    Mutant(
        ELIGIBILITY,
        "if running.priority < incoming.priority:\n        return Ground",
        "if running.priority <= incoming.priority:\n        return Ground",
        "S-7.7: no time-based reason",
    ),
    Mutant(
        POLICIES,
        "return range(queued_at + 1, MOST + 1)",
        "return range(queued_at, MOST + 1)",
        "S5: two of one second",
    ),
    Mutant(
        POLICIES,
        'whose time is up (S-7.4)."""\n        return self is WithinClusterQueue.LOWER_OR_NEWER_EQUAL',
        'whose time is up (S-7.4)."""\n        return self is not WithinClusterQueue.NEVER',
        "S-7.3: equals",
    ),
    Mutant(
        ELIGIBILITY,
        "running.priority >= queue.borrow.below(",
        "running.priority > queue.borrow.below(",
        "S-8.4: equals go",
    ),
    Mutant(POLICIES, "min(priority, threshold + 1)", "min(priority, threshold)", "S-8.4: the threshold"),
    # --- candidates
    Mutant(CANDIDATES, "has_advantage = has_advantage or fits_here", "has_advantage = fits_here", "S-8.2: forgets"),
    Mutant(CANDIDATES, "has_advantage = not any(", "has_advantage = any(", "S-8.2: the other way round"),
    Mutant(
        CANDIDATES,
        "if child is besides or tree.within_nominal(child, need):",
        "if child is besides:",
        "S-8.3: everybody",
    ),
    Mutant(
        CANDIDATES,
        "if child is besides or tree.within_nominal(child, need):",
        "if tree.within_nominal(child, need):",
        "S-8.2: asks its own subtree again",
    ),
    Mutant(
        CANDIDATES,
        "for evicted in (True, False):\n            for workload in self._of_cohort(self._lenders.advantaged",
        "for evicted in (False, True):\n            for workload in self._of_cohort(self._lenders.advantaged",
        "S-7.6.1: who leaves comes last",
    ),
    Mutant(
        CANDIDATES,
        "if not (self._queue.within.takes_equals and self._equals.by_age):",
        "if not self._queue.within.takes_equals:",
        "S-7.14: equals of one that displaces none",
    ),
    Mutant(
        CANDIDATES,
        "return self._incoming.family is None or workload.family != self._incoming.family",
        "return True",
        "S-7.2: a sibling",
    ),
    Mutant(
        CANDIDATES,
        "        if workload.key in self._excluded:\n            return False\n",
        "",
        "S-5.7.3: the same victim twice",
    ),
    Mutant(CANDIDATES, "equals=equals.by_age)", "equals=False)", "gives up where equals would do"),
    # --- the search
    Mutant(CLASSICAL, "return self._give_back(taken, may_borrow)", "return taken", "S-8.8: nobody is given back"),
    Mutant(
        CLASSICAL,
        "for candidate in reversed(taken[:-1]):",
        "for candidate in taken[:-1]:",
        "S-8.8: spares the least important",
    ),
    Mutant(CLASSICAL, "return (False, True) if search", "return (True, False) if search", "S-8.6 b: borrows first"),
    Mutant(CLASSICAL, "candidates.are_there(advantaged=False)", "queue", "S-8.6: who borrows is a candidate"),
    Mutant(
        CLASSICAL, "while at is not None and at is not under:", "if at is not None:", "S-8.7: looks at the queue only"
    ),
    Mutant(CLASSICAL, "if may_borrow and not candidate.advantaged and", "if may_borrow and", "S-8.7: H is barred too"),
    Mutant(
        CLASSICAL,
        "if not may_borrow and self._tree.borrows(self._node, fr, amount):",
        "if False:",
        "S-8.7: always borrows",
    ),
    Mutant(
        CLASSICAL,
        "elif candidate.advantaged or only_without_borrowing(queue, incoming, running):",
        "elif candidate.advantaged:",
        "S-8.4: the reason",
    ),
    Mutant(
        CLASSICAL,
        "            if amount > self._tree.available(self._node, fr) + own + others:\n                return True\n",
        "",
        "looks at all of them in vain",
    ),
)
