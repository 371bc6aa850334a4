"""The monitor of a run: it judges properties, followers, monitors and bounds on costs.

Theory. Exploration runs one order of every class of runs that differ only by swapping independent steps. A
property that looked at intermediate states could miss one that only another order of the class passes
through. So a property is one more participant: whatever it looked at, it *read*, as part of the step after
which it was judged, and every step that changes something it looks at *writes* the property itself. Steps
that a property can see are thereby ordered among each other, every order of them is explored, and nothing
else pays for it. Looking at much costs exploration: a property that reads a single key is cheaper than one
that reads the whole bucket.

This holds only for what a property reads through the view: contents, versions, notes, results, the clock. A
property must not read Python variables that processes change; write a note instead. A check that keeps state
itself is refused, see `check_state`; properties with memory are in `folds`.

The kinds of properties, and what a check returns, are in `properties`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from fencepost.impl.store.requests import Request
from fencepost.sim.faults import ALTERNATIVES
from fencepost.sim.world.costs import AtMost, dearest
from fencepost.sim.world.folds import Fold, MonitorEvent
from fencepost.sim.world.operations import Call, plain
from fencepost.sim.world.process import Process
from fencepost.sim.world.promised import Promised, observations
from fencepost.sim.world.properties import FalseAtRest, Property, Views, reason_of
from fencepost.sim.world.record import StepRecord
from fencepost.sim.world.run import RunState
from fencepost.sim.world.view import Past, View

_LANDED = frozenset(name for name, found in ALTERNATIVES.items() if found.lands)

Called = Callable[[str, int, Call, Any], str | None]
"""Process, incarnation, system call and answer to the reason why that is a violation."""


class Follower(Protocol):
    """Reads a run while it goes on, and reports at once what violates a rule.

    Unlike a property, a follower is shown every step and makes no other order necessary. Of runs that differ
    only by swapping steps that no process can distinguish, it reads one. Only runs that it will read alike
    are merged.
    """

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        """A request took effect, or the store refused it; the reason why that is a violation."""

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        """A process noted something; the reason why that is a violation."""

    def state(self) -> Any:
        """Return everything on which later judgements depend."""


class Monitor:
    """Judges a run: properties, followers, and bounds on costs."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._views = Views(View(run), View(run))
        self.properties: list[Property] = []
        self.has_step_properties = False
        self.bounds: list[AtMost] = []
        """Bounds on the costs of operations."""
        self.followers: list[tuple[str, Follower]] = []
        self.callers: list[tuple[str, Called]] = []
        """Followers that read system calls on the world's files too, each by its method `called`."""
        self.folds: list[Fold] = []
        self.promises: list[Promised] = []
        self.watched = 0
        """Mask of the objects that properties read when they were judged last. A step that writes none of
        them needs no judging.
        """
        self.suspicious = False
        """True if properties are judged after every step, also after those that change nothing they read."""
        self.goes_on = False
        """True if runs go on beyond a violation, in a search for all violations."""
        self.judging = True
        """False while the beginning of a run is repeated: its judgements are known."""

    # Declarations.

    def declare(self, promise: Property) -> None:
        self.properties.append(promise)
        self.has_step_properties = self.has_step_properties or promise.compares_steps

    def add_bounds(self, bounds: Iterable[AtMost]) -> None:
        self.bounds.extend(bounds)

    def add_fold(self, fold: Fold) -> None:
        self.folds.append(fold)

    def add_promise(self, promised: Promised) -> None:
        self.promises.append(promised)

    def add_follower(self, name: str, follower: Follower) -> None:
        self.followers.append((name, follower))
        called: Called | None = getattr(follower, "called", None)
        if called is not None:
            self.callers.append((name, called))

    # Modes.

    def distrust(self) -> None:
        """Judge properties after every step."""
        self.suspicious = True

    def go_on(self, goes_on: bool) -> None:
        """Decide if runs go on beyond a violation."""
        self.goes_on = goes_on

    def pause(self) -> None:
        """Judge nothing: the beginning of a run is repeated."""
        self.judging = False

    def go_back_to(self, judgement: tuple[Any, ...]) -> None:
        """Judge again, and continue from the judgement of an earlier run with the same beginning."""
        self.judging = True
        for promise, (reads, met) in zip(self.properties, judgement, strict=True):
            promise.restore(reads, met)
        self._watch()

    # Judgements.

    def open(self, record: StepRecord) -> None:
        """Judge for the first time, when the processes have started."""
        footprints = self._run.footprints
        for promised in self.promises:
            promised.open(self._run)
            if (lasting := promised.liveness()) is not None:
                self.declare(lasting)
        for promise in self.properties:
            promise.watch(footprints.bit("property", promise.name))
            if self.judging and promise.at_steps:
                self._judge_one(record, promise, promise.judge_first)
        for fold in self.folds:
            fold.watch(footprints.bit("monitor", fold.name))
        self._watch()

    def look(self) -> None:
        """Keep the state before a step, for step properties."""
        if self.judging:
            self._views.keep(View(Past(self._run)))

    def judge(self, record: StepRecord) -> None:
        """Judge the properties that can see the last step."""
        written = record.written
        for promise in self.properties:
            if written & promise.reads and promise.at_steps:
                record.add(promise.bit, promise.bit)
                self._judge_one(record, promise, promise.judge_step)
        self._watch()

    def _judge_one(self, record: StepRecord, promise: Property, judge: Callable[[Views], str | None]) -> None:
        try:
            reason = judge(self._views)
        except FalseAtRest:
            if self._run.violation is None:
                raise
            reason = None
        record.add_read(promise.looked)
        if reason is not None:
            self._run.report_violation(promise.name, reason)

    def complete(self) -> None:
        """Judge what must hold at the end of the run."""
        run = self._run
        for promised in self.promises:
            if run.violation is None:
                promised.finish(run)
        for promise in self.properties:
            if run.violation is not None:
                return
            if promise.at_end:
                reason = promise.judge(self._views.now)
                if reason is not None:
                    run.report_violation(promise.name, reason)
                elif promise.is_missed:
                    run.report_violation(promise.name, "it never happened in this run")
        self.judge_again()

    def judge_again(self) -> None:
        """Judge again the properties of which nothing that they read has changed since they held."""
        if self.goes_on:
            return
        for promise in self.properties:
            if promise.lasts and self._run.violation is None:
                promise.judge_again(self._views.now)

    def follow(self, record: StepRecord) -> None:
        """Show the last step to the followers."""
        run = self._run
        _, alternative, process, incarnation, _, op, answer, _ = run.trace[-1]
        if process is None or not process.index:
            return
        if self.promises:
            for seen in observations(run, record):
                for promised in self.promises:
                    promised.take(run, record, process, seen)
        if isinstance(op, Request):
            if alternative not in _LANDED:
                return
            answer = run.unreceived.get(len(run.trace) - 1, answer)
        elif isinstance(op, Call):
            for name, called in self.callers if alternative == "ok" else ():
                reason = called(process.name, incarnation, op, answer)
                if reason is not None:
                    run.report_violation(name, reason)
            return
        elif op.kind != "note" or alternative == "crash":
            return  # a crash is shown with the operation that it prevented
        for fold in self.folds:
            self._fold(record, fold, process, incarnation, op, answer)
        for name, follower in self.followers:
            if isinstance(op, Request):
                reason = follower.landed(process.name, incarnation, op, answer)
            else:
                reason = follower.noted(process.name, incarnation, op.subject, op.value)
            if reason is not None:
                run.report_violation(name, reason)

    def _fold(
        self, record: StepRecord, fold: Fold, process: Process, incarnation: int, op: Any, answer: Any
    ) -> None:
        """Let a monitor see the last step, if it is one of its events."""
        if isinstance(op, Request):
            if op.reads or not fold.sees_write(op.subject):
                return
            value, outcome = getattr(op, "body", None), getattr(answer, "outcome", None)
        elif fold.sees_note(op.subject):
            value, outcome = op.value, None
        else:
            return
        record.add(fold.bit, fold.bit)
        # The monitor has seen it: a crash after it is another run than a crash before it.
        process.set_effective(True)
        event = MonitorEvent(op.kind, process.name, incarnation, op.subject, value, outcome)
        before = None if fold.kept.empty else fold.kept.take()
        try:
            reason = fold.take(event)
        except AssertionError as failure:
            reason = reason_of(failure)
        if before is not None:
            fold.kept.compare(before, fold.name, "while it ran")
        if reason is not None:
            self._run.report_violation(fold.name, reason)

    def check_bounds(self) -> None:
        """Judge the costs of the operations that the last step ended."""
        run = self._run
        found = dearest(run, [bound for bound in self.bounds if bound.property not in run.settings.muted])
        if found is not None:
            run.report_violation(*found)

    def judgement(self) -> tuple[Any, ...]:
        """Return the state of all properties, from which a later run can continue."""
        return tuple([(p.reads, p.met) for p in self.properties])

    def state(self) -> tuple[Any, ...]:
        """Return everything on which later judgements depend, hashable."""
        if not (self.followers or self.folds or self.promises):
            return self.judgement()
        return (
            self.judgement(),
            tuple([follower.state() for _, follower in self.followers]),
            tuple([plain(fold.state) for fold in self.folds]),
            tuple([promised.promise.state() for promised in self.promises]),
        )

    def _watch(self) -> None:
        self.watched = 0
        for promise in self.properties:
            if promise.at_steps:
                self.watched |= promise.reads
