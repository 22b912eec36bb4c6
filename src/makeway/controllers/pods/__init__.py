"""Pods and gangs on nodes: where they go, who makes way, what they are told.

- ``scheduling``: the pod scheduler; ``queue`` says whom it looks at next, ``edits`` is what it writes
- ``cluster``: the nodes and pods as placement sees them
- ``news`` and ``messages``: what changed, whom it may help, and what those that wait are told
- ``gang_status``: what a scheduling Workload shows
- ``lost_nodes`` and ``budgets``: what Kubernetes' own controllers would do
"""
