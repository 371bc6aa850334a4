"""What is repaired behind the acceptance: indexes, and the one rollup of every batch.

Whoever learns of a manifest may derive what is missing: the bucket's notification, a listing of
accepted-by-time, an audit of the whole identity prefix. Each entry is an idempotent put of its own, so what a
crash leaves is repaired like the whole, and it does not matter who repairs it: all of that is `repair`.

What matters is whether somebody does. The reconciler's cursor says up to which era everything listed is
repaired; it lists again from a little before. Reading the page and moving the cursor are one step: what is
listed between them may as well be listed right after. An audit's promise ends one era before the present: a
manifest of this era or the last may land behind the place that the audit has read already.

A rollup's chunk is named by what is in it and created once, so writing it and remembering it are one step.
"""

from fencepost.model.ingest.accepting import ENTRIES, Accepting
from fencepost.model.kernel import Int, Truth, action, any_of

OVERLAP = 1
"""Eras: the protocol's own limit for how late something may be listed."""


class Deriving(Accepting):
    """The reconciler and the owner of the rollups."""

    cursor = Int(0, Accepting.horizons)  # listed entries of earlier eras are repaired
    rolled = Int(0, 2)

    @action(entry=ENTRIES)
    def repair(s, entry: str) -> None:
        """Whether the data stands is looked at, and reported, but decides nothing here."""
        s.require(s.is_on("reconcile"))
        s.require(s.manifest.is_there)
        s.derive(entry)

    def is_readable(s) -> Truth:
        """Whether the accepted data is found."""
        manifest = s.manifest
        return any_of(manifest.holds(content=h) & s.stands(h, manifest.generation) for h in range(s.contents))

    def is_scanned(s) -> Truth:
        """Whether the next listing comes by the entry of the batch."""
        overlap = OVERLAP if s.is_on("cursor-overlap") else 0
        return s.manifest.generation >= s.cursor - overlap

    @action
    def move_cursor(s) -> None:
        """Never past what is listed and not repaired."""
        s.require(s.scanning > 0 and s.is_on("reconcile"))
        s.require(s.cursor < s.era)
        s.require(~(s.listed & ~s.referenced & s.is_scanned()))
        s.cursor = s.era

    @action
    def roll_up(s) -> None:
        """The owner counts what is listed, each batch once."""
        s.require(s.listed & (s.rolled == 0))
        s.require(s.is_readable())
        s.rolled = s.rolled + 1
