"""Batches of points, each accepted once by any of several collectors, and read back.

    from fencepost.ingest import Identity, Point, Sender, Spool, encode

An agent writes frames into a `Spool`, and a `Sender` sends them until a collector has accepted them. The
protocol is in docs/decisions/0011-ingest-protocol.md; `fencepost ingest` has the commands of operators.
"""

from typing import TYPE_CHECKING, Any

from fencepost.impl.ingest import Identity, Point, encode, read
from fencepost.impl.ingest.service.sending import Sender
from fencepost.impl.ingest.service.spool import Spool

if TYPE_CHECKING:
    from fencepost.impl.ingest.spark import RollupSource

__all__ = ["Identity", "Point", "RollupSource", "Sender", "Spool", "encode", "read"]


def __getattr__(name: str) -> Any:
    if name == "RollupSource":  # needs PySpark
        from fencepost.impl.ingest.spark import RollupSource

        return RollupSource
    raise AttributeError(f"module 'fencepost.ingest' has no attribute {name!r}")
