"""An object of a kind that a CustomResourceDefinition of another project defines: metadata, and the rest raw.

Every byte of ``spec`` and ``status`` stays as it came, except where ``kubernetes.amended`` changes keys for the
description of the kind (``controllers.jobs.kinds.described``).
"""

from __future__ import annotations

from msgspec import Raw

from makeway.api.objects.kubernetes import NOTHING
from makeway.api.objects.meta import KubernetesObject, ready


@ready
class CustomObject(KubernetesObject, frozen=True):
    api_version: str = ""
    kind: str = ""
    spec: Raw = NOTHING
    status: Raw = NOTHING
