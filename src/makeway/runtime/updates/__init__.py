"""From changed objects to the state of the scheduler: what each part of the objects means for it.

``state_updates`` is the door: it knows which kind goes to which part.

- ``context``: what the parts share, and what follows from a change until the engine works it off
- ``reading``: what an object comes to; ``comparing``: which changes of a Workload count
- ``workloads``: who waits and who holds quota; ``surroundings``: what workloads depend on, namespaces and the like
- ``configuration``: queues, cohorts, flavors and checks
"""
