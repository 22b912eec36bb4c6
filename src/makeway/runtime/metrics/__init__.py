"""What is measured, under the names that dashboards know. Each metric is made and counted in one of the parts.

- ``registry``: all parts, for one engine; ``families``: labels and buckets that they share; ``exposition``: the text
- ``attempts``, ``transitions``, ``pods``, ``aside``: counted when something happens
- ``queue_gauges``, ``workload_gauges``: read from the state when metrics are about to be read
"""
