"""Comparisons of a value in an event with the value that an earlier write showed.

Positions, revisions, generations and epochs rise without end, so a bounded model has no room for them. A
protocol promises an order of them: a revision is the next one, a position only rises. So a map may compare
such a value with the one that the last write of the same document showed:

    Compared("revision_is", "revision", shown_by="cursor", of=("cursor",))
    Compared("reach_is", "reach", shown_by="bucket", against="began", largest=True)

The observation gets a trace field with the result: `same`, `next` (a number that is larger by one), `more`,
`less`, or `other` (no number). It has no such field where nothing is known to compare with: nothing was
written before in the run, or it was deleted since, or the run does not record where requests landed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Compared:
    """A value of an event, compared with what an earlier write of the run showed."""

    name: str
    """The trace field of the observation that has the result."""
    value: str
    """The trace field, or the group of the key, of this event."""
    shown_by: str
    """The kind of keys of the earlier write."""
    of: tuple[str, ...] = ()
    """The value that both events have in common, such as the name of a document: the first of these that the
    event has. Without any, all of a run are compared."""
    against: str = ""
    """The trace field of the earlier write; empty for the same as `value`."""
    largest: bool = False
    """Compare with the largest number of all earlier writes, not with the last one."""
    numbers: bool = True
    """The values are whole numbers; otherwise texts, in their order by characters."""

    @property
    def shown(self) -> str:
        return self.against or self.value


Shown = Mapping[tuple[str, str, str], str]
"""The values to compare with: by the kind of keys that showed it, the trace field, and the text of `of`."""


def compare(before: str, now: str, *, numbers: bool = True) -> str:
    """The order of two values as a word."""
    if before == now:
        return "same"
    if not numbers:
        return "more" if now > before else "less"
    if not (before.isdecimal() and now.isdecimal()):
        return "other"
    difference = int(now) - int(before)
    if difference == 1:
        return "next"
    return "more" if difference > 0 else "less"


def results(wanted: Sequence[Compared], shown: Shown, values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The result of each comparison for one event; empty where there is nothing to compare."""
    found = []
    for one in wanted:
        now = values.get(one.value)
        before = shown.get((one.shown_by, one.shown, _common(one, values)))
        known = now is not None and before is not None
        found.append(compare(before or "", now or "", numbers=one.numbers) if known else "")
    return tuple(found)


def after_write(
    wanted: Sequence[Compared], shown: Shown, kind: str, values: Mapping[str, str | None]
) -> Shown:
    """The values to compare with after a write of this kind of keys."""
    changed = dict(shown)
    for one in wanted:
        now = values.get(one.shown)
        if one.shown_by != kind or now is None:
            continue
        place = (kind, one.shown, _common(one, values))
        known = changed.get(place)
        if one.largest and known is not None and compare(known, now) == "less":
            continue
        changed[place] = now
    return changed


def after_delete(
    wanted: Sequence[Compared], shown: Shown, kind: str, values: Mapping[str, str | None]
) -> Shown:
    """The values to compare with after the deletion of a key of this kind."""
    gone = {
        (kind, one.shown, _common(one, values)) for one in wanted if one.shown_by == kind and not one.largest
    }
    return {place: value for place, value in shown.items() if place not in gone}


def _common(one: Compared, values: Mapping[str, str | None]) -> str:
    return next((text for name in one.of if (text := values.get(name)) is not None), "")
