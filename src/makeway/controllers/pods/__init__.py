"""Pods and gangs on nodes: where they go, which pods make way, what their status says.

- ``scheduling``: the pod scheduler; ``items``: what is placed as one, ``queue``: which item is next
- ``cluster``: the nodes and pods as placement sees them; ``reading``: from stored objects; ``leaving``: units half gone
- ``changes``: what changed; ``hints``: the waiting items that it could help
- ``writes``, ``edits``: what is written; ``messages``: the messages of waiting pods
- ``records``: entries of journal and metrics; ``gang_status``: what a scheduling Workload shows
- ``lost_nodes`` and ``budgets``: what Kubernetes' own controllers would do
"""
