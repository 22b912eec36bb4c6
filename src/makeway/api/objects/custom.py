"""An object of a kind that a CustomResourceDefinition of somebody else defines: metadata, and the rest raw.

Every byte of ``spec`` and ``status`` stays as it came. ``kubernetes.amended`` and whoever knows the kind change some
of them (``controllers.jobs.kinds.described``).
"""

from __future__ import annotations

from msgspec import Raw

from makeway.api.objects.kubernetes import NOTHING
from makeway.api.objects.meta import ObjectMeta, Wire, made, ready


@ready
class CustomObject(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = made(ObjectMeta)
    spec: Raw = NOTHING
    status: Raw = NOTHING
