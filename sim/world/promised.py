"""Promises in a world: the steps of a run as the observations that a promise judges.

A promise that orders an observation makes the step read and write the promise itself, so that every order
of two such steps is explored, as with monitors (see `folds`). The request alone decides that, never its
outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fencepost.impl.store import requests as req
from fencepost.impl.store.requests import Outcome, Request
from fencepost.properties.promises import Observation, digest_of
from fencepost.properties.promises import observation as obs
from fencepost.properties.promises.noted import Gone
from fencepost.sim.faults import ALTERNATIVES, kind_of
from fencepost.sim.world.footprints import CLOCK
from fencepost.sim.world.operations import Finish, Note
from fencepost.sim.world.properties import Eventually, Property

if TYPE_CHECKING:
    from fencepost.properties.promises import Promise
    from fencepost.sim.world.process import Process
    from fencepost.sim.world.record import StepRecord
    from fencepost.sim.world.run import RunState

_ASKED = {"put": obs.WRITE, "complete-upload": obs.WRITE, "copy": obs.WRITE, "delete": obs.DELETE}
_REFUSALS = {"conflict": "conflict", "throttled": "throttled"}
_digest = lru_cache(4096)(digest_of)


class Promised:
    """One promise in one run."""

    def __init__(self, promise: Promise) -> None:
        self.promise = promise
        self.name = promise.name
        self.bit = 0

    def open(self, run: RunState) -> None:
        """Take up what exists when the processes start."""
        self.bit = run.footprints.bit("promise", self.name)
        bodies = run.bucket.bodies("")
        self.promise.begin({key: (body, _digest(body)) for key, body in bodies.items()})

    def liveness(self) -> Property | None:
        """Return the property that decides it where processes run for ever; None if it needs none."""
        target = self.promise.target
        if not isinstance(self.promise, Gone) or not self.promise.is_open:
            return None
        return Eventually(
            f"{self.name} in time", lambda view: not any(target.holds(key) for key in view.contents(""))
        )

    def take(self, run: RunState, record: StepRecord, process: Process, seen: Observation) -> None:
        """Judge one observation."""
        if self.promise.orders(seen):
            record.add(self.bit, self.bit)
            process.set_effective(True)
        if getattr(self.promise, "uses_time", False) and (seen.asked or seen.kind == obs.READ):
            record.add_read(CLOCK)
            run.observe_time()
            run.show_time()
        reason = self.promise.observe(seen)
        if reason is not None:
            run.report_violation(self.name, reason)

    def finish(self, run: RunState) -> None:
        """Judge the end of the run."""
        whole = all(process.state == "done" for process in run.processes if not process.daemon)
        reason = self.promise.finish(whole=whole)
        if reason is not None:
            run.report_violation(self.name, reason)


def observations(run: RunState, record: StepRecord) -> Iterator[Observation]:
    """Yield what the last step of a run shows."""
    actor, alternative, process, incarnation, number, op, answer, clock = run.trace[-1]
    del actor
    if process is None or not process.index:
        return
    machine = process.machine
    strand = process.name if machine is process else f"{machine.name}/{process.name}"
    common: dict[str, Any] = {
        "process": machine.name,
        "strand": strand,
        "incarnation": incarnation,
        "number": number,
        "t_ns": run.start_ns + clock,
    }
    if alternative == "crash":
        yield Observation(obs.CRASH, **common)
    elif isinstance(op, Request):
        yield from _of_request(run, record, alternative, op, answer, common)
    elif isinstance(op, Note):
        yield Observation(obs.NOTE, key=op.topic, value=op.value, **common)
    elif isinstance(op, Finish):
        yield Observation(obs.END, value=op.result, failed=op.error is not None, **common)
    elif op.kind == "copy-source" and getattr(answer, "outcome", None) is not None:
        exists = answer.outcome is Outcome.DONE
        body = answer.body if exists else None
        yield Observation(obs.READ, key=op.subject, exists=exists, body=body, **common)


def _of_request(
    run: RunState,
    record: StepRecord,
    alternative: str,
    op: Any,
    answer: Any,
    common: dict[str, Any],
) -> Iterator[Observation]:
    place = len(run.trace) - 1
    found = ALTERNATIVES[kind_of(alternative)]
    asked = _ASKED.get(op.kind, "")
    when = getattr(op, "when", None)
    body = getattr(op, "body", None) if asked == obs.WRITE else None
    common |= {
        "key": op.subject,
        "asked": asked,
        "condition": "" if when is None else type(when).__name__.lower(),
        "late": alternative == "land",
    }
    digest = "" if body is None else _digest(body)
    if found.flies:
        if asked:
            yield Observation(obs.SENT, body=body, digest=digest, **common)
        return
    if not found.lands:
        if asked and alternative in _REFUSALS:
            yield Observation(obs.REFUSED, outcome=_REFUSALS[alternative], body=body, digest=digest, **common)
        return
    reply = run.unreceived.get(place, answer)
    outcome = getattr(reply, "outcome", None)
    if outcome is None:
        return  # refused before it was sent
    acknowledged = place not in run.unreceived and alternative != "land"
    common |= {"outcome": outcome.value, "acknowledged": acknowledged}
    if asked:
        changed = outcome is Outcome.DONE and (asked == obs.WRITE or bool(record.written))
        if changed and asked == obs.WRITE:
            body = run.bucket.body(op.subject)
            digest = "" if body is None else _digest(body)
        kind = asked if changed else obs.REFUSED
        etag = getattr(reply, "etag", "") if changed else ""
        yield Observation(kind, body=body, digest=digest, etag=etag, **common)
    elif isinstance(op, req.Get | req.Head):
        info = getattr(reply, "info", None)
        exists = outcome is not Outcome.MISSING
        whole = isinstance(op, req.Get) and outcome is Outcome.DONE and op.start == 0 and op.stop is None
        kind = obs.READ if isinstance(op, req.Get) else obs.LOOK
        content = reply.body if whole else None
        etag = "" if info is None else info.etag
        yield Observation(kind, exists=exists, body=content, etag=etag, **common)
    elif isinstance(op, req.List) and outcome is Outcome.DONE:
        listed = tuple(one.key for one in reply.objects)
        yield Observation(obs.LIST, listed=listed, **common)
