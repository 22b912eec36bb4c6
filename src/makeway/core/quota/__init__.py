"""Quota and its use, by queue and cohort (S-2, S-9.2).

- ``tree``: quota, usage and what is available
- ``shares``: dominant resource shares
- ``holders``: who holds quota, sorted as preemption asks for it
- ``figures``: what the status of a queue shows
"""
