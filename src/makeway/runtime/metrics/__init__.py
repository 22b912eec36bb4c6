"""What is measured, under the names that dashboards know.

- ``registry``: all of it; ``families``: names, labels and help texts; ``exposition``: the text that is scraped
- ``tally``: transitions are counted here
- ``queue_gauges``, ``workload_gauges``, ``pods``: what is read from the state when somebody asks
"""
