"""batch/v1 Jobs: as Workloads, started and stopped with them, and their pods on one machine.

- ``managed``: which Jobs are ours to suspend and start
- ``workloads``: what a Job asks for, as a Workload
- ``running``: start and stop; ``edits`` and ``templates`` are what that writes
- ``priority``: priorities that move
- ``gangs``: Jobs whose pods are placed all together
- ``pods`` and ``counts``: the Job controller of the embedded mode
"""
