"""The live state of placement: nodes, pods, gangs and budgets, updated change by change.

- ``state``: all of it as one, with trials that are undone
- ``nodes``: what each node has, and what pods request of it; ``pods``: the pods on nodes, as arrays
- ``gangs``: Workloads, their groups and members; ``budgets``: PodDisruptionBudgets
- ``arrays``: amounts that fit into 64 bits
"""
