"""PodDisruptionBudgets, and which of them count a pod (S-15.4.4)."""

from __future__ import annotations

from collections.abc import Iterator

from makeway.core.model import selects
from makeway.core.placement.model import Budget, Pod

BudgetName = tuple[str, str]  # namespace, name


class DisruptionBudgets:
    def __init__(self) -> None:
        self._by_name: dict[BudgetName, Budget] = {}
        self._in_namespace: dict[str, dict[str, Budget]] = {}

    def __iter__(self) -> Iterator[Budget]:
        return iter(self._by_name.values())

    def get(self, name: BudgetName) -> Budget | None:
        return self._by_name.get(name)

    def set(self, name: BudgetName, budget: Budget | None) -> Budget | None:
        """Set or remove (None) a budget; returns the previous one."""
        before = self._by_name.pop(name, None)
        here = self._in_namespace.setdefault(name[0], {})
        here.pop(name[1], None)
        if budget is not None:
            self._by_name[name] = here[name[1]] = budget
        return before

    def of(self, pod: Pod) -> Iterator[Budget]:
        """The budgets that count the pod; a pod without labels is in none."""
        if not pod.labels:
            return
        for budget in self._in_namespace.get(pod.key[0], {}).values():
            if budget.selector and selects(budget.selector, pod.labels):
                yield budget

    def guard(self, pod: Pod) -> bool:
        """Whether some budget counts the pod."""
        return any(True for _ in self.of(pod))
