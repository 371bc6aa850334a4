"""What a property may look at, and how the monitor of a run judges it.

Theory. Exploration runs one order of every class of runs that differ only by swapping independent steps. A
property that looked at intermediate states could miss one that only another order of the class passes
through. So a property is one more participant: whatever it looked at, it *read*, as part of the step after
which it was judged, and every step that changes something it looks at *writes* the property itself. Steps
that a property can see are thereby ordered among each other, every order of them is explored, and nothing
else pays for it. Looking at much costs exploration: a property that reads a single key is cheaper than one
that reads the whole bucket.

This holds only for what a property reads through the view: contents, versions, notes, results, the clock. A
property must not read Python variables that processes change; write a note instead. A check that keeps state
itself is refused, see `kept_state`; properties with memory are in `folds`.

A check returns nothing or True (fine), False, or a text with the reason, or raises AssertionError. For
`eventually` and `sometimes` it returns whether the good thing has happened.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, Protocol

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Request
from fencepost.sim.world import kept_state, stamps
from fencepost.sim.world.costs import dearest
from fencepost.sim.world.folds import Fold, MonitorEvent, Past
from fencepost.sim.world.footprints import CLOCK, EVERY_STEP
from fencepost.sim.world.located import AuditError, line_of, users_lines_of
from fencepost.sim.world.operations import Call, own

Check = Callable[..., Any]

ALWAYS, EVENTUALLY, SOMETIMES, FINALLY, STEP = "always", "eventually", "sometimes", "finally", "step"
_LANDED = frozenset({"ok", "reply_lost", "duplicated", "land"})


class View:
    """The world read-only. What is read here is what a property depends on."""

    __slots__ = ("_world", "mask")

    def __init__(self, world: Any) -> None:
        self._world = world
        self.mask = EVERY_STEP

    def get(self, key: str) -> bytes | None:
        """The current body at `key`; None when there is no object."""
        self.mask |= self._world.footprints.bit("key", key)
        body: bytes | None = self._world.bucket.body(key)
        return body

    def contents(self, prefix: str = "") -> Mapping[str, bytes]:
        """All current objects below `prefix`, in key order."""
        self.mask |= self._world.footprints.listing("key", prefix)
        bodies: Mapping[str, bytes] = self._world.bucket.bodies(prefix)
        return bodies

    def file(self, path: str | PathLike[str]) -> bytes | None:
        """The content of a file of the world; None when there is none."""
        body, read = self._files().body(self._in_world(path))
        self.mask |= read
        found: bytes | None = body
        return found

    def files(self, path: str | PathLike[str] = "") -> Mapping[str, bytes]:
        """All files of the world below a directory, by their paths from the mount."""
        bodies, read = self._files().bodies(self._in_world(path))
        self.mask |= read
        found: Mapping[str, bytes] = bodies
        return found

    def _in_world(self, path: str | PathLike[str]) -> str:
        """A path, absolute or from the mount, as the file system knows it."""
        return fspath(path).removeprefix(self._files().mount).strip("/")

    def _files(self) -> Any:
        files = getattr(self._world, "files", None)
        if files is None and isinstance(self._world, Past):
            raise Misuse("a step property sees no files; note what it needs with world.note")
        if files is None:
            raise Misuse("the view shows files of the program's world.filesystem(); it mounted none")
        return files

    def keys(self, prefix: str = "") -> list[str]:
        """The keys below `prefix`, in order."""
        return list(self.contents(prefix))

    def notes(self, topic: str) -> list[Any]:
        """The values noted under `topic` so far, in the order in which they were noted."""
        return [value for _, value in self.signed_notes(topic)]

    def signed_notes(self, topic: str) -> list[tuple[str, Any]]:
        """The notes under `topic` with the process that made each."""
        self.mask |= self._world.footprints.bit("note", topic)
        return [(name, own(value)) for name, value in self._world.noted.get(topic, ())]

    def result(self, name: str) -> Any:
        """What the process returned; None as long as it has not."""
        return self._process(name).result

    def results(self) -> dict[str, Any]:
        """What every process that has ended returned, by name. One that failed or is down is missing."""
        return {process.name: process.result for process in self._processes() if process.state == "done"}

    def state(self, name: str) -> str:
        """`running`, `done`, `failed` (an exception ended it), or `down` (crashed, and not restarted)."""
        return str(self._process(name).state)

    def states(self) -> dict[str, str]:
        return {process.name: process.state for process in self._processes()}

    def error(self, name: str) -> BaseException | None:
        """The exception that ended the process."""
        error: BaseException | None = self._process(name).error
        return error

    def now_ns(self) -> int:
        """The true time."""
        self.mask |= CLOCK
        stamps.pass_time()
        return int(self._world.start_ns + self._world.clock_ns)

    def _processes(self) -> Iterator[Any]:
        for process in self._world.processes:
            self.mask |= self._world.footprints.bit("end", process.name)
            yield process

    def _process(self, name: str) -> Any:
        for process in self._world.processes:
            if process.name == name:
                self.mask |= self._world.footprints.bit("end", name)
                return process
        known = ", ".join(process.name for process in self._world.processes)
        raise LookupError(f"no process is called {name!r}; there are: {known}")


class Property:
    """One named check with its kind, and its state in this run."""

    __slots__ = ("bit", "check", "kept", "kind", "met", "name", "reads", "tested", "when")

    def __init__(
        self, name: str, kind: str, check: Check, *, when: Check | None = None, repeats: bool = True
    ) -> None:
        """`repeats`: runs are repeated and merged, so a check that keeps state of its own is refused. `when`:
        the check says nothing about states in which this is false.
        """
        self.when = when
        self.tested = 0
        """How often it was judged in this run where `when` was true."""
        self.name = name
        self.kind = kind
        self.check = check
        self.reads = 0
        """What it read when it was judged last."""
        self.bit = 0
        self.met = False
        """Whether the good thing has happened in this run (eventually, sometimes)."""
        self.kept = kept_state.State(check) if repeats else None

    def judge(self, *views: View) -> str | None:
        """The reason why it is violated; always None for `sometimes` and `eventually`.

        `views`: one, but before and after the step for a step property.
        """
        for view in views:
            view.mask = EVERY_STEP
        before = None if self.kept is None or self.kept.empty else self.kept.take()
        try:
            verdict = self.check(*views) if self._applies(views) else None
        except AssertionError as failure:
            verdict = _reason(failure)
        except Exception as error:
            if self.kept is None:  # a real run, where also the store may fail
                verdict = f"the check itself raised {type(error).__name__}: {error}"
            else:
                text = f"the check of {self.name!r} raised {type(error).__name__}: {error}"
                raise AuditError(text, users_lines_of(error)) from error
        if self.kept is not None and before is not None and self.kind != FINALLY:
            self.kept.compare(before, self.name, "while it ran")
        self.reads = 0
        for view in views:
            self.reads |= view.mask & ~EVERY_STEP
        if self.kind in (EVENTUALLY, SOMETIMES):
            if verdict is not None and not isinstance(verdict, str) and verdict:
                self.met = True
            return None
        if verdict is None or verdict is True:
            return None
        return verdict if isinstance(verdict, str) else "the check returned False"

    def _applies(self, views: Sequence[View]) -> bool:
        if self.when is not None and not self.when(views[-1]):
            return False
        self.tested += 1
        return True


def _reason(failure: AssertionError) -> str:
    """The message without what pytest adds below it, which names objects by their address."""
    text = str(failure).split("\nassert ")[0]
    return (text.split("\n")[0] if text.startswith("assert ") else text) or "an assertion of the check failed"


class Violation:
    """The property that a run violates, and the reason."""

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def __repr__(self) -> str:
        return f"{self.name}: {self.reason}"


Called = Callable[[str, int, Call, Any], str | None]
"""Process, incarnation, system call and answer to the reason why that is a violation."""


class Follower(Protocol):
    """Reads a run while it goes on, and reports at once what violates a rule.

    Unlike a property it sees every step and makes no other order necessary: of runs that differ only by
    swapping steps that no process can distinguish, it reads one. Only runs that it will read alike are
    merged.
    """

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        """A request took effect, or the store refused it; the reason why that is a violation."""

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        """A process noted something; the reason why that is a violation."""

    def state(self) -> Any:
        """Everything on which later judgements depend."""


class Monitor:
    """Judges a run: properties, followers, and bounds on costs."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._view = View(world)
        self.followers: list[tuple[str, Follower]] = []
        self.callers: list[tuple[str, Called]] = []
        """The followers that read system calls on the world's files too, each by its method `called`."""
        self.folds: list[Fold] = []
        self._past: Past | None = None
        """The state before the present step, for step properties."""
        self.watched = 0
        """What the properties read when they were judged last: a step that writes none of it needs no
        judging.
        """
        self.suspicious = False
        """Whether properties are judged after every step, also where it changed nothing that they read."""
        self.goes_on = False
        """Whether runs go on beyond a violation, as where all violations are wanted."""
        self.judging = True
        """Off while the beginning of a run is repeated, whose judgements are known."""

    def open(self) -> None:
        """Judge for the first time, when the processes have started."""
        world = self._world
        for promise in world.properties:
            promise.bit = world.footprints.bit("property", promise.name)
            if not self.judging or promise.kind == FINALLY:
                continue
            if promise.kind == STEP:
                self._judge_unchanged(promise)
            else:
                self._judge_one(promise)
        for fold in self.folds:
            fold.bit = world.footprints.bit("monitor", fold.name)
        self._watch()

    def look(self) -> None:
        """A step comes: keep what step properties must see of the state before it."""
        if self.judging:
            self._past = Past(self._world)

    def judge(self) -> None:
        """Judge the properties that can see the last step."""
        world = self._world
        written = world.w
        for promise in world.properties:
            if written & promise.reads and promise.kind != FINALLY:
                world.w |= promise.bit
                world.r |= promise.bit
                if promise.kind == STEP:
                    self._judge_step(promise)
                else:
                    self._judge_one(promise)
        self._watch()

    def complete(self) -> None:
        """Judge what must hold at the end of the run."""
        world = self._world
        for promise in world.properties:
            if world.violation is not None:
                return
            if promise.kind in (FINALLY, SOMETIMES, EVENTUALLY):
                reason = promise.judge(self._view)
                if reason is not None:
                    world.report_violation(promise.name, reason)
                elif promise.kind == EVENTUALLY and not promise.met:
                    world.report_violation(promise.name, "it never happened in this run")
        self.judge_again()

    def judge_again(self) -> None:
        """Judge what held when it was judged last, where nothing that it read has changed since."""
        if self.goes_on:
            return
        for promise in self._world.properties:
            if promise.kind == ALWAYS and self._world.violation is None:
                tested = promise.tested
                reason = promise.judge(self._view)
                promise.tested = tested
                if reason is not None:
                    raise AuditError(
                        f"the check of {promise.name!r} fails ({reason}) although nothing that it reads "
                        "through its view has changed since it held: it depends on what changes without the "
                        "world, such as a variable that processes share; note the value with world.note, and "
                        "read view.notes in the check",
                        (line_of(promise.check),) if hasattr(promise.check, "__code__") else (),
                    )

    def follow(self) -> None:
        """Show the last step to the followers."""
        world = self._world
        _, alternative, process, incarnation, _, op, answer, _ = world.trace[-1]
        if process is None or not process.index:
            return
        if isinstance(op, Request):
            if alternative not in _LANDED:
                return
            answer = world.unreceived.get(len(world.trace) - 1, answer)
        elif isinstance(op, Call):
            for name, called in self.callers if alternative == "ok" else ():
                reason = called(process.name, incarnation, op, answer)
                if reason is not None:
                    self._report(name, reason)
            return
        elif op.kind != "note" or alternative == "crash":
            return  # a crash is shown with the operation that it prevented
        for fold in self.folds:
            self._fold(fold, process, incarnation, op, answer)
        for name, follower in self.followers:
            if isinstance(op, Request):
                reason = follower.landed(process.name, incarnation, op, answer)
            else:
                reason = follower.noted(process.name, incarnation, op.subject, op.value)
            if reason is not None:
                self._report(name, reason)

    def _fold(self, fold: Fold, process: Any, incarnation: int, op: Any, answer: Any) -> None:
        """Let a monitor see the last step, if it is one of its events."""
        if isinstance(op, Request):
            if op.reads or not fold.sees_write(op.subject):
                return
            value, outcome = getattr(op, "body", None), getattr(answer, "outcome", None)
        elif fold.sees_note(op.subject):
            value, outcome = op.value, None
        else:
            return
        world = self._world
        world.r |= fold.bit
        world.w |= fold.bit
        # The monitor has seen it: a crash after it is another run than a crash before it.
        process.effective = True
        event = MonitorEvent(op.kind, process.name, incarnation, op.subject, value, outcome)
        before = None if fold.kept.empty else fold.kept.take()
        try:
            reason = fold.take(event)
        except AssertionError as failure:
            reason = _reason(failure)
        if before is not None:
            fold.kept.compare(before, fold.name, "while it ran")
        if reason is not None:
            self._report(fold.name, reason)

    def check_bounds(self) -> None:
        """Judge the costs of the operations that the last step ended."""
        world = self._world
        found = dearest(world, [bound for bound in world.bounds if bound.property not in world.muted])
        if found is not None:
            self._report(*found)

    def judgement(self) -> tuple[Any, ...]:
        """What the properties know."""
        return tuple([(p.reads, p.met) for p in self._world.properties])

    def restore(self, judgement: tuple[Any, ...]) -> None:
        """Continue from the judgement of an earlier run with the same beginning."""
        for promise, (reads, met) in zip(self._world.properties, judgement, strict=True):
            promise.reads = reads
            promise.met = met
        self._watch()

    def _judge_one(self, promise: Property) -> None:
        if promise.met:
            # The good thing has happened; it stays so for the rest of the run.
            promise.reads = 0
            return
        reason = promise.judge(self._view)
        self._world.r |= promise.reads
        if reason is not None:
            self._report(promise.name, reason)

    def _judge_step(self, promise: Property) -> None:
        """Judge a step property over the last step, and find out what it reads where nothing changes."""
        past = self._past
        assert past is not None, "the state before a step is kept while the monitor judges"
        reason = promise.judge(View(past), self._view)
        self._world.r |= promise.reads
        if reason is not None:
            self._report(promise.name, reason)
        else:
            self._judge_unchanged(promise)
        self._world.r |= promise.reads

    def _judge_unchanged(self, promise: Property) -> None:
        reason = promise.judge(View(self._world), self._view)
        if reason is not None and self._world.violation is None:
            raise Misuse(
                f"step_property({promise.name!r}) is false for a step that changes nothing ({reason}); it "
                "must hold there, because steps that change nothing it reads are not judged"
            )

    def _report(self, name: str, reason: str) -> None:
        self._world.report_violation(name, reason)

    def _watch(self) -> None:
        self.watched = 0
        for promise in self._world.properties:
            if promise.kind != FINALLY:
                self.watched |= promise.reads
