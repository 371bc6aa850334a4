"""An audit as a command or a test runs it: silent, interruptible, with everything a report shows.

The search discards what the program prints or logs, because it would appear thousands of times. The failing
run is repeated at the end with its output, so that a print in the code shows what led to the failure and
nothing else.
"""

import contextlib
import io
import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import fencepost.impl.store
import fencepost.sim
from fencepost.sim.explore import liveness
from fencepost.sim.explore.audit import AuditOutcome, AuditRequest, follow_watched, search
from fencepost.sim.explore.counterexample import Counterexample, event_rows, follow_located, moves_of
from fencepost.sim.explore.result import AuditVerdict, NearestPass
from fencepost.sim.explore.runs import Coverage, Setting
from fencepost.sim.explore.steps import Objects, lines_of
from fencepost.sim.explore.tokens import Replay, follow, muted_for, read, write
from fencepost.sim.world import Program
from fencepost.sim.world.declaring import Declaring
from fencepost.sim.world.finalizers import PROPERTY
from fencepost.sim.world.process import Diverged

HARNESS = [Path(package.__file__ or "").parent for package in (fencepost.sim, fencepost.impl.store)]
"""Frames below these folders do not help to find the line that raised."""
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals after which an audit reports what it found so far."""
NEAREST_SECONDS = 2.0
"""To look for a run that passes, next to the one that fails."""


def bind(program: Callable[..., Any], name: str, parameters: Mapping[str, Any]) -> Program:
    """`program` as a function of the world alone. Its name identifies it in a checkpoint."""

    def bound(world: Declaring) -> Any:
        return program(world=world, **parameters)

    bound.__qualname__ = " ".join([name, *(f"{key}={value!r}" for key, value in parameters.items())])
    return bound


def run_audit(request: AuditRequest, progress: Callable[[Any], object] | None = None) -> AuditOutcome:
    """Explore and judge, and repeat the failing run so that its events and its output are known.

    The search continues from the request's checkpoint file when that exists.
    """
    with interruptible() as interrupted:

        def stop(at: Any) -> bool:
            if progress is not None:
                progress(at)
            return bool(interrupted)

        resume = request.checkpoint is not None and Path(request.checkpoint).exists()
        with silence():
            result = search(replace(request, resume=resume), stop, lambda: bool(interrupted))
        result = replace(result, interrupted=bool(interrupted))
    for counterexample in result.counterexamples:
        if counterexample.back_to is not None:
            return replace(result, events=counterexample.events)
    learnt = result.request  # its setting has the variables, loops and times that the search found
    explained = tuple(
        _explained(learnt, found, output=not number) for number, found in enumerate(result.counterexamples)
    )
    events = explained[0].events if explained else result.events
    return replace(result, counterexamples=explained, events=events)


def _explained(request: AuditRequest, found: Counterexample, *, output: bool) -> Counterexample:
    """Return the counterexample with the parts that a report shows; `output`: let its run print."""
    setting = muted_for(request.setting, found.token)
    with contextlib.nullcontext() if output else silence():
        again = follow(setting, read(found.token))
    _check_repeated(again, found)
    with silence():
        return replace(
            found,
            raised_at=_raised_at(again),
            moves=moves_of(setting, again, found.token),
            nearest_pass=_nearest_pass(setting, request.name, again),
            events=tuple(again.events(f"audit {request.name}")),
        )


def run_token(request: AuditRequest, token: str) -> AuditOutcome:
    """Return the one run that `token` names, as a result like any other."""
    started = time.perf_counter()
    fair = liveness.parse(token)
    if fair is not None:
        return _run_fair(request, fair)
    setting = muted_for(request.setting, token)
    follow_watched(setting, token)
    setting.variables.restore()
    again, objects = follow_located(setting, read(token))
    counterexamples: tuple[Counterexample, ...] = ()
    if again.violation is not None and not again.misfit:
        found = Counterexample.of(again, token, objects)
        counterexamples = (replace(found, raised_at=_raised_at(again), events=()),)
    verdict: AuditVerdict = "violated" if counterexamples else "undecided" if again.misfit else "holds"
    bound = _BOUNDS[verdict]
    if counterexamples and counterexamples[0].property == PROPERTY:
        verdict, bound = "error", counterexamples[0].reason
    return replayed(request, again, objects, token, verdict, bound, started, counterexamples)


def replayed(
    request: AuditRequest,
    replay: Replay,
    objects: Objects,
    token: str,
    verdict: AuditVerdict,
    bound: str,
    started: float,
    found: tuple[Counterexample, ...],
) -> AuditOutcome:
    """Return the result of the one run of a token."""
    coverage = Coverage()
    for place in range(len(replay.world.trace)):
        coverage.step(replay.world, place)
    return AuditOutcome(
        request,
        "replay",
        verdict,
        bound,
        1,
        0,
        time.perf_counter() - started,
        found,
        (f"the token no longer fits: {replay.misfit}",) if replay.misfit else (),
        coverage,
        events=replay.events(f"replay {request.name}"),
        replayed=[str(line) for line in lines_of(replay.world.run, objects)],
        token=token,
    )


def _run_fair(request: AuditRequest, fair: liveness.Fair) -> AuditOutcome:
    """Return the result of a token that names a schedule in which all take turns."""
    started = time.perf_counter()
    found = liveness.follow_fair(request.setting, fair)
    verdict: AuditVerdict = "holds" if found is None else "violated"
    lines = () if found is None else found.lines
    return AuditOutcome(
        request,
        "replay",
        verdict,
        _BOUNDS[verdict],
        1,
        0,
        time.perf_counter() - started,
        () if found is None else (found,),
        (),
        Coverage(),
        events=() if found is None else found.events,
        replayed=[str(line) for line in lines],
        token=fair.token,
    )


_BOUNDS = {
    "violated": "this schedule breaks a property",
    "holds": "this one schedule, and nothing is claimed about any other",
    "undecided": "the schedule the token stands for could not be run",
}


def _nearest_pass(setting: Setting, name: str, failed: Replay) -> NearestPass | None:
    """Return the run that follows the failing one for as long as possible and violates nothing."""
    deadline = time.perf_counter() + NEAREST_SECONDS
    for kept in range(len(failed.steps) - 1, -1, -1):
        token = write(failed.steps[:kept], setting.muted, setting.lines, setting.loops)
        passed = follow(setting, read(token))
        if passed.violation is None and not passed.misfit:
            passed, objects = follow_located(setting, read(token))
            return NearestPass(
                same_steps=kept,
                counterexample=tuple(str(line) for line in lines_of(passed.world.run, objects)),
                token=token,
                events=event_rows(passed.events(f"audit {name}")),
            )
        if time.perf_counter() > deadline:
            break
    return None


def _check_repeated(again: Replay, found: Counterexample) -> None:
    """Raise when the failure does not repeat: something outside the world decided it."""
    seen = again.violation
    if seen is None or (seen.name, seen.reason) != (found.property, found.reason):
        raise Diverged(
            f"{found.property} failed in one run ({found.reason}) and "
            f"{'held' if seen is None else f'{seen.name} failed ({seen.reason})'} in another with the same "
            "choices. Something outside the world decides: a clock, randomness, an identifier, a variable "
            "that outlives a run"
        )


def _raised_at(again: Replay) -> tuple[str, ...]:
    """Where in the user's code the exception that ended a process was raised, innermost last."""
    for process in again.world.processes:
        violated = again.violation is not None and again.violation.name == f"{process.name} ends well"
        if process.error is not None and violated:
            return tuple(
                f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
                for frame in traceback.extract_tb(process.error.__traceback__)
                if not any(Path(frame.filename).is_relative_to(folder) for folder in HARNESS)
            )
    return ()


@contextlib.contextmanager
def interruptible() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the search between two runs; a second one kills the command. It cannot be an
    exception: raised while a process of the world runs, it would look like the failure of that process.
    """
    seen: list[int] = []

    def handle(number: int, _: object) -> None:
        seen.append(number)
        signal.signal(number, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        yield seen  # only the main thread can handle signals
        return
    before = {number: signal.signal(number, handle) for number in ENDING}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Nowhere(io.TextIOBase):
    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(_Nowhere()):
            yield
    finally:
        logging.disable(before)
