"""Who makes way on nodes (S-15.4, S-15.5).

- ``decision``: where a pod or a gang goes, and who leaves for it
- ``contest``: who must leave a domain; ``reprieve``: who may stay after all
- ``single_pod``: one pod against all nodes at once
"""
