"""Each kind of request has programs that need what it reads and what it writes.

If this fails, the search takes two steps for independent that are not, or no test would notice if it did.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store import requests as req
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.world import NO_FAULTS, Footprints, World
from fencepost.sim.world.footprints import EVERY_STEP

Step = Callable[[Any, str, str], Any]
"""Takes the store, and the upload and the part that were there at first."""

KEY, UPLOADED = "k", "u"
"""A key with an object, and one with an upload and no object."""


def put(store: Any, *_: str) -> Any:
    return store.put(KEY, b"put", when=ANYTHING).outcome.value


def put_uploaded(store: Any, *_: str) -> Any:
    return store.put(UPLOADED, b"put", when=ANYTHING).outcome.value


def get_uploaded(store: Any, *_: str) -> Any:
    return store.get(UPLOADED).body


def create(store: Any, *_: str) -> Any:
    return store.put("new", b"", when=ABSENT).outcome.value


def get(store: Any, *_: str) -> Any:
    return store.get(KEY).body


def head(store: Any, *_: str) -> Any:
    return store.head("new").outcome.value


def delete_known(store: Any, *_: str) -> Any:
    return store.delete(KEY, when=Matches(FIRST_ETAG)).outcome.value


def listing(store: Any, *_: str) -> Any:
    return [found.key for found in store.list("").objects]


def uploads(store: Any, *_: str) -> Any:
    return len(store.list_uploads("").uploads)


def begin(store: Any, *_: str) -> Any:
    return store.create_upload("other").outcome.value


def whole(store: Any, *_: str) -> Any:
    """An upload, which notices that its key was written meanwhile."""
    upload = store.create_upload("new").upload
    part = store.upload_part("new", upload, 1, b"whole").etag
    return store.complete_upload("new", upload, [(1, part)], when=ABSENT).outcome.value


def send_part(store: Any, upload: str, *_: str) -> Any:
    return store.upload_part(UPLOADED, upload, 1, b"other").outcome.value


def part_and_complete(store: Any, upload: str, *_: str) -> Any:
    part = store.upload_part(UPLOADED, upload, 1, b"mine").etag
    return store.complete_upload(UPLOADED, upload, [(1, part)], when=ANYTHING).outcome.value


def complete(store: Any, upload: str, part: str) -> Any:
    return store.complete_upload(UPLOADED, upload, [(1, part)], when=ANYTHING).outcome.value


def complete_new(store: Any, upload: str, part: str) -> Any:
    return store.complete_upload(UPLOADED, upload, [(1, part)], when=ABSENT).outcome.value


def delete(store: Any, *_: str) -> Any:
    return store.delete(KEY, when=ANYTHING).outcome.value


def abort(store: Any, upload: str, *_: str) -> Any:
    return store.abort_upload(UPLOADED, upload).outcome.value


FIRST = b"first"
FIRST_ETAG = "8b04d5e3775d298e78455efc5ca404d5"
"""Of `FIRST`."""

READS, WRITES = 0, 1
NEEDED: dict[tuple[type, int, str], tuple[Step, ...]] = {
    (req.Put, READS, "key"): (create, create),
    (req.Put, WRITES, "key"): (create, create),
    (req.Put, WRITES, "list-key"): (listing, create),
    (req.Get, READS, "key"): (get, put),
    (req.Head, READS, "key"): (head, create),
    (req.Delete, READS, "key"): (delete_known, delete_known),
    (req.Delete, WRITES, "key"): (delete, get),
    (req.Delete, WRITES, "list-key"): (listing, delete),
    (req.List, READS, "list-key"): (listing, create),
    (req.ListUploads, READS, "list-upload"): (uploads, begin),
    (req.CreateUpload, READS, "key"): (whole, create),
    (req.CreateUpload, WRITES, "list-upload"): (uploads, begin),
    (req.UploadPart, READS, "upload"): (abort, send_part),
    (req.UploadPart, WRITES, "upload"): (part_and_complete, send_part),
    (req.CompleteUpload, READS, "upload"): (abort, complete),
    (req.CompleteUpload, READS, "key"): (put_uploaded, complete_new),
    (req.CompleteUpload, WRITES, "upload"): (complete, send_part),
    (req.CompleteUpload, WRITES, "key"): (complete, get_uploaded),
    (req.CompleteUpload, WRITES, "list-key"): (listing, complete),
    (req.CompleteUpload, WRITES, "list-upload"): (uploads, complete),
    (req.AbortUpload, READS, "upload"): (abort, abort),
    (req.AbortUpload, WRITES, "upload"): (abort, send_part),
    (req.AbortUpload, WRITES, "list-upload"): (uploads, abort),
}
"""By kind of request, side of the footprint and family of objects: the steps of the processes.

A listing comes first, so that its prefix is known before it is written: what is written before is widened.
"""


def endings(kind: type[Plain] | type[ReducedSearch], steps: tuple[Step, ...]) -> set[Any]:
    def program(world: World) -> None:
        world.configure(ticks=0, part_bytes_min=1)
        store = world.store()
        store.put(KEY, FIRST, when=ABSENT)
        upload = store.create_upload(UPLOADED).upload
        part = store.upload_part(UPLOADED, upload, 1, b"part").etag
        for number, step in enumerate(steps):
            world.spawn(step, store, upload, part, name=f"p{number}", may_raise=(Exception,))

    found: set[Any] = set()
    search = kind(
        Setting(program, NO_FAULTS),
        first_only=False,
        observe=lambda world: found.add((final_state(world), str(world.bucket.state()))),
    )
    search.explore()
    return found


def without(footprint: tuple[int, int], masks: Footprints, side: int, family: str) -> tuple[int, int]:
    """Return the footprint with the objects of a family left out on one side."""
    left_out = 0
    for key, bit in masks._bits.items():
        if isinstance(key, tuple) and key[0] == family:
            left_out |= bit
    found = list(footprint)
    found[side] &= ~left_out | EVERY_STEP
    return found[0], found[1]


@pytest.mark.parametrize("needed", NEEDED, ids=lambda n: f"{n[0].__name__}-{'rw'[n[1]]}-{n[2]}")
def test_every_part_of_a_footprint_is_needed(
    needed: tuple[type, int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, side, family = needed
    expected = endings(Plain, NEEDED[needed])
    assert endings(ReducedSearch, NEEDED[needed]) == expected
    sound = Footprints.footprint

    def footprint(self: Footprints, request: Any, reply: Any) -> tuple[int, int]:
        found = sound(self, request, reply)
        return without(found, self, side, family) if type(request) is kind else found

    monkeypatch.setattr(Footprints, "footprint", footprint)
    assert endings(ReducedSearch, NEEDED[needed]) < expected
