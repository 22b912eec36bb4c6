"""Kinds of jobs: what is asked of a job whatever it is, and how each kind answers.

- ``generic``: the questions
- ``batch``: batch/v1 Jobs
- ``described``: kinds that are data, and how such data is read; ``jobset``, ``rayjob``: those there are
- ``registry``: all kinds
"""
