"""Check a machine: explore it, decide every property, find the counterexamples."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fencepost.model.kernel.decision import Decision, what_was_cut
from fencepost.model.kernel.language.errors import BadSettings
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.result import (
    DEADLOCK,
    CheckResult,
    result_of,
)
from fencepost.model.kernel.report.vacuity import left_out, vacuity_warnings
from fencepost.model.kernel.search.explore import Bounds, Explorer, Progress, Search, least_memory
from fencepost.model.kernel.search.keys import odds
from fencepost.model.kernel.search.symmetry import Reduced


def check(
    machine: type[Machine] | Model,
    sizes: Mapping[str, int] | None = None,
    *,
    without: Iterable[str] = (),
    max_states: int | None = None,
    memory: int | None = None,
    max_depth: int | None = None,
    workers: int | None = None,
    keep_going: bool = False,
    deadlock: bool = True,
    symmetry: bool = False,
    exact: bool = False,
    spill: Path | None = None,
    resume: Path | None = None,
    compiled: bool | None = None,
    progress: Callable[[Progress], None] | None = None,
    explore: Callable[..., Search] | None = None,
) -> CheckResult:
    """Explore every reachable state and decide every property.

    Stops at the end of the level where the first property is violated, unless `keep_going`; properties that
    are then open are `undecided`. `max_states`, `memory` (bytes) and `max_depth` bound the search; if one is
    hit, every property that is not violated is `undecided`. `deadlock=False` does not search for states where
    nothing can happen. `symmetry` explores one state for all that differ only in the numbers of what the
    machine declares `symmetric`: same verdicts, fewer states. `exact` compares states of several words in
    full, not by a fingerprint, for 8 bytes a word and state more. `spill`, a directory, takes what does not
    fit into `memory`, which is then no bound any more. `resume`, a directory, takes the record of
    the search; a search that is recorded there already is continued. `compiled` makes a C function of each
    action and property, for the same result in less time: at once, never (False), or, by default, when the
    search has taken as long as compiling takes and there is a C compiler. `explore` is another engine, with
    the signature of `Explorer` and a `Search` as result.
    """
    if compiled and explore is not None:
        raise BadSettings("the compiled loop belongs to the local search: leave out either it or `explore`")
    for name, bound in {"max_states": max_states, "memory": memory, "workers": workers}.items():
        if bound is not None and bound < 1:
            raise BadSettings(f"{name}={bound} must be at least 1")
    model = machine if isinstance(machine, Model) else Model(machine, sizes, without=without)
    if model.bounds and (explore is not None or resume is not None):
        named = ", ".join(each.name for each in model.bounds)
        raise BadSettings(
            f"{model.name} has a @bound ({named}), which only the local search without --resume knows"
        )
    if symmetry:
        model = Reduced(model.machine, model.sizes, without=model.without)
    bounds = Bounds(max_states, memory, max_depth, spill)
    if memory is not None and spill is not None and memory < (least := least_memory(model)):
        raise BadSettings(f"memory={memory} cannot be kept: the smallest limit for this model is {least}")
    explore = explore or _explore_locally
    options: dict[str, Any] = {"bounds": bounds, "workers": workers, "exact": exact}
    if compiled is not None and explore is _explore_locally:
        options["compiled"] = compiled
    first = options if resume is None else {**options, "resume": resume}
    search = explore(model, **first, keep_going=keep_going, deadlocks=deadlock, progress=progress)
    notes, whole = [*search.notes], search
    if search.resumed:
        notes.append(f"the first {search.resumed:,} levels were taken from {resume}")
    if search.spilled_bytes:
        notes.append(
            f"the memory limit of {memory:,} bytes was reached: "
            f"{search.spilled_bytes:,} bytes went to {spill}"
        )
    if exact and model.words > 1:
        notes.append(
            f"states were compared in full: {8 * (model.words + 1) * search.distinct:,} bytes for what was "
            f"visited, where fingerprints take {8 * search.distinct:,}"
        )
    if isinstance(model, Reduced):
        assumed = model.check_claim(search)
        notes += [model.reduction(search), assumed]
        if search.complete and (of_runs := [p.kind.name for p in model.properties if p.kind.of_runs]):
            whole = explore(model.whole, **options, properties=(), deadlocks=False)
            kinds = " and ".join(dict.fromkeys(of_runs))
            are = "are" if len(set(of_runs)) > 1 else "is"
            notes.append(f"{kinds} {are} decided without symmetry, on {whole.distinct:,} states")
    if search.cut:
        notes.append(f"{what_was_cut(search)}: what holds, holds within it")
    decision = Decision(
        search,
        whole,
        partial(explore, **options, deadlocks=False, progress=progress),
        memory=memory,
        workers=workers,
        keep_going=keep_going,
        notes=notes,
        vacuity_warnings=[*vacuity_warnings(search, whole=not isinstance(model, Reduced))],
    )
    wanted = [*model.properties, *([DEADLOCK] if deadlock else [])]
    decision.decide(wanted)
    return result_of(
        search.model,
        search.fired,
        [decision.decided[each.name] for each in wanted],
        complete=search.complete,
        distinct=search.distinct,
        generated=search.generated,
        depth=search.depth,
        seconds=search.seconds,
        peak_bytes=search.peak_bytes,
        collision_odds=0.0 if exact else odds(model.words, search.distinct),
        stopped_by=search.stopped_by,
        cut=search.cut,
        notes=tuple(notes),
        vacuity_warnings=tuple(decision.vacuity_warnings),
        left_out=left_out(search, whole=not isinstance(model, Reduced)),
    )


def _explore_locally(model: Model, **options: Any) -> Search:
    return Explorer(model, **options).run()
