"""HTTP: connections, requests, bodies, answers, watches.

- ``serving``, ``accepting``, ``connections``, ``uploads``, ``streams``, ``limits``, ``load_metrics``: who is let
  in, and how much they may ask
- ``app``: a request and its answer; ``routes``, ``bodies``, ``protobuf``, ``protobuf_numbers``: what is asked
- ``answers``, ``statuses``, ``watch``: what goes back
"""
