"""Kinds of jobs: the questions about any job, and how each kind answers them.

- ``generic``: the questions
- ``batch``: batch/v1 Jobs
- ``described``: kinds that are data, and how such data is read; ``jobset``, ``rayjob``: those there are
- ``registry``: all kinds
"""
