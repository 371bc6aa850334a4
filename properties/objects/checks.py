"""The properties of the object server, each written once: functions of a directory and of what was answered.

Audits call them. The invariants of the models `objects`, `uploads` and `handoff` have the same names
(tests/properties/objects/test_checks.py). A version is known by the ETag of its body, so the bodies of the
writes of one run differ.

    for name, check in CHECKS.items(): assert not list(check(directory, outcomes)), name
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fencepost.impl.objects.change_log import Event

Place = tuple[str, str]
"""Bucket and key."""
DONE, REFUSED, UNANSWERED = "done", "refused", "unanswered"
ABSENT = ""
"""The version of a key without an object."""


@dataclass(frozen=True)
class Directory:
    """The contents of a server's directory."""

    objects: Mapping[Place, str]
    """The ETags of the objects."""
    listed: Mapping[Place, str]
    """The ETags in a listing after the server has started."""
    events: tuple[Event, ...]
    """Those of the log and of the outbox, in their order."""


NOTHING = Directory({}, {}, ())


@dataclass(frozen=True)
class Request:
    """A write of one key, and its answer; `unanswered` if its process ended before."""

    name: str
    place: Place
    kind: str
    """`create`, `replace` (if-match), `put`, `delete` or `complete` (an upload)."""
    etag: str
    """Of what it writes; empty for a delete."""
    answer: str
    """`done`, `refused` (a condition, or an upload that is gone), or `unanswered`."""
    base: str = ABSENT
    """The version that a replace names."""
    upload: str = ""


@dataclass(frozen=True)
class Outcomes:
    """The state before the run, and the events of the run."""

    requests: tuple[Request, ...] = ()
    before: Mapping[Place, str] = field(default_factory=dict)
    reads: tuple[tuple[str, str], ...] = ()
    """The ETag of the bytes of each read, and the ETag of the version whose attributes came with them."""
    removed: Mapping[str, float] = field(default_factory=dict)
    """Uploads that the collector removed, by the time for which they had rested, in seconds."""
    upload_age_s: float = 0.0
    is_reconciled: bool = True
    """True if a server started again after each crash."""
    owners: tuple[tuple[str, ...], ...] = ()
    """The servers that had the directory at once, at each moment of a handoff."""
    serving: tuple[str, ...] | None = None
    """The servers that serve at the end; None if no server was replaced."""
    failed_handoff: str = ""
    """The reason of a failed handoff in which no server took too long or ended."""

    @cached_property
    def written(self) -> dict[Place, list[Request]]:
        found: dict[Place, list[Request]] = {}
        for request in self.requests:
            found.setdefault(request.place, []).append(request)
        return found


