"""Pods and gangs on nodes: where they go, and who makes way for them there (S-15).

- ``model``: nodes, pods, groups, budgets
- ``nodes``: what stands where, kept up to date; ``room``: what one decision sees of it
- ``cycle``: what one cycle does for a pod or a gang; ``preemption``: who makes way
- ``filters``, ``scoring``: which nodes, and how good each is; ``fit``, ``packing``, ``choice``, ``exchange``: places
- ``units``: who is evicted together; ``resolution``: the priorities that count
- ``reasons``, ``hindrances``: why it came out so
"""
