"""Pods and gangs on nodes: where they go, and which pods make way for them there (S-15).

- ``model``: nodes, pods, groups, budgets; ``cluster``: the live state, updated change by change
- ``cycle``: what one cycle does for a pod or a gang; ``preemption``: which pods make way
- ``snapshot``: the nodes as one decision sees them, for its ``members``
- ``filters``, ``relations``: which nodes a pod may use; ``scoring``: how good each is; ``fit``, ``packing``: places
- ``units``: which pods are evicted together; ``resolution``: the priorities that count
- ``reasons``, ``hindrances``: why a decision came out so
"""
