"""Fencepost: proves, attacks, times and watches protocols that coordinate through an object store.

    @fencepost.audit(processes=3, crash=1)     a test that drives real code through every schedule
    def test_one_leader(world): ...
    fencepost.AuditFailed                        what it raises, with the shortest counterexample
    fencepost.record(client, "traces")           records what a boto3 client sends, for `replay`

The rest is imported from where it lives: fencepost.impl.store, fencepost.model, fencepost.sim.world, ...

PYTEST_DONT_REWRITE: there is no assertion here, and pytest would warn where we were imported before it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.impl.recording import record
    from fencepost.testing import AuditFailed, audit

__version__ = "0.1.0"
__all__ = ["AuditFailed", "audit", "record"]
_HOMES = {
    "AuditFailed": "fencepost.testing",
    "audit": "fencepost.testing",
    "record": "fencepost.impl.recording",
}


def __getattr__(name: str) -> Any:
    # Only on demand: `import fencepost` must cost nothing to those who want something else of it.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'fencepost' has no attribute {name!r}")
