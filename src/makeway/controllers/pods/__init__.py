"""Pods and gangs on nodes: where they go, who makes way, what they are told.

- ``scheduling``: the pod scheduler; ``items``: what is placed as one, ``queue``: which item is next
- ``cluster``: the nodes and pods as placement sees them; ``reading``: from stored objects; ``leaving``: units half gone
- ``news``: what changed, and which items it may help
- ``writes``, ``edits``: what is written; ``messages``: what those that wait are told
- ``records``: what journal and metrics are told; ``gang_status``: what a scheduling Workload shows
- ``lost_nodes`` and ``budgets``: what Kubernetes' own controllers would do
"""
