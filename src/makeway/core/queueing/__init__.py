"""Which workloads wait, in which order, and when they are evaluated again (S-4).

- ``pending``: the waiting workloads of all queues; ``waiting_list``: those of one queue
- ``standing``: the states of a workload in its list, and the table of transitions between them
- ``equivalence``: the order of a queue, and the classes of workloads that get the same verdict
- ``requeue``: how a workload enters its list, and returns after its cycle; ``shape_verdicts``: the verdicts on a shape
- ``turn_waits``: workloads that wait for their turn; ``kept_quota``: what is kept free for workloads that wait
- ``waking``: which waiting workloads a fact may concern
- ``positions``: the place of every workload in the order
- ``prefilter``: refusals that sums alone can tell
"""
