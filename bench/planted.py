"""Violations planted into good runs, each kind against another promise of the publish protocol.

    planted = plant("create-only-manifest", run, draw)      # None: this run offers no place for it
    planted.events, planted.at                              # the run, and the number of the planted event

Where a kind may be planted at several places of a run, chance says at which. Keys and trace fields alone,
without the model, decide here what makes an event a violation. `PLANTS` names the promise that is broken.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from bench.mutations import fact
from fencepost.impl.store.events import Event

_NUMBER = re.compile(r"(\d{20})\.json$")


@dataclass(frozen=True)
class Planted:
    """A run that violates its promise from the event with the number `at` on."""

    kind: str
    events: list[Event]
    at: int


Place = tuple[list[Event], int]
"""The run with the planted event, and its place."""


def plant(kind: str, run: list[Event], draw: Any) -> Planted | None:
    """One violation of a kind, at a place that is drawn."""
    places = list(PLANTS[kind](run))
    if not places:
        return None
    events, at = draw.choice(places)
    return Planted(kind, [replace(event, seq=seq) for seq, event in enumerate(events)], at)


def no_sidecar(run: list[Event]) -> Iterator[Place]:
    """A head moves, and its plan was never written down."""
    for at, event in _landed(run, "recovery/"):
        heads = [n for n, one in _landed(run, "/version/") if fact(one, "plan") == fact(event, "plan")]
        again = [n for n, one in _landed(run, "recovery/") if one.key == event.key and n != at]
        if heads and not again:
            yield run[:at] + run[at + 1 :], heads[0] - 1


def no_head(run: list[Event]) -> Iterator[Place]:
    """A plan becomes visible, and a table of it never moved."""
    for at, event in _landed(run, "/version/"):
        commits = [n for n, one in _commits(run) if fact(one, "plan") == fact(event, "plan")]
        same = [n for n, one in _landed(run, "/version/") if one.key == event.key]
        retired = any(
            one.kind == "delete" and "recovery/" in one.key for one in run[at : max(commits, default=at)]
        )
        if commits and commits[0] > at and not fact(event, "undo") and same == [at] and not retired:
            yield run[:at] + run[at + 1 :], _first_after(run, at, event, commits[0]) - 1


def _first_after(run: list[Event], at: int, head: Event, commit: int) -> int:
    """Return the places of the events that continue from a head before its plan commits."""
    on = [n for n, one in _landed(run, "/version/") if at < n < commit and _goes_on(one, head)]
    return min([commit, *on])


def _goes_on(one: Event, head: Event) -> bool:
    return one.key[:-25] == head.key[:-25] and _number(one) == _number(head) + 1


def manifest_twice(run: list[Event]) -> Iterator[Place]:
    """The same manifest is created a second time, by somebody else."""
    for at, event in _commits(run):
        yield _with(run, at + 1, replace(event, process=f"{event.process}-rival"))


def head_twice(run: list[Event]) -> Iterator[Place]:
    """The same version of a table is created over itself."""
    for at, event in _landed(run, "/version/"):
        yield _with(run, at + 1, event)


def fenced_commit(run: list[Event]) -> Iterator[Place]:
    """A commit of an epoch before the present one."""
    for at, event in _commits(run):
        epoch = int(fact(event, "epoch"))
        if epoch > 1:
            yield _instead(run, at, _says(event, "epoch", epoch - 1))


def claim_skips(run: list[Event]) -> Iterator[Place]:
    """An epoch is claimed that is not the next one."""
    for at, event in _landed(run, "/manifest/"):
        known = any(fact(one, "epoch") for one in run[:at] if one.phase == "landed")
        if fact(event, "kind") == "claim" and known:
            yield _instead(run, at, _says(event, "epoch", int(fact(event, "epoch")) + 1))


def lost_write(run: list[Event]) -> Iterator[Place]:
    """A manifest pins an older version than the one before it did."""
    for at, event in _landed(run, "/manifest/"):
        for table in ("nodes", "edges"):
            pins = [int(fact(one, f"{table}_number") or 0) for n, one in _landed(run, "/manifest/") if n < at]
            if pins and fact(event, f"{table}_number") and pins[-1] > min(pins):
                yield _instead(run, at, _says(event, f"{table}_number", pins[-1] - 1))


def chain_with_a_hole(run: list[Event]) -> Iterator[Place]:
    """A manifest whose parent was never created."""
    for at, event in _landed(run, "/manifest/"):
        earlier = [n for n, _ in _landed(run, "/manifest/") if n < at]
        if earlier:
            number = _number(event) + 1
            moved = _says(event, "parent", number - 1)
            yield _instead(run, at, replace(moved, key=_NUMBER.sub(f"{number:020d}.json", event.key)))


def pinned_version_deleted(run: list[Event]) -> Iterator[Place]:
    """A version goes that the newest manifest pins."""
    for at, event in _commits(run):
        heads = [one for n, one in _landed(run, "/version/") if n < at and _is_pinned(one, event)]
        for head in heads:
            yield _with(run, at + 1, _deletes(event, head.key))


def _is_pinned(head: Event, manifest: Event) -> bool:
    return any(
        fact(head, f"{table}_number") == fact(manifest, f"{table}_number") != ""
        for table in ("nodes", "edges")
    )


def retained_manifest_deleted(run: list[Event]) -> Iterator[Place]:
    """A manifest goes that is above the boundary."""
    for at, event in _commits(run):
        yield _with(run, at + 1, _deletes(event, event.key))


def sidecar_taken_away(run: list[Event]) -> Iterator[Place]:
    """A plan's sidecar goes before the plan is settled, its heads standing or still to come.

    The process that deletes it has never seen it. A reader of the sidecar may delete it once a later manifest
    has overtaken the plan, which can then never be published.
    """
    for at, event in _landed(run, "recovery/"):
        plan = fact(event, "plan")
        heads = [n for n, one in _landed(run, "/version/") if n > at and fact(one, "plan") == plan]
        others = [n for n, one in _landed(run, "/") if at < n < (heads or [0])[0] and one.key != event.key]
        if heads and not others:
            yield _with(run, at + 1, replace(_deletes(event, event.key), process=f"{event.process}-rival"))


def undone_before_begun(run: list[Event]) -> Iterator[Place]:
    """A head that undoes a plan that was never recorded."""
    for at, event in _landed(run, "/version/"):
        if not fact(event, "undo") and not any(fact(one, "undo") for one in run):
            plan = "0" * len(fact(event, "plan"))
            yield _instead(run, at, _says(_says(event, "undo", "yes"), "plan", plan))


def based_on_nothing(run: list[Event]) -> Iterator[Place]:
    """A plan based on a manifest that does not exist yet."""
    for at, event in _landed(run, "recovery/"):
        if any("/manifest/" in one.key for _, one in _landed(run[:at], "/")):
            yield _instead(run, at, _says(event, "base", int(fact(event, "base")) + 3))


def published_twice(run: list[Event]) -> Iterator[Place]:
    """A plan that was published is published once more, as the next manifest."""
    for at, event in _commits(run):
        if fact(event, "kind") == "publish":
            number = _number(event) + 1
            again = replace(
                _says(event, "parent", number - 1), key=_NUMBER.sub(f"{number:020d}.json", event.key)
            )
            yield _with(run, at + 1, again)


def head_skips(run: list[Event]) -> Iterator[Place]:
    """A version that leaves a number out."""
    for at, event in _landed(run, "/version/"):
        table = "nodes" if fact(event, "nodes_number") else "edges"
        number = _number(event) + 1
        further = replace(event, key=_NUMBER.sub(f"{number:020d}.json", event.key))
        yield _instead(run, at, _says(further, f"{table}_number", number))


PLANTS: dict[str, Callable[[list[Event]], Iterable[Place]]] = {
    "sidecar-before-heads": no_sidecar,
    "whole-plan-visible": no_head,
    "create-only-manifest": manifest_twice,
    "create-only-version": head_twice,
    "epoch-check": fenced_commit,
    "epochs-follow-each-other": claim_skips,
    "no-lost-write": lost_write,
    "chain-without-holes": chain_with_a_hole,
    "pinned-version-stays": pinned_version_deleted,
    "retained-manifest-stays": retained_manifest_deleted,
    "sidecar-until-settled": sidecar_taken_away,
    "undo-of-a-plan": undone_before_begun,
    "plan-on-a-manifest": based_on_nothing,
    "published-once": published_twice,
    "lineage-without-holes": head_skips,
}


def _landed(run: list[Event], words: str) -> Iterator[tuple[int, Event]]:
    """Writes of documents that landed and were done, with their places."""
    for at, event in enumerate(run):
        if event.phase == "landed" and event.kind == "put" and event.outcome == "done" and words in event.key:
            yield at, event


def _commits(run: list[Event]) -> Iterator[tuple[int, Event]]:
    return ((at, event) for at, event in _landed(run, "/manifest/") if fact(event, "plan"))


def _with(run: list[Event], at: int, event: Event) -> Place:
    return [*run[:at], event, *run[at:]], at


def _instead(run: list[Event], at: int, event: Event) -> Place:
    return [*run[:at], event, *run[at + 1 :]], at


def _deletes(event: Event, key: str) -> Event:
    return replace(event, kind="delete", key=key, condition="anything", trace_fields="")


def _number(event: Event) -> int:
    found = _NUMBER.search(event.key)
    return int(found[1]) if found else -1


def _says(event: Event, name: str, value: object) -> Event:
    words = [word for word in event.trace_fields.split() if not word.startswith(f"{name}=")]
    return replace(event, trace_fields=" ".join(sorted([*words, f"{name}={value}"])))
