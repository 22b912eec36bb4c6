"""How commands reach a server.

- ``connection``: which one; ``own_server``: one of their own
- ``asking`` and ``following``: what they ask it
"""
