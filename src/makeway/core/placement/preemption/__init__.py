"""Which pods make way on nodes (S-15.4, S-15.5).

- ``decision``: where a pod or a gang goes, and which pods leave for it
- ``victims``: which units must leave a domain; ``reprieve``: which of them may stay after all
- ``cheapest``: members on the nodes where the least must leave; ``exchange``: better places, where the search is small
- ``single_pod``: one pod against all nodes at once; ``pod_by_pod``: a gang without workload-aware preemption
"""
