"""Footprint of a step as two integers: the objects that it read and the objects that it wrote.

Theory. Two neighbouring steps of different actors may be swapped, with the same replies and the same
state after, when neither writes what the other reads. Everything a step can touch is an
*object*: a key, a listing, an upload, the clock, a topic of notes, a process's result, a property that
looks on. Each object is one bit, so a test for a conflict of two steps is three operations on integers,
whatever they touched.

    put that was refused       reads its key (it learnt that the key has an object, and changed nothing).
    put that was applied       reads and writes its key; writes every listing whose prefix the key has.
    list                       reads the listing of its prefix.
    create-upload              reads its key (completion compares the object there), writes the upload.
    a write with time stamps   reads the clock.

Writing alone does not conflict with writing: two puts of different keys both change a listing, and no
listing shows which came first. Where the order of two writes matters, a write reads as well.

Footprints are taken from what happened, not from what might have: a step's replies are a function of
what it read, so a swap of independent steps leaves its footprint as it was. One thing must not depend on
what happened: whether a step writes X may be decided by X alone. If another object decides it, somebody can
change that object unnoticed by those who look at X, and the step then conflicts with them in one order of
the others and not in the next; races are then missed. So a completion that fails for the sake of its
upload, which does not concern those who look at the key, counts as a write of the key all the same.

A prefix may be listed for the first time after keys below it were written. `widen` brings masks made
before up to date; `generation` says when that is needed. Bits are handed out in order of first use and
never change their meaning within one exploration.
"""

from collections.abc import Callable
from typing import Any

from fencepost.impl.store import requests as req
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import Outcome

EVERY_STEP = 1
"""Read by every step: what writes it conflicts with everything."""
CLOCK = 2
"""Read by clock readings and by writes that are stamped, written when time passes."""
CLOCK_ACTOR = 900
POWER_ACTOR = 901
FLIGHTS_FROM = 1000
"""Actors from this number on are requests in flight."""
EVERYTHING = -1
"""The mask of all objects, also of those not met yet."""

Footprint = tuple[int, int]
LOCAL: Footprint = (EVERY_STEP, 0)
"""A step that no other actor can notice."""


