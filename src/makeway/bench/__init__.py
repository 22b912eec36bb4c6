"""MEASURES: ``makeway bench``, and what only it uses. It measures the whole program, so it stands above all of it.

- ``command``: the command and its table of benches
- ``engine``, ``gang``, ``quality``, ``stability``, ``simulate``: decisions, without a server
- ``store``, ``latency``, ``neighbours``, ``scale``: a server; ``server``, ``clients``, ``crowd`` stand at its two ends
"""
