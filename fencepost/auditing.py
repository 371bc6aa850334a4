"""One audit as a command or a test asks for it: what is wanted, and the result as plain data.

While schedules are explored, what the program prints or logs is thrown away: it would appear thousands of
times. The run that fails is repeated at the end with everything heard, so that a print in the code shows
what happened on the way to the failure and nothing else.
"""

import contextlib
import io
import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fencepost.impl.store
import fencepost.sim
from fencepost.impl.store.events import Event
from fencepost.sim.explore import Audit, BadToken, Coverage, Diverged, Replay, audit, lines_of, replay
from fencepost.sim.explore.moves import moves_of
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.tokens import write
from fencepost.sim.faults import PASSING_TIME
from fencepost.sim.world import Budget, Program

__all__ = ["BadToken", "Diverged", "Outcome", "Wanted", "bound", "conduct", "nothing_covered", "repeat"]

MACHINERY = [Path(package.__file__ or "").parent for package in (fencepost.sim, fencepost.impl.store)]
"""Frames of these say nothing to somebody who looks for the line that raised."""


EVENTS_TOLD = 600
"""Of one run, in a result: keeps a counterexample of a long run readable, and a report small."""
NEAREST_SECONDS = 2.0
"""To look for a run that passes, next to the one that fails."""


@dataclass(frozen=True)
class Wanted:
    """An audit: the program with its parameters bound, the faults, the way and the limits."""

    name: str
    program: Program
    parameters: Mapping[str, Any] = field(default_factory=dict)
    faults: Budget = field(default_factory=Budget)
    strategy: str = "exhaustive"
    seed: int = 0
    seconds: float | None = None
    schedules: int | None = None
    steps_max: int = 400
    depth: int = 3
    jobs: int = 1
    checkpoint: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The result with the keys scripts rely on, and the events of the run that failed or was repeated."""

    result: dict[str, Any]
    events: Sequence[Event] = ()
    interrupted: bool = False
    """Somebody pressed Ctrl-C: the result is what was found until then."""


def bound(program: Callable[..., Any], name: str, parameters: Mapping[str, Any]) -> Program:
    """`program` as a function of the world alone. Its name tells a checkpoint whose it is."""

    def one(world: Any) -> Any:
        return program(world=world, **parameters)

    one.__qualname__ = " ".join([name, *(f"{key}={value!r}" for key, value in parameters.items())])
    return one


def conduct(wanted: Wanted, progress: Callable[[Any], object] | None = None) -> Outcome:
    """Explore, judge, and repeat the failing run so that its events and its prints are known."""
    with _interruptible() as interrupted:

        def stop(search: Any) -> bool:
            if progress is not None:
                progress(search)
            return bool(interrupted)

        with _silence():
            found = audit(
                wanted.program,
                budget=wanted.faults,
                strategy=wanted.strategy,
                seed=wanted.seed,
                seconds=wanted.seconds,
                schedules=wanted.schedules,
                steps_max=wanted.steps_max,
                depth=wanted.depth,
                progress=stop,
                jobs=wanted.jobs,
                checkpoint=wanted.checkpoint,
                resume=wanted.checkpoint is not None and Path(wanted.checkpoint).exists(),
            )
        if interrupted:
            found.coverage.reports = ()  # a comparison with a whole model takes longer than anybody waits
        result, events = _told(wanted, found)
    return Outcome(result, events, interrupted=bool(interrupted))


def _told(wanted: Wanted, found: Audit) -> tuple[dict[str, Any], Sequence[Event]]:
    """The result, and the events of the run that failed."""
    result = {
        "system": wanted.name,
        "strategy": wanted.strategy,
        "parameters": dict(wanted.parameters),
        **found.as_json(),
        "faults": asdict(wanted.faults),
        "seed": wanted.seed,
        "still_to_run": found.still_to_run,
    }
    events: Sequence[Event] = ()
    for violation in result["violations"]:
        again = _follow(wanted, violation["token"])
        _check_repeated(again, violation)
        violation["raised_at"] = _raised_at(again)
        with _silence():
            violation["moves"] = moves_of(_setting(wanted), again, violation["token"])
        result["bound"] = (
            f"a schedule of {_processes(again)} with {wanted.faults.sentence()} breaks a property"
        )
        events = again.events(f"audit {wanted.name}")
        violation["events"] = rows(events)
        with _silence():
            violation["nearest_pass"] = _nearest_pass(wanted, again)
    return result, events


def repeat(wanted: Wanted, token: str) -> Outcome:
    """The one run that `token` stands for, as a result like any other."""
    started = time.perf_counter()
    again = _follow(wanted, token)
    counterexample = [str(line) for line in lines_of(again.world)]
    violations = []
    if again.violation is not None:
        name, reason = again.violation.name, again.violation.reason
        violations = [
            {
                "property": name,
                "reason": reason,
                "counterexample": [*counterexample, f"  => {name}: {reason}"],
                "token": token,
                "raised_at": _raised_at(again),
            }
        ]
    verdict = "violated" if violations else "undecided" if again.misfit else "holds"
    return Outcome(
        {
            "system": wanted.name,
            "strategy": "replay",
            "parameters": dict(wanted.parameters),
            "verdict": verdict,
            "bound": _BOUNDS[verdict],
            "schedules": 1,
            "pruned": 0,
            "seconds": time.perf_counter() - started,
            "violations": violations,
            "findings": [f"the token no longer fits: {again.misfit}"] if again.misfit else [],
            "coverage": _coverage(again),
            "faults": asdict(wanted.faults),
            "seed": wanted.seed,
            "counterexample": counterexample,
            "token": token,
        },
        again.events(f"replay {wanted.name}"),
    )


_BOUNDS = {
    "violated": "this schedule breaks a property",
    "holds": "this one schedule, and nothing is said of any other",
    "undecided": "the schedule the token stands for could not be run",
}


def nothing_covered(coverage: Mapping[str, Any]) -> bool:
    """Whether the runs met neither a conflict nor a fault, so that no order could matter."""
    passing_time = ("pick", *PASSING_TIME)
    faults = sum(count for name, count in coverage["faults"].items() if name not in passing_time)
    return not coverage["conflicts"] and not faults


def _setting(wanted: Wanted) -> Setting:
    return Setting(wanted.program, wanted.faults, wanted.seed, wanted.steps_max)


def _follow(wanted: Wanted, token: str) -> Replay:
    return replay(wanted.program, token, budget=wanted.faults, seed=wanted.seed, steps_max=wanted.steps_max)


def rows(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events as plain data, without the columns that do not apply; the first few, however long the run."""
    return [
        {name: value for name, value in asdict(event).items() if value not in ("", -1) and name != "run"}
        for event in events[:EVENTS_TOLD]
    ]


