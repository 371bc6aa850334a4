"""The durable documents of a lifecycle, besides its cursors and blockers.

lifecycle/v1/buckets/BUCKET.json            modes of the actions, the walk under way with the ranges of keys
                                            that are left, the last one
lifecycle/v1/pending/ACTION/ID.json         a version that began to match and is not due yet
lifecycle/v1/control.json                   what an operator wants of all workers
lifecycle/v1/day.json                       the length of a day, which is the same for all workers
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from fencepost.impl.lease import Fenced
from fencepost.impl.lifecycle.documents import FOLDER, Documents, Fields, damaged, named
from fencepost.impl.lifecycle.policy import ActionKey, Degraded, Mode

CONTROL = f"{FOLDER}control.json"
HOUR_NS = 3600 * 10**9
ALL = "*"
"""All actions of a bucket."""


@dataclass(frozen=True, slots=True)
class ActionState:
    mode: Mode
    reason: Degraded = Degraded.NONE
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A range of the keys of a bucket that a walk has not done, from behind `after` up to `until`."""

    start: str = ""
    """The key behind which it began: its name in the walk, which stays when it is divided."""
    until: str = ""
    """The last key that it may have; empty for the end of the bucket."""
    after: str = ""
    """The last key that is done."""
    epoch: int = 0
    """Of the lease under which it is walked."""

    def fenced(self, epoch: int | None) -> "Part":
        """Return the part with this epoch; raises `Fenced` if a worker of a higher one was here."""
        if epoch is not None and epoch < self.epoch:
            raise Fenced(f"epoch {self.epoch} walks this part of the bucket, this worker has {epoch}")
        return self if epoch is None else replace(self, epoch=epoch)


@dataclass(frozen=True, slots=True)
class WalkState:
    began_ns: int
    beginning: frozenset[str]
    """The actions that are complete when it ends."""
    parts: tuple[Part, ...] = (Part(),)
    """The ranges that are left, in order."""

    def part(self, start: str) -> Part | None:
        return next((one for one in self.parts if one.start == start), None)

    def with_part(self, start: str, *parts: Part) -> "WalkState":
        """Replace the part that began behind this key, or remove it."""
        found = [new for one in self.parts for new in (parts if one.start == start else (one,))]
        return replace(self, parts=tuple(found))


@dataclass(frozen=True, slots=True)
class Cadence:
    """When walks begin that nothing but time makes necessary."""

    every_ns: int | None = None
    """Between two walks; None leaves it to the kind of the action."""
    hours: tuple[int, ...] = ()
    """Hours of the day, in UTC, in which they begin; all if there is none."""

    def is_hour(self, now_ns: int) -> bool:
        return not self.hours or now_ns // HOUR_NS % 24 in self.hours


@dataclass(slots=True)
class BucketState:
    actions: dict[str, ActionState] = field(default_factory=dict)
    walk: WalkState | None = None
    walked_ns: int | None = None
    """When the last walk that ended began."""
    wanted_ns: int = 0
    """A walk is wanted that begins later."""
    paused: dict[str, str] = field(default_factory=dict)
    """The actions that an operator paused, each with the reason; or `ALL`."""
    epoch: int = 0
    """Of the lease under which the bucket is walked."""
    cadences: dict[str, Cadence] = field(default_factory=dict)
    """The actions for which an operator chose when walks begin; or `ALL`."""

    def cadence(self, action: str) -> Cadence:
        return self.cadences.get(action) or self.cadences.get(ALL) or Cadence()

    def mode(self, key: ActionKey) -> Mode | None:
        found = self.actions.get(str(key))
        return found.mode if found else None

    def is_paused(self, action: str) -> bool:
        return not self.paused.keys().isdisjoint({ALL, action})

    def fence(self, epoch: int | None) -> bool:
        """Have walkers of lower epochs change nothing any more; returns whether that is new."""
        if epoch is None or epoch == self.epoch:
            return False
        if epoch < self.epoch:
            raise Fenced(f"epoch {self.epoch} walks the bucket, this worker has {epoch}")
        self.epoch = epoch
        return True


@dataclass(frozen=True, slots=True)
class Control:
    """The wishes of an operator that concern all workers."""

    paused_for: str = ""
    """Why nothing is worked on; empty while it is."""
    revision: int = 0
    """Rises with every wish, and with every policy that is put."""
    retries: tuple[str, ...] = ()
    """The blockers whose items the workers that have their streams shall try now."""


@dataclass(frozen=True, slots=True)
class Pending:
    action: str
    record: str
    key: str
    version_id: str
    etag: str = field(repr=False)
    """Of the record as it was read."""


