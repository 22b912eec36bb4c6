"""The verbs of the API, and what belongs to single kinds.

- ``calls``: a request taken apart; ``reads``: get, list; ``writes``: create, update, patch, apply, delete;
  ``selectors``: labels and fields in a query
- ``admission``: what is completed and judged before an object is stored
- ``pod_calls`` and ``reviews``: bindings, evictions, logs; who am I, what may I do
- ``tables`` and ``cells``: what ``kubectl get`` prints; ``discovery``: what is served
- ``upkeep``: what the server does by itself; ``troubles``: objects that it cannot handle
"""
