"""The shipped store of objects in a directory, on the file system of the world: nothing of it is replaced.

Two writers either create one key (if absent) or replace its first version (if-match), and a reader gets it. A
run may have a kill or a power loss; after the latter a new process opens the directory and reads.

    one-winner    of two creates of a key at most one succeeds
    cas-exact     of two if-match writes that name one version at most one succeeds
    untorn        every read returns the bytes and attributes of one version
    ack-durable   what was acknowledged is what is found, also after a power loss

A mutant switches off one flush, one lock or one order of the store, through the calls that it makes (`Disk`)
or the condition that it evaluates. `mutant_seeds_write_order` is the order from which the store came:
write, evaluate the condition, rename.
"""

import contextlib
import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.sim.filesystem.handles import is_ours
from fencepost.sim.world import View, World
from fencepost.store import ABSENT, ANYTHING, Disk, FileStore, Matches, Metadata, StoreError
from fencepost.testing import audit

KEY = "key"
BODIES = {"first": b"the first version", "ann": b"ann wrote this", "bob": b"bob wrote that, which is longer"}
KINDS = ("create", "replace")
READERS = ("reader", "recovery")
faulty = audit(crash=1, power_loss=1, restart=0, reply_lost=0, request_lost=0, pause=0)


class StepByStep(Disk):
    """The calls of the store, each by itself: the compiled one would not be a call of the world."""

    def fsync_folder(self, fd: int) -> None:
        if is_ours(fd):  # what is above the mount is real
            super().fsync_folder(fd)


class AuditedStore(FileStore):
    """The store with the condition of a write evaluated as a mutant wants it."""

    condition_under_lock = True

    def _open(self, *, writes: bool) -> Any:
        session = super()._open(writes=writes)
        if session is not None and not self.condition_under_lock:
            session.reader.refusal = _only_at_first(session.reader.refusal)
        return session


def _only_at_first(refusal: Any) -> Any:
    """The condition of a write, evaluated before it writes and not again under the lock."""
    seen: set[str] = set()

    def refuse(key: str, when: Any) -> Any:
        if key in seen:
            return None
        seen.add(key)
        return refusal(key, when)

    return refuse


def put(store: Any, name: str, when: Any) -> str:
    outcome: str = store.put(KEY, BODIES[name], when=when, metadata=Metadata({"version": name})).outcome.value
    return outcome


def get(store: Any) -> Any:
    reply = store.get(KEY)
    return None if reply.info is None else (reply.body, reply.info.metadata.get("version", ""))


def reopen(root: Path, new_store: Any) -> Any:
    """Return the objects that a process finds after a power loss."""
    return get(new_store(root))


# Properties.


def _done(view: View) -> list[str]:
    return [name for name, result in view.results().items() if result == "done"]


def at_most_one(view: View, kind: str) -> str | None:
    done = _done(view) if view.notes("writes") == [kind] else []
    return f"{' and '.join(done)} both succeeded" if len(done) > 1 else None


def untorn(view: View) -> str | None:
    for name in READERS:
        if view.state(name) == "failed":
            return f"{name} failed: {view.error(name)}"
        found = view.result(name)
        if found is not None and BODIES.get(found[1]) != found[0]:
            return f"{name} found {found[0]!r} with the attributes of {found[1] or 'nothing'!r}"
    return None


def ack_durable(view: View) -> str | None:
    done, here = _done(view), view.file(KEY)
    here = here and here.partition(b"\0")[0]
    if not done:
        first = view.notes("writes") == ["replace"]
        return "the first version is gone" if first and here not in BODIES.values() else None
    if here not in [BODIES[name] for name in done]:
        return f"{done[0]} succeeded, and the file holds {here!r}"
    found = view.result("recovery") if view.state("recovery") == "done" else here
    return f"{done[0]} succeeded, and recovery found {found!r}" if found is None else None


