"""The life of a Workload that has quota, had it, or ended.

- ``lifecycle``: eviction, back-off, requeue and retention, from reservation to end
- ``eviction``: the two edits that ask a Workload to leave and release its quota
- ``edits``: the other edits of that life
- ``over_quota``: evictions after quota was lowered
"""
