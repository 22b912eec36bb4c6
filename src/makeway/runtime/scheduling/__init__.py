"""Scheduling cycles become writes.

- ``cycles``: a cycle goes on without the heads that make it fail
- ``plans``: a plan becomes edits: admissions, evictions, and the statuses of workloads that wait
- ``statuses``: which status of a waiting workload is news, and which one is held back
- ``eviction_batches``: the evictions of one decision, until all of them are answered
- ``unevaluated`` and ``outdated``: statuses of workloads that no cycle evaluates
"""
