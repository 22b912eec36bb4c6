"""What fields there are, of which type, within which limits; and the schemas made of that.

- ``shapes``: the shape of every kind
- ``kubernetes_types``, ``kubernetes_limits``, ``kubernetes_rules``: what Kubernetes defines
- ``meanings``: what fields mean, in a sentence each
- ``crds``: OpenAPI schemas and CustomResourceDefinitions
"""
