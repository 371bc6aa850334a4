"""Compaction: the same rows in one fragment. A plan like any other, so a live writer may be quicker."""

from dataclasses import dataclass

from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.drafts import Draft
from fencepost.impl.publish.endings import Published
from fencepost.impl.publish.errors import StaleView

ATTEMPTS_MAX = 5
"""The protocol's own limit against live writers."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of one table."""

    table: str
    runs: int
    """Fragments before."""
    done: bool
    text: str


def compact(catalog: Catalog, table: str) -> Compacted:
    """Rewrite `table` as one fragment, or say that writers were quicker each time."""
    runs = 0
    for _ in range(ATTEMPTS_MAX):
        runs = len(catalog.snapshot().runs(table))
        if runs < 2:
            return Compacted(table, runs, True, "nothing to do")
        draft = Draft(message=f"compact {table}")
        draft.rewrite(table)
        try:
            ended = catalog.publish(draft)
        except StaleView:
            catalog.refresh()
            continue
        done = isinstance(ended, Published)
        return Compacted(table, runs, done, "rewritten" if done else "unknown whether it was rewritten")
    return Compacted(
        table, runs, False, f"live writers were quicker {ATTEMPTS_MAX} times; try when it is quiet"
    )
