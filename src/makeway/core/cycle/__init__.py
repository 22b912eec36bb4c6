"""One scheduling cycle: from heads and state to a plan (S-5, S-6).

- ``cycle``: the cycle; ``nomination``: what one head would need; ``flavors``: where it fits
- ``entries``: the nominated heads one after the other; ``tournament``: their order under fair sharing
- ``redeeming``: claimants before them; ``ledger``: what all of these have taken so far
- ``holds``: quota kept for workloads entitled to it
- ``options``: Options of one family (KEP-8691)
- ``verdicts``: the answer about each head; ``why_waiting``: the same outside of a cycle
"""
