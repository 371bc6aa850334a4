"""Checking a machine: explore it, decide every property, tell the counterexamples."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.errors import BadSettings
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.counterexample import Counterexample, chain, counterexample_of
from fencepost.model.kernel.report.result import PropertyResult, Result, Verdict, worst
from fencepost.model.kernel.report.vacuity import vacuity_warnings
from fencepost.model.kernel.search.explore import Bounds, Explorer, Found, Progress, Search
from fencepost.model.kernel.search.keys import odds
from fencepost.model.kernel.search.symmetry import Reduced
from fencepost.model.kernel.temporal import decide as temporal

NO_DEADLOCK = "no-deadlock"
DEADLOCK_DOC = "Something can always happen, except where the machine says that it may end."


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
    spill: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    explore: Callable[..., Search] | None = None,
) -> Result:
    """Explore every reachable state and decide every property.

    Stops at the end of the level where the first property is violated, unless `keep_going`; what is
    then not decided yet is `undecided`. `max_states`, `memory` (bytes) and `max_depth` bound the
    search; when one is hit, what was not violated is `undecided`. `deadlock=False` leaves out the
    search for states where nothing can happen. `symmetry` explores one state for all that differ only
    in the numbers of what the machine declares `symmetric`: same verdicts, fewer states. `spill`, a
    directory, takes what does not fit into `memory`, so that it is no bound any more; the frontier at
    hand stays in memory. `explore` is another engine: called like `Explorer`, it answers the search.
    """
    for name, bound in {"max_states": max_states, "memory": memory, "workers": workers}.items():
        if bound is not None and bound < 1:
            raise BadSettings(f"{name}={bound} must be at least 1")
    model = machine if isinstance(machine, Model) else Model(machine, sizes, without=without)
    if symmetry:
        model = Reduced(model.machine, model.sizes, without=model.without)
    bounds = Bounds(max_states, memory, max_depth, spill)
    explore = explore or _locally
    search = explore(
        model,
        bounds=bounds,
        workers=workers,
        keep_going=keep_going,
        deadlocks=deadlock,
        progress=progress,
    )
    notes, whole = [], search
    if search.spilled_bytes:
        notes.append(
            f"the memory limit of {memory:,} bytes was reached: "
            f"{search.spilled_bytes:,} bytes went to {spill}"
        )
    if isinstance(model, Reduced):
        model.check_claim(search)
        notes.append(model.reduction(search))
        if search.complete and any(wanted.kind == "eventually" for wanted in model.properties):
            whole = explore(model.whole, properties=(), bounds=bounds, workers=workers, deadlocks=False)
            notes.append(f"eventually is decided without symmetry, on {whole.distinct:,} states")
    properties = [
        decide(whole if wanted.kind == "eventually" else search, wanted, memory=memory, workers=workers)
        for wanted in model.properties
    ]
    if deadlock:
        properties.append(_deadlock(search))
    return _result(search, properties, notes)


def _locally(model: Model, **how: Any) -> Search:
    return Explorer(model, **how).run()


def decide(
    search: Search, wanted: Property, *, memory: int | None = None, workers: int | None = None
) -> PropertyResult:
    """One property's verdict after an exploration."""
    if wanted.kind in ("eventually", "always_recoverable"):
        return temporal.decide(search, wanted, memory=memory, workers=workers)
    found = search.found.get(wanted.name)
    verdict: Verdict
    if found is not None:
        verdict = "holds" if wanted.kind == "reachable" else "violated"
        return PropertyResult(wanted.name, wanted.kind, verdict, counterexample(search, found), wanted.doc)
    if not search.complete:
        reason = f"stopped by {search.stopped_by}"
        return PropertyResult(wanted.name, wanted.kind, "undecided", None, wanted.doc, reason)
    verdict = "violated" if wanted.kind == "reachable" else "holds"
    reason = "no reachable state satisfies it" if verdict == "violated" else ""
    return PropertyResult(wanted.name, wanted.kind, verdict, None, wanted.doc, reason)


def counterexample(search: Search, found: Found) -> Counterexample:
    """The shortest counterexample to where a property was decided."""
    steps, end = chain(search.model, search.levels, found.depth, found.state), found.state
    if found.label is not None and found.after is not None:
        steps, end = [*steps, (found.state, found.label)], found.after
    return counterexample_of(search.model, *search.model.lifted(steps, end))


def _deadlock(search: Search) -> PropertyResult:
    doc = DEADLOCK_DOC
    if search.deadlock is not None:
        return PropertyResult(
            NO_DEADLOCK, "deadlock", "violated", counterexample(search, search.deadlock), doc
        )
    if search.complete:
        return PropertyResult(NO_DEADLOCK, "deadlock", "holds", None, doc)
    return PropertyResult(NO_DEADLOCK, "deadlock", "undecided", None, doc, f"stopped by {search.stopped_by}")


def _result(search: Search, properties: list[PropertyResult], notes: list[str]) -> Result:
    model = search.model
    coverage = dict.fromkeys(model.actions, 0)
    for label, count in zip(model.labels, search.fired, strict=True):
        coverage[label.action] += count
    return Result(
        model=model.name,
        parameters=dict(model.sizes),
        without=tuple(sorted(model.without)),
        verdict=worst([found.verdict for found in properties] + ([] if search.complete else ["undecided"])),
        distinct=search.distinct,
        generated=search.generated,
        depth=search.depth,
        seconds=search.seconds,
        peak_bytes=search.peak_bytes,
        properties=tuple(properties),
        coverage=coverage,
        words=model.words,
        collision_odds=odds(model.words, search.distinct),
        stopped_by=search.stopped_by,
        labels_fired={str(label): n for label, n in zip(model.labels, search.fired, strict=True)},
        notes=tuple(notes),
        vacuity_warnings=vacuity_warnings(search, whole=not isinstance(model, Reduced)),
    )
