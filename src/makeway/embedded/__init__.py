"""ONE MACHINE: API server, engine and node agent wired into one process.

- ``control_plane``: server and engine over one data folder
- ``local_node``: the node agent beside them; ``pod_logs``: the logs of its pods
- ``timekeeping``: the clock of the server
"""
