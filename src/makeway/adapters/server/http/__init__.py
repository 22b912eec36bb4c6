"""HTTP: connections, requests, bodies, answers, watches.

- ``serving``, ``accepting``, ``connections``, ``uploads``, ``streams``, ``limits``, ``load_metrics``: connections and
  their limits
- ``app``: a request and its answer; ``routes``, ``bodies``, ``protobuf``, ``protobuf_numbers``: parsing of requests
- ``answers``, ``statuses``, ``watch``: answers
"""
