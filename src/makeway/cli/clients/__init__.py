"""How commands reach a server.

- ``connection``: which server; ``own_server``: a temporary one
- ``asking`` and ``following``: requests of commands
"""
