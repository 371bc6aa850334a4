"""The acceptance protocol of ingest as a machine.

Authority is its ground: what stands in the bucket, generations of blobs, and the horizon that passes.
"""

from fencepost.model.ingest.authority import Authority
from fencepost.model.ingest.machine import Ingest

__all__ = ["Authority", "Ingest"]
