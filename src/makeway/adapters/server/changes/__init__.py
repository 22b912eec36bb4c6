"""How a request changes an object: patches, server-side apply, and which manager owns which field.

- ``patches`` and ``merging``: JSON patches, strategic merges
- ``applying``, ``field_sets``, ``field_ownership``: server-side apply and ``managedFields``
- ``own_writes``: writes of our own controllers, recorded likewise
"""
