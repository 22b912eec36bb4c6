"""Who waits, in which order, and when each is looked at again (S-4).

- ``pending``: the waiting workloads of all queues; ``waiting_list``: those of one queue
- ``standing``: where a workload stands in its list, and the table of what becomes of that
- ``equivalence``: the order of a queue, and the classes of workloads that get the same verdict
- ``requeue``: how a workload comes to its list, and goes back after its cycle; ``shape_verdicts``: whom that binds
- ``turn_waits``: workloads that wait for their turn; ``kept_quota``: what is kept free for workloads that wait
- ``waking``: what a fact may change for those that wait
- ``positions``: the place of each in the order
- ``prefilter``: refusals that sums alone can tell
"""