def _program(
    world: World, disk: type[Disk] = StepByStep, store: type[Any] = AuditedStore, kinds: Sequence[str] = KINDS
) -> None:
    world.configure(stamped=False, ticks=0)
    world.share_nothing()
    world.forbid(world.pick("not lost", ("crash", "power_loss")))
    root = world.filesystem()

    def new_store(path: Path) -> Any:
        return store(path, env=world.env, linger_ms=0, disk=disk())

    kind = world.pick("writes", kinds)
    world.note("writes", kind)
    stores = {name: new_store(root) for name in ("ann", "bob", "reader")}
    when: Any = ABSENT
    if kind == "replace":
        first, metadata = FileStore(root, env=world.env, disk=StepByStep()), Metadata({"version": "first"})
        for condition in (ABSENT, ANYTHING):  # the second makes the file that is locked for this key
            when = Matches(first.put(KEY, BODIES["first"], when=condition, metadata=metadata).etag)
    for name in ("ann", "bob", "reader"):
        stores[name].put("warm", b"", when=ABSENT)  # the session is open before anything is explored
        if store is SeedsStore:
            assert stores[name].folder_fd
        if name == "reader":
            world.spawn(get, stores[name], name=name, restart=False, may_raise=(StoreError,))
        else:
            world.spawn(put, stores[name], name, when, name=name, restart=False)
    world.spawn(reopen, root, new_store, name="recovery", after_power_loss=True, may_raise=(StoreError,))
    # Judged at the end, two orders of the writers' ends are one; at once, a counterexample ends earlier.
    promise = world.always if store is SeedsStore else world.finally_
    promise("one-winner", functools.partial(at_most_one, kind="create"))
    promise("cas-exact", functools.partial(at_most_one, kind="replace"))
    world.finally_("untorn", untorn)
    world.finally_("ack-durable", ack_durable)


# The store without one of its safeguards.


class CheckThenRename(StepByStep):
    """Looks whether the name is there, and renames over whatever came meanwhile."""

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
            raise FileExistsError(name)
        super().link(source, source_fd, f".{os.getpid()}", folder_fd)
        os.rename(f".{os.getpid()}", name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)


class NoLock(StepByStep):
    def lock(self, fd: int) -> None:
        """Let everybody in."""


class NoFileFlush(StepByStep):
    def write_through(self, fd: int, body: bytes) -> None:
        self.write(fd, body)


class NoFolderFlush(StepByStep):
    def fsync_folder(self, fd: int) -> None:
        """Leave the names to chance."""


class AttributesLast(StepByStep):
    """Sets the attributes when the file has its name."""

    def __init__(self) -> None:
        self._left: dict[int, bytes] = {}

    def set_attribute(self, fd: int, value: bytes) -> None:
        self._left[fd] = value

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        super().link(source, source_fd, name, folder_fd)
        self._set()

    def replace(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        super().replace(source, source_fd, name, folder_fd)
        self._set()

    def _set(self) -> None:
        for fd, value in self._left.items():
            super().set_attribute(fd, value)
            self.fsync(fd)
        self._left.clear()


class ConditionOnce(AuditedStore):
    condition_under_lock = False


class SeedsStore(FileStore):
    """An order that loses: write a temporary file, evaluate the condition, rename, flush the directory. The
    version, an attribute there, is kept behind the body here.
    """

    def put(self, key: str, body: bytes, *, when: Any, metadata: Any = None, **options: Any) -> Any:
        if metadata is None or when is not ABSENT:
            return super().put(key, body, when=when, metadata=metadata or Metadata({}), **options)
        temporary, path = Path(self.path) / f"{os.getpid()}.tmp", Path(self.path) / key
        fd = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_SYNC)
        os.write(fd, body + b"\0" + metadata["version"].encode())
        os.close(fd)
        if path.exists():
            return _Reply("exists")
        os.rename(temporary, path)
        os.fsync(self.folder_fd)
        return _Reply("done")

    @functools.cached_property
    def folder_fd(self) -> int:
        return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def get(self, key: str, **_: Any) -> Any:
        try:
            body, _, version = (Path(self.path) / key).read_bytes().partition(b"\0")
        except FileNotFoundError:
            return _Reply("missing")
        return _Reply("done", body, Metadata({"version": version.decode()}))


class _Reply:
    """Return the part of a reply that the checks compare."""

    def __init__(self, value: str, body: bytes = b"", metadata: Any = None) -> None:
        self.outcome = self
        self.value, self.body, self.metadata = value, body, metadata
        self.info = None if metadata is None else self


@faulty
def mutant_atomic_create(world: World) -> None:
    _program(world, CheckThenRename)


@faulty
def mutant_key_lock(world: World) -> None:
    _program(world, NoLock)


@faulty
def mutant_condition_under_lock(world: World) -> None:
    _program(world, store=ConditionOnce)


@faulty
def mutant_fsync_before_publish(world: World) -> None:
    _program(world, NoFileFlush)


@faulty
def mutant_directory_flush(world: World) -> None:
    _program(world, NoFolderFlush)


@faulty
def mutant_attributes_before_publish(world: World) -> None:
    _program(world, AttributesLast)


@faulty
def mutant_seeds_write_order(world: World) -> None:
    _program(world, store=SeedsStore, kinds=("create",))


@faulty
def fixed(world: World) -> None:
    _program(world)
