"""The acceptance protocol of ingest as a machine.

Authority is its ground: what stands in the bucket, generations of blobs, and the horizon that passes.
"""

from holdfast.model.ingest.authority import Authority
from holdfast.model.ingest.machine import Ingest

__all__ = ["Authority", "Ingest"]
