"""Holdfast: proves, attacks, times and watches protocols that coordinate through an object store.

    @holdfast.audit(processes=3, crashes=1)     a test that drives real code through every schedule
    def test_one_leader(world): ...
    holdfast.AuditFailed                        what it raises, with the shortest story

The rest is imported from where it lives: holdfast.impl.store, holdfast.model, holdfast.sim.world, ...

PYTEST_DONT_REWRITE: there is no assertion here, and pytest would warn where we were imported before it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing import AuditFailed, audit

__version__ = "0.1.0"
__all__ = ["AuditFailed", "audit"]


def __getattr__(name: str) -> Any:
    # Only on demand: `import holdfast` must cost nothing to those who want something else of it.
    if name in __all__:
        return getattr(importlib.import_module("holdfast.testing"), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
