"""Quota and its use, by queue and cohort (S-2, S-9.2).

- ``tree``: quota, usage and what is available
- ``shares``: dominant resource shares
- ``holders``: the workloads that hold quota, sorted as preemption reads them
- ``figures``: what the status of a queue shows
"""