def one_winner(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """A create succeeds only if the key has no object: between two creates of a key there is a delete."""
    for place, requests in outcomes.written.items():
        won = [one.name for one in requests if one.kind == "create" and one.answer == DONE]
        free = sum(one.kind == "delete" and one.answer != REFUSED for one in requests)
        if len(won) > free + (not outcomes.before.get(place)):
            yield f"{' and '.join(won)} both created {place[1]}"


def cas_exact(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """Of the writes that name one version at most one succeeds, because it replaces exactly that one."""
    for place, requests in outcomes.written.items():
        by_base: dict[str, list[str]] = {}
        for one in requests:
            if one.kind == "replace" and one.answer == DONE:
                by_base.setdefault(one.base, []).append(one.name)
        for names in by_base.values():
            if len(names) > 1:
                yield f"{' and '.join(names)} both replaced one version of {place[1]}"


def untorn(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """A read returns the bytes and the attributes of one version that somebody wrote."""
    known = {one.etag for one in outcomes.requests} | set(outcomes.before.values())
    for body, attributes in outcomes.reads:
        if body != attributes or body not in known:
            yield f"a read returned bytes of {body or 'nothing'} with attributes of {attributes or 'nothing'}"


def ack_durable(directory: Directory, outcomes: Outcomes) -> Iterator[str]:
    """An acknowledged write is there or was replaced since; a refused write is never there."""
    for place, requests in outcomes.written.items():
        stands = directory.objects.get(place, ABSENT)
        done = [one for one in requests if one.answer == DONE]
        possible = {one.etag for one in requests if one.answer != REFUSED}
        if not done:
            possible.add(outcomes.before.get(place, ABSENT))
        if stands not in possible:
            why = f"{done[0].name} succeeded" if done else "nobody succeeded"
            yield f"{why}, and {place[1]} holds {stands or 'nothing'}"


def list_true(directory: Directory, outcomes: Outcomes) -> Iterator[str]:
    """Once a crash is reconciled, the listing equals the directory."""
    for place in sorted(directory.objects.keys() | directory.listed.keys()) * outcomes.is_reconciled:
        stands, listed = directory.objects.get(place, ABSENT), directory.listed.get(place, ABSENT)
        if stands != listed:
            yield f"{place[1]} holds {stands or 'nothing'}, and the listing shows {listed or 'nothing'}"


def event_complete(directory: Directory, outcomes: Outcomes) -> Iterator[str]:
    """Once a crash is reconciled, the last event of a key shows its present object."""
    for place in sorted(directory.objects.keys() | outcomes.written.keys()) * outcomes.is_reconciled:
        events = [event for event in directory.events if (event.bucket, event.key) == place]
        last = _new(events[-1]) if events else outcomes.before.get(place, ABSENT)
        if last != directory.objects.get(place, ABSENT):
            stands = directory.objects.get(place) or "nothing"
            yield f"{place[1]} holds {stands}, and its last event shows {last or 'nothing'}"


def event_true(directory: Directory, outcomes: Outcomes) -> Iterator[str]:
    """No event shows a version that was refused: an event follows its change."""
    refused = {one.etag for one in outcomes.requests if one.answer == REFUSED and one.etag}
    refused -= {one.etag for one in outcomes.requests if one.answer != REFUSED}  # two complete one upload
    for event in directory.events:
        if _new(event) in refused:
            yield f"there is an event of {_new(event)}, whose write was refused"


def _new(event: Event) -> str:
    return ABSENT if event.new is None else str(event.new["etag"])


def upload_safe(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """The collector removes no upload that was touched lately."""
    for upload, rested_s in outcomes.removed.items():
        if rested_s < outcomes.upload_age_s:
            yield f"the collector removed {upload}, which had rested for {rested_s:g} s"


def published_once(directory: Directory, outcomes: Outcomes) -> Iterator[str]:
    """Completing an upload twice yields one object: it is published once."""
    for place, requests in outcomes.written.items():
        made = {one.etag for one in requests if one.kind == "complete"}
        marks = {
            event.new["mark"]
            for event in directory.events
            if (event.bucket, event.key) == place and event.new is not None and event.new["etag"] in made
        }
        if len(marks) > 1:
            yield f"one upload was published {len(marks)} times as {place[1]}"


def one_owner(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """Never do two servers have the directory."""
    for owners in outcomes.owners:
        if len(owners) > 1:
            yield f"{' and '.join(owners)} had the directory at once"


def always_served(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """After a handoff, whether it failed or not, somebody serves."""
    if outcomes.serving == ():
        yield "nobody serves"


def handed_over(_: Directory, outcomes: Outcomes) -> Iterator[str]:
    """A handoff succeeds unless a server takes too long or ends."""
    if outcomes.failed_handoff:
        yield f"the handoff failed: {outcomes.failed_handoff}"


Check = Callable[[Directory, Outcomes], Iterator[str]]
CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        one_winner,
        cas_exact,
        untorn,
        ack_durable,
        list_true,
        event_complete,
        event_true,
        upload_safe,
        published_once,
        one_owner,
        always_served,
        handed_over,
    )
}
