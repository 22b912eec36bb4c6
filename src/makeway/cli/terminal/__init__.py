"""Printing of commands.

- ``screen``: findings, colours, progress
- ``output``: objects and tables
- ``seconds``: time limits of commands
"""
