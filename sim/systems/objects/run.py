"""One run of a scenario: the directory of a server on the file system of the world, and requests to it.

The explored steps leave out the founding of the directory. It is founded once, and each run begins with a
copy that has every file that requests lock. The servers have opened it before the exploration begins. A
server is a process with one request in it: threads of one process share no file of the directory but through
the same calls. docs/decisions/0019 lists what the seam of the index leaves out.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fcntl import LOCK_UN
from pathlib import Path
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.change_log import Event, parse
from fencepost.impl.objects.credentials import ROOT, Caller
from fencepost.impl.objects.maintenance import UPLOAD_AGE_S
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.safeguards import STANDARD, Safeguards
from fencepost.impl.objects.surface import act
from fencepost.impl.objects.tables import UPLOAD
from fencepost.impl.objects.wire.errors import S3Error
from fencepost.impl.store.bucket import fingerprint_of_parts
from fencepost.impl.store.files import Disk
from fencepost.impl.store.files.names import INTERNAL
from fencepost.properties.objects.checks import (
    CHECKS,
    DONE,
    REFUSED,
    UNANSWERED,
    Directory,
    Outcomes,
    Place,
    Request,
)
from fencepost.properties.objects.refinement import ObjectsRefinement
from fencepost.sim.filesystem.handles import is_ours
from fencepost.sim.filesystem.inodes import Failed, Image
from fencepost.sim.systems.harness import ScenarioEnvironment, declare
from fencepost.sim.systems.lockstep import Lockstep, Readers
from fencepost.sim.systems.objects.tables import NAME, PlainRows, PlainTables
from fencepost.sim.world import View, World
from fencepost.sim.world.operations import BLOCKED, Call
from fencepost.sim.world.replacements import process_id

BUCKET, KEY = "bucket", "key"
PLACE: Place = (BUCKET, KEY)
BODIES = {"first": b"first", "ann": b"ann wrote this", "bob": b"bob wrote that, which is longer"}


def etag_of(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


ETAGS = {name: etag_of(body) for name, body in BODIES.items()}
NAMES = {etag: name for name, etag in ETAGS.items()}
TEMPORARY = f"{BUCKET}/{INTERNAL}/tmp"  # noqa: S108  a folder of the server
"""Drafts, which are never read after a power loss: `Untouched` checks that."""
ROWS = f".index/{NAME}"
LOCK_OF_ROWS = ".index/writing"
READERS: Readers[int] = Readers(ObjectsRefinement, ObjectsRefinement)
_IMAGES: dict[bool, tuple[Image, int]] = {}
"""By whether the key has a first version."""
RECOVERY = "recovery"
ANSWER = "answer to "
OLD, NEW, SUPERVISOR = "old", "new", "supervisor"
"""The processes of a handoff."""


class OfTheWorld(Disk):
    """The calls of the store, each by itself: the compiled one would not be a call of the world."""

    one_call = False

    def fsync_folder(self, fd: int) -> None:
        if is_ours(fd):  # what is above the mount is real
            super().fsync_folder(fd)


@dataclass
class ScenarioRun:
    world: World
    safeguards: Safeguards = STANDARD
    followed: bool = False
    loses_power: bool = False
    """True if this run may lose power; otherwise a process may be killed."""
    has_first: bool = False
    replaces: bool = False
    """True if a server is replaced."""
    requests: dict[str, Request] = field(default_factory=dict)
    """By the process that makes each."""
    lockstep: "CallLockstep | None" = None
    root: Path = field(init=False)
    founded: int = field(init=False)
    """Transactions of the index before the run."""

    def found(self, *, first: bool) -> None:
        """The directory of a server with one bucket; its key has a first version, or had one."""
        self.loses_power = self.world.pick("what may be lost", ("a process", "power")) == "power"
        self.world.forbid("crash" if self.loses_power else "power_loss")
        self.has_first = self.open(first=first)

    def open(self, *, first: bool = False) -> bool:
        """Begin with a copy of the directory."""
        self.root = self.world.filesystem(volatile=(TEMPORARY,))
        if first not in _IMAGES:
            env = SeededEnvironment(1, self.world.start_ns)
            buckets = Buckets(
                str(self.root), env, OfTheWorld(), new_tables=lambda folder, _: PlainTables(folder)
            )
            buckets.verify()
            buckets.create(BUCKET)
            self.put(buckets, "first", {})
            if not first:
                self.send(buckets, "DeleteObject")
            reconcile(buckets)
            buckets.log.flush(buckets.index)
            buckets.close()
            rows, _ = self.world.files.body(ROWS)
            _IMAGES[first] = self.world.files.image(), len((rows or b"").splitlines())
        image, self.founded = _IMAGES[first]
        self.world.files.restore(image)
        if self.followed:
            self.lockstep = CallLockstep(READERS.of(3), self.world.findings)
            self.world.follow("lockstep", self.lockstep)
            if first:
                self.lockstep.before("first")
        return first

    # Servers and their requests.

    def server(self, *, after_power_loss: bool = False) -> Buckets:
        """A process that serves the directory."""

        def new_tables(folder: Path, _: Any) -> PlainTables:
            return PlainTables(folder, self._lost if after_power_loss else None)

        env = ScenarioEnvironment(self.world)
        return Buckets(str(self.root), env, OfTheWorld(), self.safeguards, new_tables)

    def _lost(self, transactions: int) -> int:
        """A power loss may take any number of the last transactions; those before the run are old."""
        return self.world.pick("transactions lost", range(transactions - self.founded + 1))

    def warm(self) -> Buckets:
        """One that has opened the directory before anything is explored."""
        found = self.server()
        found.document(BUCKET)
        found.store(BUCKET).collect_garbage(0)
        with found.index.writing():  # its name among the processes, and what it locks for a transaction
            self.founded += 1
        # The next process is the one that has opened it: it was not forked since.
        found.index._pid = process_id(len(self.world.processes) + 1)  # noqa: SLF001  it compares the number
        return found

    def send(self, buckets: Buckets, operation: str, **parameters: Any) -> str:
        try:
            act(operation, buckets, Caller(ROOT))({"Bucket": BUCKET, "Key": KEY, **parameters})
        except S3Error as error:
            return error.code
        return DONE

    def put(self, buckets: Buckets, name: str, condition: Mapping[str, str]) -> str:
        body = BODIES[name]
        p = {"Bucket": BUCKET, "Key": KEY, "Metadata": {"version": ETAGS[name]}, **condition}
        try:
            with act("PutObject", buckets, Caller(ROOT))(p) as receiving:
                receiving.write(body)
                receiving.finish(ETAGS[name], {})
        except S3Error as error:
            return error.code
        return DONE

    def get(self, buckets: Buckets) -> tuple[str, str] | None:
        """The ETag of the bytes, and the version that the attributes name."""
        try:
            with act("GetObject", buckets, Caller(ROOT))({"Bucket": BUCKET, "Key": KEY}) as content:
                body = os.read(content.fd, 1 << 16)
                return etag_of(body), content.values["Metadata"].get("version", "")
        except S3Error as error:
            return None if error.code == "NoSuchKey" else ("", error.code)

    # Processes.

    def writer(self, name: str, kind: str) -> None:
        """One write."""
        base = ETAGS["first"] if kind == "replace" else ""
        etag = "" if kind == "delete" else ETAGS[name]
        self.requests[name] = Request(name, PLACE, kind, etag, UNANSWERED, base)
        condition = {"create": {"IfNoneMatch": "*"}, "replace": {"IfMatch": base}}.get(kind, {})

        def write(buckets: Buckets) -> str:
            if kind == "delete":
                answer = self.send(buckets, "DeleteObject")
            else:
                answer = self.put(buckets, name, condition)
            self.world.note(f"answer to {name}", answer)
            return answer

        self.serve(name, write)
        if self.lockstep is not None:
            self.lockstep.see("staged", "", f"kind={kind} w={name}")

    def serve(self, name: str, work: Callable[[Buckets], Any]) -> None:
        """A server that does this."""
        buckets = self.warm()
        self.world.spawn(lambda: work(buckets), name=name, restart=False)

    def reader(self) -> None:
        buckets = self.warm()
        self.world.spawn(lambda: self.get(buckets), name="reader", restart=False)

    def recovery(self) -> None:
        """The server that starts when power is back, or when the others have ended and one was killed."""

        def recover() -> Any:
            buckets = self.server(after_power_loss=self.loses_power)
            found = self.get(buckets)
            self.world.note("found by recovery", found and found[0])
            reconcile(buckets)
            return found

        self.world.spawn(
            recover,
            name=RECOVERY,
            restart=False,
            after_power_loss=self.loses_power,
            after_crash=not self.loses_power,
        )
        if self.loses_power:
            self.world.follow("drafts end with the power", Untouched())

    # Judging.

    def directory(self, view: View) -> Directory:
        files = view.files("")
        rows = PlainRows(files.get(ROWS, b""))
        stands = {
            (bucket, key): etag_of(body)
            for path, body in files.items()
            for bucket, _, key in [path.partition("/")]
            if key and not bucket.startswith(".") and not key.startswith(INTERNAL)
        }
        listed = {
            (bucket, key): _body_etag(entry.etag)
            for (bucket, key, version), entry in rows.entries.items()
            if not version.startswith(UPLOAD)
        }
        logged = [
            event for path, body in files.items() if path.startswith(".log/") for event in _events(body)
        ]
        waiting = [Event(**{"ts_ns": ts_ns, **json.loads(text)}) for ts_ns, (_, text) in rows.outbox.items()]
        events = {event.ts_ns: event for event in (*logged, *waiting) if not event.version.startswith(UPLOAD)}
        for event in events.values():
            if event.new is not None:
                event.new["etag"] = _body_etag(event.new["etag"])
        return Directory(stands, listed, tuple(events[ts_ns] for ts_ns in sorted(events)))

    def outcomes(self, view: View) -> Outcomes:
        answers = {name: view.notes(f"answer to {name}") for name in self.requests}
        requests = [
            Request(one.name, one.place, one.kind, one.etag, _answer(answers[name]), one.base, one.upload)
            for name, one in self.requests.items()
        ]
        results = view.results()
        removed = {"the upload": 0.0} if view.notes("removed") else {}
        reads = [found for name in ("reader", RECOVERY) if (found := results.get(name)) is not None]
        before = {PLACE: ETAGS["first"]} if self.has_first else {}
        ended = RECOVERY in results or all(name in results for name in self.requests)
        serving = [name for name in (OLD, NEW) if results.get(name)]
        problem, current = results.get(SUPERVISOR, ("", ""))
        states = view.states()
        if current and states[current] == "down":
            serving.append("another")  # `Supervisor.run` starts it
        failed = "" if view.notes("timed out") or "down" in states.values() else problem
        return Outcomes(
            tuple(requests),
            before,
            tuple(reads),
            removed,
            UPLOAD_AGE_S,
            is_reconciled=ended,
            serving=tuple(serving) if self.replaces else None,
            failed_handoff=failed,
        )

    def declare_checks(self) -> None:
        at_the_end = {name: check for name, check in CHECKS.items() if name != "one_owner"}
        declare(self.world, at_the_end, self.directory, self.outcomes)


def _body_etag(etag: str) -> str:
    """The ETag of the body: that of an upload is made of its parts, and the uploads here have one."""
    return next((one for one in NAMES if etag == fingerprint_of_parts([one])), etag)


def _answer(answers: Sequence[str]) -> str:
    return UNANSWERED if not answers else DONE if answers[0] == DONE else REFUSED


def _events(body: bytes) -> list[Event]:
    return [event for line in body.splitlines(keepends=True) if (event := parse(line, 0)) is not None]


class CallLockstep(Lockstep):
    """The model follows the system calls of a run."""

    def __init__(self, reader: Any, findings: list[str]) -> None:
        super().__init__(reader, findings, lambda _key, _body: "", _note)
        self._recording: set[str] = set()
        """The processes that are in a transaction of the index."""

    def before(self, name: str) -> None:  # type: ignore[override]  # a request, not an object
        """A put that ended before the run."""
        for topic in ("staged", "locked", "renamed", "flushed", "indexed", "answered"):
            self.see(topic, DONE, f"kind=put version={name} w={name}")

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        # Their topics are none of the map's, so that `replay` reads nothing of a trace without the calls.
        note, what = self._note(topic, value), "answered" if topic.startswith(ANSWER) else "recovered"
        return None if note is None else self.see(what, *note, process, incarnation)

    def called(self, process: str, incarnation: int, call: Call, answer: Any) -> str | None:
        found = None if answer == BLOCKED else _seen(call, not isinstance(answer, Failed))
        if (call.kind, call.subject) == ("flock", LOCK_OF_ROWS):
            (self._recording.discard if call.args[2] & LOCK_UN else self._recording.add)(process)
        elif process in self._recording and (call.kind, call.subject) == ("open", f"{BUCKET}/{KEY}"):
            found = "looked", DONE, ""
        if found is None:
            return None
        topic, outcome, fields = found
        who = "" if process == RECOVERY or incarnation else f" w={process}"
        return self.see(topic, outcome, f"{fields}{who}".strip(), process=process, incarnation=incarnation)

    def state(self) -> Any:
        return super().state(), tuple(sorted(self._recording))


class Untouched:
    """Holds that no server looks for drafts after a power loss: then it does not matter which it left."""

    def landed(self, *_: Any) -> None: ...
    def noted(self, *_: Any) -> None: ...
    def state(self) -> Any: ...

    def called(self, process: str, _incarnation: int, call: Call, _answer: Any) -> str | None:
        touched = process == RECOVERY and TEMPORARY in call.subject
        return f"the server that starts after a power loss looks at {call.subject}" if touched else None


def _seen(call: Call, done: bool) -> tuple[str, str, str] | None:
    """Return topic, outcome and fields of a call, as the map reads them; None for a call without meaning."""
    path = f"{BUCKET}/{KEY}"
    match call.kind:
        case "link" if call.detail == f"as {path}":
            return "linked", DONE if done else REFUSED, ""
        case "rename" if call.detail == f"to {path}" and done:
            return "renamed", DONE, ""
        case "unlink" if call.subject == path and done:
            return "renamed", DONE, ""
        case "flock" if call.subject.startswith(f"{BUCKET}/{INTERNAL}/locks/") and not call.args[2] & LOCK_UN:
            return "locked", DONE, ""
        case "fsync" if call.subject.rstrip("/") == BUCKET:
            return "flushed", DONE, ""
        case "write" if call.subject == ROWS:
            return _indexed(call.args[2])
    return None


def _indexed(line: bytes) -> tuple[str, str, str] | None:
    """Return the key's record in a transaction; None for a transaction of another key."""
    if not json.loads(line):
        return "indexed", DONE, "kind=same"
    version = None
    for name, *args in json.loads(line):
        if name == "put" and args[0][1] == KEY:
            version = NAMES[args[1][0]]
        elif name == "remove" and args[0][1] == KEY:
            version = ""
    return None if version is None else ("indexed", DONE, f"version={version}" if version else "kind=removed")


def _note(topic: str, value: Any) -> tuple[str, str, str] | None:
    if topic.startswith(ANSWER):
        return _answer([value]), f"w={topic.removeprefix(ANSWER)}", "run"
    if topic == "found by recovery":
        return DONE, f"version={NAMES[value]}" if value else "", "run"
    return None
