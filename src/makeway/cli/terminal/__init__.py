"""How commands print.

- ``screen``: findings, colours, progress
- ``output``: objects and tables
- ``seconds``: how long a command waits at most
"""
