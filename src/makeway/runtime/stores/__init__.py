"""The rules of our own Stores, in memory and on SQLite.

- ``rules``: how objects are written; ``pages`` and ``history``: how they are read and watched
- ``garbage``: what goes with its owner
- ``repair``: what was stored once and cannot be read any more
"""
