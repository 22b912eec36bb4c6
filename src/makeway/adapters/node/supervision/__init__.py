"""The supervisor of a pod: a process of its own that outlives makeway.

- ``supervisor``: the processes of a pod from first to last; ``zygote``: the process that supervisors are forked from
- ``starting``: which container starts when; ``sweeping``: leftover processes; ``recording``: the record of the pod
- ``containers``, ``probing``, ``spawning``: starts, probes and hooks
- ``logbook`` and ``records``: the files that it writes
- ``processes`` and ``control_groups``: processes as Linux shows them, and how exactly the right ones are ended
"""
