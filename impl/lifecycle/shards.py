"""Shards that join and depart: a new one gets cursors, the cursors of one that vanished are removed or kept.

    lifecycle/v1/drained/STREAM.json        the cursor was past the last event of a shard that gets no more
    lifecycle/v1/accepted/ID.json           a loss that an operator accepted

A new shard is swept from where it begins, or from as far back as an action needs, whichever is earlier. When
the writer of a shard departs, each of its cursors gets a record once it is past the last event. After the
log of the shard has vanished, a cursor with that record is removed. One without it is evidence: events were
lost that it had not read. The actions that it names are left to scans, and it stays until an operator accepts
the loss. An action that begins later needs what a vanished shard held as long as that is young enough.
"""

import contextlib
import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from fencepost.impl.cursor import Cursor
from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.blockers import Stream
from fencepost.impl.lifecycle.documents import CURSORS, DAMAGED, FOLDER, damaged, named
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.policy import Degraded
from fencepost.impl.lifecycle.worker import Worker

DRAINED = f"{FOLDER}drained/"


@dataclass(frozen=True, slots=True)
class Departed:
    """The effect of vanished shards on an action that begins."""

    until_ns: int = 0
    """No event of any of them is later."""
    is_lost: bool = False
    """True if no record says that one of them was read to its end."""


@dataclass(frozen=True, slots=True)
class Held:
    """A cursor as it was read."""

    position: str
    serves: frozenset[str]
    etag: str


class Shards:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._context = worker.context
        self._records = worker.records
        self._log = worker.log

    def look(self) -> None:
        """Compare the cursors with the shards that the log has."""
        self.adopt()
        known = set(self._log.shards())
        for stream in self._streams():
            with contextlib.suppress(*DAMAGED):  # one that cannot be read; its sweep shows it
                if stream.shard in known:
                    self._note_drained(stream)
                elif self._worker.leases.hold(stream.key):
                    self._collect(stream)

    def _streams(self) -> list[Stream]:
        return [Stream(key) for key in self._records.keys(CURSORS)]

    # Joining.

    def adopt(self) -> int:
        """Give the cursors to new shards that the active actions need; returns how many.

        An action has a cursor for each shard that it began with. A shard that has none has not been passed.
        """
        known = {stream.key for stream in self._streams()}
        wanted: dict[str, set[str]] = {}
        back: dict[str, int] = {}
        shards = self._log.shards()
        missing = [one for one in self._active() for shard in shards if self._lacks(one, shard, known)]
        for action in missing:
            for shard in shards:
                for key, back_ns in cursors.keys_of(action, shard, self._worker.timing).items():
                    if key not in known:
                        wanted.setdefault(key, set()).add(cursors.name_of(action))
                        back[key] = max(back_ns, back.get(key, 0))
        for key, names in sorted(wanted.items()):
            floor_ns = self._context.env.now_ns() - back[key]
            floor_ns = min(self._log.begins_ns(Stream(key).shard), floor_ns)
            # Before the cursor: a shard that returns under its old name is not drained.
            self._records.remove(_marker(key))
            cursor = Cursor(self._context, key, pace=cursors.PACE)
            cursor.rewind(cursors.before(floor_ns), serves=names, begins=True)
        return len(wanted)

    def _lacks(self, action: Action, shard: str, known: set[str]) -> bool:
        return not cursors.keys_of(action, shard, self._worker.timing).keys() <= known

    def _active(self) -> list[Action]:
        """Those that events drive, as their records have it."""
        snapshot, states = self._worker.snapshot(), self._worker.states
        found = []
        for action in snapshot.actions.values():
            state = states[action.bucket].actions.get(str(action.key)) if action.bucket in states else None
            if action.is_active and state is not None and state.is_complete:
                found.append(action)
        return found

    # Departing.

    def _note_drained(self, stream: Stream) -> None:
        end = self._log.ends(stream.shard)
        held = self._held(stream)
        if end is not None and held.position >= end and self._drained(stream) != end:
            self._note(stream, end)

    def _note(self, stream: Stream, end: str) -> None:
        self._records.change(_marker(stream.key), lambda _: {"stream": stream.key, "position": end})

    def _collect(self, stream: Stream) -> None:
        held = self._held(stream)
        if not held.etag:
            return  # another worker has removed it
        if not held.serves or self._is_drained(stream, held):
            self._records.remove_as_read(stream.key, held.etag)
            return
        actions = {cursors.name_of(one): one for one in self._worker.snapshot().actions.values()}
        for name in sorted(held.serves & actions.keys()):
            self._worker.demote(actions[name], Degraded.LOST_LOG)

    def _is_drained(self, stream: Stream, held: Held) -> bool:
        """A cursor that was moved back since is not."""
        guards = self._worker.safeguards
        of_shard = [position for other, position in self._markers() if other.shard == stream.shard]
        end = self._drained(stream)
        is_past = end is not None and held.position >= end
        return guards.drained_marker(guards.drained_per_stream(is_past, of_shard))

    def _drained(self, stream: Stream) -> str | None:
        fields = self._records.read(_marker(stream.key))
        return None if fields is None else fields["position"]

    def _markers(self) -> list[tuple[Stream, str]]:
        found = [self._records.read(key) for key in self._records.keys(DRAINED)]
        return [(Stream(one["stream"]), one["position"]) for one in found if one is not None]

    def _held(self, stream: Stream) -> Held:
        fields, etag = self._records.read_with_etag(stream.key)
        if fields is None:
            return Held("", frozenset(), "")
        if "position" not in fields:
            raise damaged(stream.key, "it has no position")
        return Held(fields["position"], frozenset(fields.get("serves", ())), etag)

    # Departed shards, for an action that begins and for an operator.

    def departed(self, shards: Collection[str] | None = None) -> Departed:
        """Return the effect of all vanished shards: all but these, or but those that the log has."""
        known = self._log.shards() if shards is None else shards
        gone = [position for stream, position in self._markers() if stream.shard not in known]
        last = self._worker.safeguards.drained_position(max(gone, default=""))
        return Departed(int(last[:20] or 0), is_lost=bool(self.evidence(known)))

    def evidence(self, shards: Collection[str] | None = None) -> list[Stream]:
        """The cursors of shards that vanished before they were read to their ends."""
        known = self._log.shards() if shards is None else shards
        gone = [(stream, self._held(stream)) for stream in self._streams() if stream.shard not in known]
        return [stream for stream, held in gone if held.serves and not self._is_drained(stream, held)]

    def accept(self, reason: str, author: str) -> list[Stream]:
        """An operator accepts that these lost events: the cursors go, a record of the decision stays."""
        now_ns = self._context.env.now_ns()
        accepted = self.evidence()
        for stream in accepted:
            held = self._held(stream)
            if not held.etag:
                continue  # another operator was first
            fields = {
                "stream": stream.key,
                "position": held.position,
                "serves": sorted(held.serves),
                "accepted_for": reason,
                "author": author,
                "accepted_ns": now_ns,
            }
            name = hashlib.sha256(f"{now_ns} {stream.key}".encode()).hexdigest()[:16]
            self._records.create(named("accepted", name), fields)
            self._note(stream, cursors.before(now_ns))
            self._records.remove_as_read(stream.key, held.etag)
        return accepted


def _marker(key: str) -> str:
    return named("drained", key)
