"""What is served, as OpenAPI documents: ``documents``, made of ``paths`` and ``types``; ``protobuf`` for kubectl."""
