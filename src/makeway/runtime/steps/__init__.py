"""The parts of one step of the engine: what is due, who is looked at, which queues are woken, and who hears of it.

Not here: the order of a step (``runtime.engine``), scheduling cycles and what they write (``runtime.scheduling``).
"""
