"""From changed objects to the state of the scheduler: what each part of the objects means for it.

``state_updates`` is the door: it knows which kind goes to which part.

- ``context``: what the parts share, and what follows from a change until the engine works it off
- ``reading``: what an object is lowered to; ``comparing``: which changes of a Workload count
- ``workloads`` and ``places``: which workloads wait and which hold quota
- ``configuration``: queues, cohorts, flavors and checks
"""