class Records(Documents):
    def day_ns(self, ours_ns: int) -> int:
        """The length of a day, which the first worker sets to its own: a shorter one would delete early."""
        key = f"{FOLDER}day.json"
        found = self.read(key)
        if found is None:
            self.create(key, {"day_ns": ours_ns})
            found = self.read(key)
        return ours_ns if found is None else int(found["day_ns"])

    def reader_name(self) -> str:
        """The name of this lifecycle among the readers of a log, which all its workers share."""
        key = f"{FOLDER}reader.json"
        found = self.read(key)
        if found is None:
            self.create(key, {"reader": self._context.env.new_id()})
            found = self.read(key)
        if found is None or "reader" not in found:
            raise damaged(key, "it names no reader")
        return str(found["reader"])

    # Buckets.

    def bucket(self, name: str) -> BucketState:
        key = named("buckets", name)
        return _decode(self.read(key), key)

    def change_bucket(self, name: str, change: Callable[[BucketState], bool]) -> BucketState:
        """Apply a change to the state as it is; `change` returns False to leave it."""

        def changed(fields: Fields | None) -> Fields | None:
            state = _decode(fields, key)
            return _encode(state) if change(state) else None

        key = named("buckets", name)
        return _decode(self.change(key, changed), key)

    # The wishes of an operator.

    def control(self) -> Control:
        fields = self.read(CONTROL) or {}
        retries = tuple(fields.get("retries", ()))
        return Control(fields.get("paused_for", ""), fields.get("revision", 0), retries)

    def pause_all(self, reason: str) -> None:
        """Or have all go on, without a reason."""
        self.change(CONTROL, lambda found: {**(found or {}), "paused_for": reason})

    def retry(self, blocker_id: str) -> None:
        """Have the worker that has the stream of a blocker try its item now."""
        self.change(CONTROL, lambda found: _with_retries(found, lambda known: [*known, blocker_id]))

    def retried(self, blocker_id: str) -> None:
        """Withdraw the wish, which was fulfilled."""

        def without(found: Fields | None) -> Fields | None:
            if blocker_id not in (found or {}).get("retries", ()):
                return None
            return _with_retries(found, lambda known: [one for one in known if one != blocker_id])

        self.change(CONTROL, without)

    def wake(self) -> None:
        """Have the services look now, as after a policy was put."""
        self.change(CONTROL, lambda found: found or {})

    # Pending versions.

    def pending(self, action: str | None = None) -> Iterator[Pending]:
        for record in self.keys(_pending_folder(action)):
            fields, etag = self.read_with_etag(record)
            if fields is not None:
                name = unquote(record.split("/")[3])
                yield Pending(name, record, fields["key"], fields["version"], etag)

    def pending_count(self, action: str) -> int:
        return sum(1 for _ in self.keys(_pending_folder(action)))

    def add_pending(self, action: str, key: str, version_id: str) -> bool:
        """Returns whether it is new.

        One that is there already is written anew: a drain that looked before this call does not remove it.
        """
        name = hashlib.sha256(f"{len(key)} {key}{version_id}".encode()).hexdigest()[:32]
        known: list[bool] = []

        def change(found: Fields | None) -> Fields:
            known.append(found is not None)
            return {"key": key, "version": version_id}

        self.change(f"{_pending_folder(action)}{name}.json", change)
        return not known[0]


def _with_retries(found: Fields | None, change: Callable[[list[str]], list[str]]) -> Fields:
    fields = found or {}
    return {**fields, "retries": sorted({*change(list(fields.get("retries", ())))})}


def _pending_folder(action: str | None) -> str:
    folder = f"{FOLDER}pending/"
    return folder if action is None else f"{folder}{quote(action, safe='')}/"


def _encode(state: BucketState) -> Fields:
    actions = {key: [one.mode.value, one.reason.value, one.is_complete] for key, one in state.actions.items()}
    walk = state.walk
    return {
        "actions": actions,
        "walk": None if walk is None else _encode_walk(walk),
        "walked_ns": state.walked_ns,
        "wanted_ns": state.wanted_ns,
        "paused": state.paused,
        "epoch": state.epoch,
        "cadences": {key: [one.every_ns, list(one.hours)] for key, one in state.cadences.items()},
    }


def _encode_walk(walk: WalkState) -> list[object]:
    parts = [[one.start, one.until, one.after, one.epoch] for one in walk.parts]
    return [walk.began_ns, sorted(walk.beginning), parts]


def _decode(fields: Fields | None, key: str) -> BucketState:
    if fields is None:
        return BucketState()
    try:
        return _state_of(fields)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise damaged(key, error) from None


def _state_of(fields: Fields) -> BucketState:
    actions = {
        key: ActionState(Mode(mode), Degraded(reason), complete)
        for key, (mode, reason, complete) in fields["actions"].items()
    }
    began = fields["walk"]
    walk = None
    if began is not None:
        walk = WalkState(began[0], frozenset(began[1]), tuple(Part(*part) for part in began[2]))
    return BucketState(
        actions,
        walk,
        fields["walked_ns"],
        fields.get("wanted_ns", 0),
        dict(fields.get("paused", {})),
        fields.get("epoch", 0),
        {
            key: Cadence(every_ns, tuple(hours))
            for key, (every_ns, hours) in fields.get("cadences", {}).items()
        },
    )


def without_beginning(state: BucketState, gone: frozenset[str]) -> bool:
    """Have these actions begin with another walk than the one under way, should they be there again."""
    if state.walk is None or not state.walk.beginning & gone:
        return False
    state.walk = replace(state.walk, beginning=state.walk.beginning - gone)
    return True
