"""The verbs of the API, and the calls of single kinds.

- ``calls``: a parsed request; ``reads``: get, list; ``writes``: create, update, patch, apply, delete; ``selectors``:
  labels and fields in a query
- ``admission``: defaults and checks before an object is stored
- ``pod_calls`` and ``reviews``: bindings, evictions, logs; identity and permissions of the user
- ``tables`` and ``cells``: the columns of ``kubectl get``; ``discovery``: what is served
- ``upkeep``: background work of the server; ``troubles``: objects that it cannot handle
"""