class Footprints:
    """Names to bits, and requests with their replies to masks. Lives as long as one exploration."""

    def __init__(self) -> None:
        self._bits: dict[Any, int] = {"every-step": EVERY_STEP, "clock": CLOCK}
        self._actors: dict[Any, int] = {}
        self._identities: dict[int, Any] = {}
        self._listings: list[tuple[str, str, int]] = []
        self._reads: dict[str, Footprint] = {}
        self._writes: dict[str, Footprint] = {}
        self.refuses = False
        """True if some request of the search was refused before it was sent."""
        self.valid: dict[int, Any] = {}
        """By identity, requests that were found valid and may be sent again in another run."""
        self.waits = 0
        """Read by steps that waited for another thread; nothing writes it."""
        self.generation = 0
        self.stamp = 0
        """`CLOCK` when writes carry the time at which they landed, else nothing."""
        self._rules: dict[type, Callable[[Any, Any], Footprint]] = {
            req.Put: self._keyed_write,
            req.Get: self._keyed_read,
            req.Head: self._keyed_read,
            req.Delete: self._delete,
            req.List: self._list,
            req.ListVersions: self._list,
            req.ListUploads: self._list_uploads,
            req.CreateUpload: self._create_upload,
            req.UploadPart: self._upload_part,
            req.CompleteUpload: self._complete_upload,
            req.AbortUpload: self._abort_upload,
        }

    def begin_stamps(self, *, on: bool) -> None:
        """Decide if writes carry the time at which they land."""
        self.stamp = CLOCK if on else 0

    def note_refusal(self) -> None:
        """Record that a request of the search was refused before it was sent."""
        self.refuses = True

    def waiting(self) -> int:
        """Return the mask that a step reads if it waited for another thread."""
        self.waits = self.bit("waits", "")
        return self.waits

    def footprint(self, request: Any, reply: Any) -> Footprint:
        """Return what `request` read and wrote, given its reply."""
        if isinstance(reply, StoreError):
            # Refused as senseless; a few refusals depend on the upload or key, so call it a read.
            if type(request) is req.CompleteUpload:
                return self._complete_in_vain(request)
            read, _ = self.reading("key", request.subject)
            upload = getattr(request, "upload", "")
            return (read | self.upload(request.subject, upload) if upload else read, 0)
        rule = self._rules.get(type(request))
        if rule is None:
            # Requests beyond the store interface have a footprint of their own.
            found: Footprint = request.footprint(self, reply)
            return found
        return rule(request, reply)

    def bit(self, family: str, name: str) -> int:
        """Return the bit of one object."""
        found = self._bits.get((family, name))
        if found is None:
            found = self._bits[family, name] = 1 << len(self._bits)
        return found

    def expected(self, op: Any) -> Footprint:
        """Return all that an operation that was not taken may read and write."""
        kind = type(op)
        if kind in (req.Put, req.Delete):
            return self.changing(op.key)
        if kind in self._rules and op.reads:
            return self._rules[kind](op, None)
        if kind in self._rules:
            return EVERYTHING, EVERYTHING
        if hasattr(op, "expected"):
            own: Footprint = op.expected(self)
            return own
        if op.kind in ("note", "channel"):
            return self.writing(op.kind, op.subject)
        if op.kind in ("post", "receive"):
            return self.writing("channel", op.subject)
        if op.kind in ("clock", "sleep", "wake"):
            return EVERY_STEP | CLOCK, 0
        return LOCAL if op.kind in ("pick", "finish") else (EVERYTHING, EVERYTHING)

    def reading(self, family: str, name: str) -> Footprint:
        """Return the masks of a step that only reads one object."""
        return (EVERY_STEP | self.bit(family, name), 0)

    def writing(self, family: str, name: str) -> Footprint:
        """Return the masks of a step that writes one object."""
        found = self.bit(family, name)
        return (EVERY_STEP | found, found)

    def upload(self, key: str, upload: str) -> int:
        """Return the bit of one upload."""
        return self.bit("upload", _upload_name(key, upload))

    def listing(self, family: str, prefix: str) -> int:
        """Return the bit of a listing: written by every change to an object of `family` below `prefix`."""
        known = ("list-" + family, prefix)
        if known not in self._bits:
            found = self.bit(*known)
            self._listings.append((family, prefix, found))
            self._writes.clear()
            self.generation += 1
        return self._bits[known]

    def widen(self, written: int) -> int:
        """Return a mask of written objects made at an earlier generation, with the listings met since."""
        if written == EVERYTHING or not written:
            return written
        for key, found in self._bits.items():
            if found & written and isinstance(key, tuple):
                written |= self._listed(*key)
        return written

    def packed(self) -> list[list[Any]]:
        """Return names and numbers, as plain data."""
        return [
            [list(key) if isinstance(key, tuple) else key for key in self._bits],
            [list(identity) for identity in self._actors],
        ]

    @classmethod
    def unpacked(cls, data: list[list[Any]]) -> "Footprints":
        """Return the same names for the same bits and actors."""
        objects = cls()
        for key in data[0][len(objects._bits) :]:
            if key[0].startswith("list-"):
                objects.listing(key[0].removeprefix("list-"), key[1])
            else:
                objects.bit(*key)
        for identity in data[1]:
            objects.actor(tuple(identity))
        return objects

    def owner(self, actor: int) -> int:
        """Return the process that issued a request in flight, or that a thread belongs to."""
        owner: int = self._identities[actor][0]
        while owner >= FLIGHTS_FROM:  # a thread issued it
            owner = self._identities[owner][0]
        return owner

    def group(self, actor: int) -> Any:
        """Return the identity that requests of one parallel step share."""
        return self._identities[actor][2]

    def actor(self, identity: Any) -> int:
        """Return the number of an actor that is no process; the same in every run of the exploration."""
        found = self._actors.get(identity)
        if found is None:
            found = self._actors[identity] = FLIGHTS_FROM + len(self._actors)
            self._identities[found] = identity
        return found

    def names(self, mask: int) -> list[str]:
        """Return the objects in a mask, for people."""
        found = ((key, bit) for key, bit in self._bits.items() if bit & mask and isinstance(key, tuple))
        return [f"{family}:{name}" for (family, name), _ in found]

    # Footprints by kind of request.

    def _listed(self, family: str, name: str) -> int:
        mask = 0
        for listed, prefix, found in self._listings:
            if listed == family and name.startswith(prefix):
                mask |= found
        return mask

    def _keyed_read(self, request: Any, _reply: Any) -> Footprint:
        found = self._reads.get(request.key)
        if found is None:
            found = self._reads[request.key] = self.reading("key", request.key)
        return found

    def _keyed_write(self, request: Any, reply: Any) -> Footprint:
        if reply.outcome is not Outcome.DONE:
            return self._keyed_read(request, reply)
        return self.changing(request.key)

    def changing(self, key: str) -> Footprint:
        """Return the masks of a step that writes an object."""
        found = self._writes.get(key)
        if found is None:
            own = self.bit("key", key)
            found = self._writes[key] = (EVERY_STEP | self.stamp | own, own | self._listed("key", key))
        return found

    def _delete(self, request: Any, reply: Any) -> Footprint:
        return self._keyed_write(request, reply)

    def _list(self, request: Any, _reply: Any) -> Footprint:
        return (EVERY_STEP | self.listing("key", request.prefix), 0)

    def _list_uploads(self, request: Any, _reply: Any) -> Footprint:
        return (EVERY_STEP | self.listing("upload", request.prefix), 0)

    def _upload(self, request: Any, upload: str) -> int:
        return self.bit("upload", _upload_name(request.key, upload))

    def _create_upload(self, request: Any, reply: Any) -> Footprint:
        upload = self._upload(request, reply.upload)
        listed = self._listed("upload", _upload_name(request.key, reply.upload))
        return (EVERY_STEP | self.stamp | self.bit("key", request.key) | upload, upload | listed)

    def _upload_part(self, request: Any, reply: Any) -> Footprint:
        upload = self._upload(request, request.upload)
        return (EVERY_STEP | upload, upload if reply.done else 0)

    def _complete_upload(self, request: Any, reply: Any) -> Footprint:
        upload = self._upload(request, request.upload)
        if reply.done:
            key_read, key_written = self._keyed_write(request, reply)
            listed = self._listed("upload", _upload_name(request.key, request.upload))
            return (key_read | upload, key_written | upload | listed)
        if reply.outcome is Outcome.GONE:
            return self._complete_in_vain(request)
        return (EVERY_STEP | upload | self.bit("key", request.key), 0)

    def _complete_in_vain(self, request: Any) -> Footprint:
        """The upload refused the completion, see the theory."""
        read, written = self.changing(request.key)
        return (read | self._upload(request, request.upload), written)

    def _abort_upload(self, request: Any, reply: Any) -> Footprint:
        read, written = self._upload_part(request, reply)
        if written:
            written |= self._listed("upload", _upload_name(request.key, request.upload))
        return (read, written)


def _upload_name(key: str, upload: str) -> str:
    """By key first, so that a listing of uploads finds it by its prefix."""
    return f"{key}\0{upload}"


def conflict(one: Footprint, other: Footprint) -> bool:
    """Return True if the order of two steps matters."""
    return bool(one[1] & other[0] or one[0] & other[1])
