"""Compare two audits of one program, before and after a change: differences for the better or worse.

These differences are worse: a property that broke, a proof that is no longer one, situations that are no
longer met (a proof of less), an operation that costs more, a bound that was raised. Other differences are
listed without a judgement: a search of another size proves nothing about the program.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from fencepost.results import Recorded, Verdict
from fencepost.sim.explore.result import AuditResult, AuditVerdict

Judgement = Literal["worse", "better", "other"]
WORSE: Judgement = "worse"
BETTER: Judgement = "better"
OTHER: Judgement = "other"
RANK = {"holds": 0, "undecided": 1, "violated": 2, "error": 3}

Row = Mapping[str, Any]
"""The cost of one operation, as `AuditResult.cost` has it."""


@dataclass(frozen=True)
class Change:
    """One difference between the audits of two revisions."""

    judged: Judgement
    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Unnoticed:
    """A protective step on a changed line that no property needs: every schedule without it holds."""

    file: str
    line: int
    kind: str
    """`condition`, `guard`, `plus-one`, ...: see `sim.mutation`."""
    code: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The audits of one program at two revisions."""

    system: str
    verdict: AuditVerdict
    changes: tuple[Change, ...] = ()
    touched: bool = True
    """True if a line of the program or of a module that it imports differs."""
    left_out: str = ""
    """The reason why it was not compared; empty if it was."""
    unnoticed: tuple[Unnoticed, ...] = ()
    """Steps on changed lines that can be left out unnoticed. No part of the verdict."""
    untried: str = ""
    """The reason why steps on changed lines were not left out; empty if all were, or there are none."""
    before: Recorded[AuditResult] | None = None
    after: Recorded[AuditResult] | None = None


@dataclass(frozen=True, kw_only=True)
class CompareResult(Comparison):
    """The result of `fencepost audit --base`: of one program, or of several and then all changes together."""

    base: str
    programs: tuple[Comparison, ...] = ()
    """Where several programs were named: each of them, those that the change touches first."""


def together(found: Sequence[Comparison], base: str) -> CompareResult:
    """Return the result of comparing these programs."""
    if len(found) == 1:
        (one,) = found
        return CompareResult(base=base, **{part.name: getattr(one, part.name) for part in fields(one)})
    return CompareResult(
        system=" ".join(one.system for one in found),
        verdict=max((one.verdict for one in found), key=RANK.__getitem__),
        changes=tuple(
            replace(change, what=f"{one.system}: {change.what}") for one in found for change in one.changes
        ),
        touched=any(one.touched for one in found),
        unnoticed=tuple(dict.fromkeys(step for one in found for step in one.unnoticed)),
        base=base,
        programs=tuple(found),
    )


def compare(before: AuditResult, after: AuditResult) -> list[Change]:
    """Every difference, the worse ones first."""
    found = [
        *_verdicts(before, after),
        *_stages(before, after),
        *_properties(before, after),
        *_coverage(before, after),
        *_findings(before, after),
        *_costs(before, after),
        *_search(before, after),
    ]
    return sorted(found, key=lambda change: (WORSE, BETTER, OTHER).index(change.judged))


