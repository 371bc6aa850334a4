"""Runs with deliberate errors, and where replay must notice them.

    drop     an event that something later builds on did not happen
    flip     it was answered `exists` instead of `done`
    swap     what builds on it came first
    epoch    a commit carries an epoch lower than the one it was made in

Dependences between events are read from keys and trace fields alone, without the model. A head and a commit
build on their plan's sidecar, and a commit on its plan's heads. A version builds on the one before it, as a
manifest does. Every event of an epoch builds on its claim. A plan and a boundary build on the manifest that
they name. The deletion of a sidecar by its owner builds on the heads and the commit of its plan. Any other
deletion of a sidecar follows from earlier reads, and *may* build on each of them.

The right event is the first that builds on what is gone, or one before it that may, or that is about the same
object and contradicts the change: of `swap` the one that
now comes first, of `epoch` the commit itself. The claim that is the first to name an epoch is left alone:
a run does not tell what was before it, so without that claim it merely begins later.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fencepost.impl.store.events import Event

Life = tuple[str, int]
_ID = re.compile(r"manifest/(\d+)\.json")
_SIDECAR = re.compile(r"recovery/([^/]+)\.json$")


@dataclass(frozen=True)
class Mutation:
    """A run with an error, and the numbers of the events at which it may be seen."""

    kind: str
    what: str
    events: list[Event]
    right: frozenset[int]
    sure: bool
    """True if some event certainly builds on the changed one."""


def mutations(run: list[Event]) -> Iterator[Mutation]:
    """All mutations of a run that tells its landings."""
    owners = {fact(event, "plan"): _life(event) for event in run if _sort(event) == "sidecar"}
    begun = False
    for at, event in enumerate(run):
        sort = _sort(event)
        if not sort:
            continue
        if begun or sort != "claim":
            yield from _of(run, at, owners)
        begun = begun or bool(fact(event, "epoch"))


def _of(run: list[Event], at: int, owners: dict[str, Life]) -> Iterator[Mutation]:
    event, sort = run[at], _sort(run[at])
    later = range(at + 1, len(run))
    gone = {_retired(run[n]): n for n in range(len(run) - 1, -1, -1) if _retired(run[n])}
    telling = [n for n in later if gone.get(_retired(run[n]), n) == n]  # deleting again shows nothing
    first = next((n for n in telling if _builds(run[n], event, owners)), -1)
    stop = first if first >= 0 else len(run)
    right = {first} if first >= 0 else set()
    right |= {n for n in range(at + 1, stop) if _retired(run[n])}
    seen = {n for n in range(at + 1, stop) if run[n].key == event.key}
    dropped = run[:at] + run[at + 1 :]
    yield Mutation("drop", sort, _numbered(dropped), frozenset(n - 1 for n in right | seen), first >= 0)
    flipped = [*run[:at], replace(event, outcome="exists"), *run[at + 1 :]]
    yield Mutation("flip", sort, _numbered(flipped), frozenset({at} | right | seen), first >= 0)
    if first >= 0:
        swapped = list(run)
        swapped[at], swapped[first] = run[first], event
        yield Mutation("swap", sort, _numbered(swapped), frozenset({at} | right - {first}), sure=True)
    epoch = fact(event, "epoch")
    if sort == "commit" and epoch and int(epoch) > 1:
        lowered = replace(
            event, trace_fields=event.trace_fields.replace(f"epoch={epoch}", f"epoch={int(epoch) - 1}")
        )
        changed = [*run[:at], lowered, *run[at + 1 :]]
        yield Mutation("epoch", sort, _numbered(changed), frozenset({at}), sure=True)


def _sort(event: Event) -> str:
    """Return the sort of an event that others may build on: a landed write that was done."""
    if event.phase != "landed" or event.kind != "put" or event.outcome != "done":
        return ""
    if "recovery/" in event.key:
        return "sidecar"
    if "/version/" in event.key:
        return "head"
    if _ID.search(event.key):
        return "commit" if fact(event, "plan") else "claim"
    return ""


def _builds(later: Event, earlier: Event, owners: dict[str, Life]) -> bool:
    """Return True if `later` is impossible without `earlier`."""
    sort, what = _sort(later), _sort(earlier)
    retired = _retired(later)
    if retired:
        return owners.get(retired) == _life(later) and _of_plan(earlier, retired)
    same_plan = fact(later, "plan") == fact(earlier, "plan")
    if what == "sidecar":
        return sort in ("head", "commit") and same_plan
    if what == "head":
        return (sort == "commit" and same_plan) or (sort == "head" and _follows(later, earlier))
    if what == "claim" and sort and fact(later, "epoch") == fact(earlier, "epoch"):
        return True
    manifest = _ID.search(earlier.key)
    return manifest is not None and _names(later, sort, int(manifest[1]))


def _names(later: Event, sort: str, manifest: int) -> bool:
    """Return True if an event relies on the existence of a manifest."""
    one = _ID.search(later.key)
    if sort in ("commit", "claim") and one:
        return int(one[1]) == manifest + 1
    landed = later.phase == "landed" and later.kind == "put" and later.outcome == "done"
    base, boundary = fact(later, "base") if sort == "sidecar" else "", fact(later, "boundary")
    if not landed or not (base or boundary):
        return False
    return int(base) >= manifest if base else int(boundary) + 1 >= manifest  # one is always left


def _of_plan(event: Event, plan: str) -> bool:
    return _sort(event) in ("head", "commit") and fact(event, "plan") == plan


def _follows(later: Event, earlier: Event) -> bool:
    """Return True if one version directly follows another."""
    one, other = (event.key.rpartition("/version/") for event in (later, earlier))
    return one[0] == other[0] and int(one[2].split(".")[0]) == int(other[2].split(".")[0]) + 1


def _life(event: Event) -> Life:
    return event.process, event.incarnation


def _retired(event: Event) -> str:
    """The plan whose sidecar an event deleted."""
    deleted = event.phase == "landed" and event.kind == "delete" and event.outcome == "done"
    name = _SIDECAR.search(event.key)
    return name[1] if deleted and name else ""


def fact(event: Event, name: str) -> str:
    """A trace field of an event; empty without it."""
    return next(
        (word.partition("=")[2] for word in event.trace_fields.split() if word.startswith(f"{name}=")), ""
    )


def _numbered(run: list[Event]) -> list[Event]:
    return [replace(event, seq=seq) for seq, event in enumerate(run)]
