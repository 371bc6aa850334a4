"""The events of a run in the shared schema, made on request.

While a run is explored a step is one tuple; thousands of runs a second leave no time for more. A request
is shown as issued right after the step before it in its process, which is when its process came to it.
"""

from collections.abc import Iterator
from typing import Any

from fencepost.impl.store.events import Event, TraceFields, arguments, landing, results
from fencepost.impl.store.requests import Outcome, Request
from fencepost.sim.faults import ALTERNATIVES, kind_of
from fencepost.sim.world.footprints import FLIGHTS_FROM
from fencepost.sim.world.operations import Delivery
from fencepost.sim.world.run import RunState
from fencepost.sim.world.shown_fields import shown_fields
from fencepost.sim.world.world import World

_LATE = frozenset(name for name, found in ALTERNATIVES.items() if found.late)
_NOTES = {name: found.text for name, found in ALTERNATIVES.items() if found.text}


def events(world: World, run: str = "") -> list[Event]:
    """Return every event of the run so far."""
    made: list[Event] = []
    numbers: dict[tuple[int, int], int] = {}
    fields = world.settings.trace_fields or shown_fields
    for t_ns, process, incarnation, op, phase, columns in _rows(world.run, numbers, fields):
        made.append(Event(run, len(made), world.start_ns + t_ns, process, incarnation, op, phase, **columns))
    return made


def _rows(
    run: RunState, numbers: dict[tuple[int, int], int], trace_fields: TraceFields | None
) -> Iterator[tuple[Any, ...]]:
    issued = _issued(run)
    responses: dict[int, tuple[Any, ...]] = {}
    """By place of the landing: the responses that are delivered in a later step."""
    yield from _requests(issued, -1, 0, numbers, trace_fields)
    for place, (actor, alternative, process, incarnation, number, op, answer, clock) in enumerate(run.trace):
        who = process.name if process is not None else "clock" if op.kind == "advance" else "power"
        if process is not None and process.index == 0:
            who = "setup"
        base = (clock, who, incarnation)
        if isinstance(op, Request):
            assert process is not None, "processes send requests"
            made = _number(numbers, process.index, number)
            stored = run.unreceived.get(place, answer)
            for row in _landing(base, alternative, made, op, (stored, answer), trace_fields):
                if place in run.deferred and row[4] == "response":
                    responses[place] = row
                else:
                    yield row
        elif type(op) is Delivery and alternative != "crash":
            if op.landed in responses:
                yield (clock, *responses[op.landed][1:])
        elif op.kind == "note":
            columns = {"kind": "note", "key": op.topic, "note": repr(op.value)}
            yield (*base, -1, "note", columns)
        if kind_of(alternative) in _NOTES and not isinstance(op, Request):
            note = _NOTES[kind_of(alternative)]
            yield (*base, -1, "note", {"kind": kind_of(alternative), "key": "", "note": note})
        if op.kind == "finish" and alternative == "ok":
            note = repr(op.result) if op.error is None else f"{type(op.error).__name__}: {op.error}"
            yield (*base, -1, "note", {"kind": "end", "key": "", "note": note})
        del actor
        yield from _requests(issued, place, clock, numbers, trace_fields)


def _landing(
    base: Any,
    alternative: str,
    op: int,
    request: Any,
    answers: tuple[Any, Any],
    trace_fields: TraceFields | None,
) -> Iterator[tuple[Any, ...]]:
    """`answers`: the store's reply, and the one that the process received."""
    note = _NOTES.get(alternative, "")
    shown = {"kind": request.kind, "key": request.subject}
    found = ALTERNATIVES[kind_of(alternative)]
    if found.lands:
        outcome = _outcome(request, answers[0], trace_fields)
        yield (*base, op, "landed", {**outcome, **landing(request, trace_fields), "note": note})
    if not found.sent and not found.lands:
        yield (*base, op, "note", {**shown, "note": found.kind or note})
    elif found.sent:
        columns = _outcome(request, answers[1], trace_fields)
        yield (*base, op, "response", {**columns, "note": note})


def _outcome(request: Any, answer: Any, trace_fields: TraceFields | None) -> dict[str, Any]:
    if isinstance(getattr(answer, "outcome", None), Outcome):
        return results(request, answer, trace_fields)
    return {"kind": request.kind, "key": request.subject, "outcome": f"{type(answer).__name__}"}


def _requests(
    issued: Any, place: int, clock: int, numbers: Any, trace_fields: TraceFields | None
) -> Iterator[tuple[Any, ...]]:
    for process, incarnation, number, request in issued.get(place, ()):
        op = _number(numbers, process.index, number)
        yield (clock, process.name, incarnation, op, "request", arguments(request, trace_fields))


def _number(numbers: dict[tuple[int, int], int], process: int, number: int) -> int:
    """Operations are numbered in the order in which they were issued."""
    return numbers.setdefault((process, number), len(numbers) + 1)


def _issued(run: RunState) -> dict[int, list[Any]]:
    """By the place of the step after which they were issued: the requests."""
    found: dict[int, list[Any]] = {}
    last: dict[int, int] = {}
    begun: dict[tuple[int, Any], int] = {}
    opened = -1
    seen: set[tuple[int, int]] = set()

    def issue(actor: int, process: Any, incarnation: int, number: int, request: Any) -> None:
        at = last.get(process.index, opened)
        if actor >= FLIGHTS_FROM and actor != process.index:
            # A parallel step: all its requests are issued when the first could land.
            at = begun.setdefault((process.index, run.footprints.group(actor)), at)
        if (process.index, number) not in seen:
            seen.add((process.index, number))
            found.setdefault(at, []).append((process, incarnation, number, request))

    for place, (actor, alternative, process, incarnation, number, op, _, _) in enumerate(run.trace):
        if process is None or alternative in _LATE:
            continue
        if process.index == 0:
            opened = place
            continue
        if isinstance(op, Request):
            issue(actor, process, incarnation, number, op)
        last[process.index] = place
    for flight in run.flights.values():
        if not flight.zombie:
            issue(flight.actor, flight.process, flight.incarnation, flight.number, flight.request)
    for process in run.strands:
        if isinstance(process.pending, Request):
            issue(process.index, process, process.incarnation, process.ops, process.pending)
    for requests in found.values():
        requests.sort(key=lambda row: (row[0].index, row[2]))
    return found
