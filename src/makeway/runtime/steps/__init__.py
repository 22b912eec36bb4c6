"""The parts of one step of the engine: timers, reconciles, wakes, scheduling, and the observers of it all.

Not here: the order of a step (``runtime.engine``), scheduling cycles and what they write (``runtime.scheduling``).
"""
