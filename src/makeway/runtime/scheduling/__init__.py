"""Scheduling cycles become writes.

- ``cycles``: a cycle that no single head can end
- ``plans``: a plan becomes edits: admissions, evictions, and what those that wait are told
- ``eviction_batches``: the evictions of one decision, until all of them are answered
- ``resting`` and ``unheard``: workloads that no cycle evaluates, and what they are told
"""
