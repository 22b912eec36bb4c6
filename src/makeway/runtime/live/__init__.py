"""The engine by the wall clock.

- ``driver``: its loop; ``engine``: the engine on a Store that calls, in a thread of its own
- ``writer``: many writes under way at a time
- ``queries``: questions to the live state, answered between two steps
"""
