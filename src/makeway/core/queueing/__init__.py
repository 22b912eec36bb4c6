"""Who waits, in which order, and when each is looked at again (S-4).

- ``pending``: the waiting workloads of all queues; ``waiting_list``: those of one queue
- ``waking``: what a fact may change for those that wait
- ``positions``: the place of each in the order
- ``prefilter``: refusals that sums alone can tell
"""
