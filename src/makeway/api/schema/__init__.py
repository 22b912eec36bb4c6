"""The fields of every kind, their types and limits, and the schemas that are made of them.

- ``shapes``: the shape of every kind
- ``kubernetes_types``, ``kubernetes_limits``, ``kubernetes_rules``: what Kubernetes defines
- ``meanings``: what a field means, in one sentence
- ``crds``: OpenAPI schemas and CustomResourceDefinitions
"""
