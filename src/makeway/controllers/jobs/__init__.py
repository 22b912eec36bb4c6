"""Jobs: as Workloads, started and stopped with them; and the pods of batch/v1 Jobs on one machine.

For jobs of every kind:

- ``kinds``: the questions about any job, and the kinds there are
- ``managed``: which jobs are ours to suspend and start
- ``workloads``: what a job asks for, as a Workload
- ``running``: start and stop; ``edits`` and ``templates`` are what that writes
- ``priority``: priorities that move

For batch/v1 Jobs alone, since only their pods are made here:

- ``gangs``: Jobs whose pods are placed all together
- ``pods``: the Job controller of the embedded mode; ``counts``: its pods, ``progress``: how far it is, ``status``: what
  its status shows
"""
