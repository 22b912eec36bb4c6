"""OpenAPI documents of what is served: ``documents``, made of ``paths`` and ``types``; ``protobuf`` for kubectl."""
