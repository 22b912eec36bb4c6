"""The supervisor of a pod: a process of its own that outlives makeway.

- ``supervisor``: a pod's processes from first to last; ``zygote``: what supervisors are forked from
- ``starting``: which container starts when; ``sweeping``: what they leave behind; ``recording``: what is told of them
- ``containers``, ``probing``, ``spawning``: starts, probes and hooks
- ``logbook`` and ``records``: what it writes down
- ``processes`` and ``control_groups``: what Linux tells of processes, and how exactly the right ones are ended
"""