def _nearest_pass(wanted: Wanted, failed: Replay) -> dict[str, Any] | None:
    """The run that goes along with the failing one for as long as a run can that breaks nothing."""
    deadline = time.perf_counter() + NEAREST_SECONDS
    for kept in range(len(failed.steps) - 1, -1, -1):
        token = write(failed.steps[:kept])
        passed = _follow(wanted, token)
        if passed.violation is None and not passed.misfit:
            return {
                "same_steps": kept,
                "counterexample": [str(line) for line in lines_of(passed.world)],
                "token": token,
                "events": rows(passed.events(f"audit {wanted.name}")),
            }
        if time.perf_counter() > deadline:
            break
    return None


def _processes(again: Replay) -> str:
    count = len(again.world.processes)
    return "1 process" if count == 1 else f"{count} processes"


def _check_repeated(again: Replay, violation: Mapping[str, Any]) -> None:
    """A failure that cannot be repeated was decided by something outside the world."""
    seen = again.violation
    if seen is None or (seen.name, seen.reason) != (violation["property"], violation["reason"]):
        raise Diverged(
            f"{violation['property']} failed in one run ({violation['reason']}) and "
            f"{'held' if seen is None else f'{seen.name} failed ({seen.reason})'} in another with the same "
            "choices. Something outside the world decides: a clock, randomness, an identifier, a variable "
            "that outlives a run"
        )


def _coverage(again: Replay) -> dict[str, Any]:
    counted, world = Coverage(), again.world
    for step in world.trace:
        at_step = SimpleNamespace(
            trace=[step], held_back=world.held_back, pause_ns=world.pause_ns, skew_ns=world.skew_ns
        )
        counted.step(at_step)  # type: ignore[arg-type]  # only this is looked at
    return {
        "outcomes": {f"{kind} {outcome}": n for (kind, outcome), n in sorted(counted.outcomes.items())},
        "faults": dict(sorted(counted.faults.items())),
        "steps": dict(sorted(counted.steps.items())),
    }


def _raised_at(again: Replay) -> list[str]:
    """Where in the user's code the exception came from that ended a process, innermost last."""
    for process in again.world.processes:
        violated = again.violation is not None and again.violation.name == f"{process.name} ends well"
        if process.error is not None and violated:
            return [
                f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
                for frame in traceback.extract_tb(process.error.__traceback__)
                if not any(Path(frame.filename).is_relative_to(folder) for folder in MACHINERY)
            ]
    return []


@contextlib.contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Ctrl-C ends the search between two runs; a second one kills. It cannot be an exception: raised while
    a process of the world runs, it would look like the failure of that process.
    """
    seen: list[int] = []

    def handle(number: int, _: object) -> None:
        seen.append(number)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        yield seen  # signals are the main thread's
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(_Nowhere()):
            yield
    finally:
        logging.disable(before)