def _verdicts(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    old, new = before.verdict, after.verdict
    if old != new:
        yield Change(WORSE if RANK[new] > RANK[old] else BETTER, "verdict", old, new)


def _stages(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    """Stages that hold now and did not before, or the reverse; a violation ends the search before others."""
    if before.violations or after.violations:
        return
    old, new = ({one.name: one for one in result.stages} for result in (before, after))
    for name, now in new.items():
        was = old.get(name)
        if was is None or "violated" in (was.verdict, now.verdict) or was.verdict == now.verdict:
            continue
        judged = BETTER if now.verdict == "holds" else WORSE
        yield Change(judged, f"the audit {now.bound}", was.verdict, now.verdict)


def _properties(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    old = {violation.property: violation.reason for violation in before.violations}
    new = {violation.property: violation.reason for violation in after.violations}
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            yield Change(WORSE, f"property {name!r}", "not broken", f"broken: {new[name]}")
        elif name not in new:
            yield Change(BETTER, f"property {name!r}", f"broken: {old[name]}", "not broken")
        else:
            yield Change(OTHER, f"property {name!r}", "broken", "still broken")


def _coverage(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    old, new = before.coverage, after.coverage
    if before.violations or after.violations:
        return  # a search that stopped at a violation met only what lay before it
    for met_before, met_now, word in (
        (old.outcomes, new.outcomes, "answer"),
        (old.faults, new.faults, "fault"),
    ):
        had, has = set(met_before), set(met_now)
        for name in sorted(had - has):
            yield Change(WORSE, f"{word} {name!r}", "met", "never met")
        for name in sorted(has - had):
            yield Change(BETTER, f"{word} {name!r}", "never met", "met")
    had_met, has_met = old.sometimes, new.sometimes
    for name in sorted(had_met.keys() & has_met.keys()):
        if had_met[name] != has_met[name]:
            met = ("never met", "met")
            yield Change(
                BETTER if has_met[name] else WORSE,
                f"sometimes {name!r}",
                met[had_met[name]],
                met[has_met[name]],
            )
    if before.model is not None and after.model is not None and before.model.share != after.model.share:
        was, now = before.model.share, after.model.share
        judged = WORSE if now < was else BETTER
        yield Change(judged, "the model's transitions", f"{was:.2%} driven", f"{now:.2%} driven")


NOISE = ("ran out of time", "interrupted: ", "is not decided, after ")
"""In findings about the search, not the program: they differ with the load of the machine."""


def _findings(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    old, new = (
        [one for one in result.findings if not any(noise in one for noise in NOISE)]
        for result in (before, after)
    )
    for finding in new:
        if finding not in old:
            yield Change(WORSE, "finding", "none", finding)
    for finding in old:
        if finding not in new:
            yield Change(BETTER, "finding", finding, "none")


def _costs(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    """The maximum of an operation over all schedules, and its declared bound."""
    if before.violations or after.violations:
        return  # the maximum before the violation is not the maximum
    old, new = before.cost, after.cost
    for verb in sorted(old.keys() | new.keys()):
        yield from _dearer(verb, old.get(verb), new.get(verb), _whole(before), _whole(after))
        if verb in old and verb in new:
            yield from _bounds(verb, old[verb], new[verb])


def _whole(result: AuditResult) -> bool:
    """Return True if every schedule was explored. If not, the real maximum may be higher."""
    return result.verdict == "holds" if result.complete is None else result.complete


def _dearer(verb: str, old: Row | None, new: Row | None, *whole: bool) -> Iterator[Change]:
    """An operation that is new or gone is listed, not judged."""
    had, has = _figures(verb, old or {}), _figures(verb, new or {})
    for name in sorted(had.keys() | has.keys()):
        if name not in had or name not in has:
            yield Change(OTHER, f"cost of {name}", _format(had.get(name)), _format(has.get(name)))
        elif had[name] != has[name]:
            more = any(now > was for was, now in zip(had[name], has[name], strict=True))
            known = whole[0] if more else whole[1]
            judged = (WORSE if more else BETTER) if known else OTHER
            yield Change(judged, f"at most, {name}", _format(had[name]), _format(has[name]))


def _figures(verb: str, row: Row) -> dict[str, tuple[float, ...]]:
    """Requests and hops for each number of faults where the result has them; else each number by its unit."""
    levels = row.get("faults", ())
    found: dict[str, tuple[float, ...]] = {
        f"{verb} {_faults(level)}": (level["requests"], level["hops"]) for level in levels
    }
    for unit, value in row.items():
        if unit in (("requests", "hops") if levels else ()) or unit.endswith("_max"):
            continue
        if isinstance(value, bool):
            found[f"{verb} {unit}"] = (0.0 if value else 1.0,)  # flat is better than not
        elif isinstance(value, int | float):
            found[f"{verb} {unit.replace('_', ' ')}"] = (float(value),)
    return found


def _bounds(verb: str, old: Row, new: Row) -> Iterator[Change]:
    """A bound that is raised or gone is worse, whatever is counted today."""
    had, has = _declared_bounds(verb, old), _declared_bounds(verb, new)
    for name in sorted(had.keys() | has.keys()):
        was, now = (bounds.get(name, (math.inf, math.inf)) for bounds in (had, has))
        if was != now:
            looser = any(after > before for before, after in zip(was, now, strict=True))
            yield Change(WORSE if looser else BETTER, f"bound of {name}", _format(was), _format(now))


def _declared_bounds(verb: str, row: Row) -> dict[str, tuple[float, float]]:
    """The bounds of all runs, and of those with so many faults where they are lower."""
    found = {verb: _bound(row)}
    for level in row.get("faults", ()):
        if _bound(level) != found[verb]:
            found[f"{verb} {_faults(level)}"] = _bound(level)
    return found


def _bound(row: Row) -> tuple[float, float]:
    return row.get("requests_max", math.inf), row.get("hops_max", math.inf)


def _faults(level: Row) -> str:
    count = level["faults"]
    return "without faults" if not count else f"with {count} fault{'' if count == 1 else 's'}"


def _format(figures: tuple[float, ...] | None) -> str:
    if figures is None:
        return "not counted"
    if len(figures) == 1:
        return _number(figures[0])
    words = [
        f"{_number(figure)} {word}{'' if figure == 1 else 's'}"
        for figure, word in zip(figures, ("request", "hop"), strict=True)
    ]
    return " in ".join(words)


def _number(figure: float) -> str:
    return "any" if figure == math.inf else f"{figure:,.10g}"


def _search(before: AuditResult, after: AuditResult) -> Iterator[Change]:
    old, new = before.schedules, after.schedules
    if old != new:
        yield Change(OTHER, "schedules", f"{old:,}", f"{new:,}")


def verdict_of(changes: list[Change], after: AuditResult) -> Verdict:
    """Violated when the change made something worse. A property that was violated before does not count."""
    if any(change.judged == WORSE for change in changes):
        return "violated"
    return "undecided" if after.verdict == "undecided" else "holds"
