"""The text report of `fencepost replay`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from fencepost.reports.audit_text import model_lines
from fencepost.reports.text import amount, first, plural, verdict_line
from fencepost.results import ContinuityResult, LabelCoverage, PromiseVerdict, ReplayResult, RunVerdict

SHOWN = 20
"""Runs and problems of each kind with `-v`."""
BRIEF = 3
"""Without."""
REASONS = 5


def replay_text(
    result: ReplayResult, *, verbose: bool = False, gaps: bool = False, again: str = ""
) -> RenderableType:
    """The verdict, and the first runs that are not accepted; with `verbose` statistics.

    `again` is the command that runs a violation again.
    """
    shown = SHOWN if verbose else BRIEF
    lines = [
        *result.explained_runs.get("text", ()),
        *_continuity(result.continuity, shown),
        *_promises(result.promises, shown),
        *_runs("REJECTED", result.violations, result.rejected, shown),
        *_runs("UNDECIDED", result.undecided_runs, result.undecided, 1 if not verbose else shown),
        *(
            line.plain
            for line in first((f"NOT READ  {p}" for p in result.problems), verbose=False, shown=shown)
        ),
    ]
    if again:
        lines.append(f"to run it again and make it shorter: {again}")
    if result.damaged_lines:
        lines.append(f"DAMAGED  {plural(result.damaged_lines, 'line')} could not be read as events")
    if result.source == "traces" and result.model and result.events and not result.events_read:
        lines.append("NOT JUDGED  no event is one that the map of this model reads; is it the right model?")
    if result.left_out:
        lines.append(f"NOT JUDGED  {result.left_out:,} events belong to no run{_reasons(result.left_out_by)}")
    if result.not_judged:
        lines.append(f"NOT JUDGED  {'; '.join(result.not_judged)}")
    if result.judged_by:
        lines.append(f"judged by {result.judged_by}: {', '.join(result.properties)}")
    if result.properties_not_judged:
        lines.append(f"NOT JUDGED  by {result.judged_by}: {', '.join(result.properties_not_judged)}")
    lines += _coverage(result.coverage, verbose=verbose, gaps=gaps)
    lines += _clocks(result.clocks)
    lines += _statistics(result.statistics) if verbose else []
    if not verbose and not result.model and result.source == "traces":
        lines += _summary(result.statistics)
    return Group(verdict_line(result.verdict, _about(result)), *map(Text, lines))


def _reasons(counts: Mapping[str, int]) -> str:
    """The most frequent reasons why events belong to no run."""
    shown = [f"{count:,} {why}" for why, count in list(counts.items())[:REASONS]]
    more = len(counts) - len(shown)
    return ": " + "; ".join([*shown, *([f"and {more} more reasons"] if more > 0 else [])]) if shown else ""


def _about(result: ReplayResult) -> str:
    what = "requests" if result.source == "access-log" else "events"
    judged = (
        _judged_runs(result)
        if result.source == "traces"
        else f"{plural(result.rejected, 'broken promise')}, {result.undecided:,} undecided"
    )
    return (
        f"{judged}; {result.events:,} {what} in {result.seconds:.2f} s "
        f"({result.events_per_second:,}/s, {result.engine})"
    )


def _judged_runs(result: ReplayResult) -> str:
    """The verdicts on runs, and the objects that are not continuous."""
    found = result.continuity
    broken = f"{plural(found.violated, 'object')} not continuous" if found and found.violated else ""
    if not result.model:
        return f"{plural(result.runs, 'run')} without a model{', ' + broken if broken else ''}"
    return (
        f"{plural(result.runs, 'run')}: {result.accepted:,} accepted, {result.rejected:,} rejected, "
        f"{result.undecided:,} undecided{', ' + broken if broken else ''}"
    )


def _runs(kind: str, rows: Sequence[RunVerdict], count: int, shown: int) -> Iterator[str]:
    for row in rows[:shown]:
        place = f"event {row.seq}: " if row.seq >= 0 else ""
        yield f"{kind}  {row.rule or 'run ' + row.run}  {place}{row.event}"
        if row.file:
            yield f"  at {row.file}:{row.line}{', ' + row.time if row.time else ''}"
        yield f"  {row.reason}"
        yield from [f"  before: {row.state}"] if row.state else []
        yield from [f"  possible: {row.possible}"] if row.possible else []
    if count > shown:
        yield f"  and {count - min(shown, len(rows)):,} more that are {kind.lower()}"


def _continuity(found: ContinuityResult | None, shown: int) -> Iterator[str]:
    """The findings, and the share of the requests that was judged."""
    if found is None:
        return
    for one in found.findings[:shown]:
        yield f"CONTINUITY  {one.rule}  {one.key}  run {one.run}  event {one.seq}: {one.event}"
        if one.file:
            yield f"  at {one.file}:{one.line}{', ' + one.time if one.time else ''}"
        yield f"  {one.reason}"
        yield from [f"  event {one.other_seq}: {one.other}"] if one.other else []
    if found.violated > shown:
        yield f"  and {found.violated - min(shown, len(found.findings)):,} more objects"
    reasons = "".join(f"; {count:,} {reason}" for reason, count in found.unjudged.items())
    yield (
        f"continuity: judged {found.judged:,} of {plural(found.requests, 'request')} about "
        f"{plural(found.objects, 'object')}{reasons}"
    )
    if found.other_etags:
        etags = plural(found.other_etags, "ETag")
        yield f"  written outside the trace: {etags}; with --all-writers each is a violation"


def _promises(verdicts: Sequence[PromiseVerdict], shown: int) -> Iterator[str]:
    """The promises that are broken or open, and a line for each that holds."""
    for one in [one for one in verdicts if one.verdict != "holds"][:shown]:
        place = f"event {one.seq}: {one.event}" if one.seq >= 0 else "at the end"
        yield f"PROMISE  {one.promise} is {one.verdict}  run {one.run}  {place}"
        yield f"  {one.reason}"
    for name in dict.fromkeys(one.promise for one in verdicts):
        mine = [one.verdict for one in verdicts if one.promise == name]
        counts = ", ".join(f"{mine.count(one):,} {one}" for one in dict.fromkeys(sorted(mine)))
        yield f"promise {name}: {plural(len(mine), 'run')}: {counts}"


def _coverage(covered: LabelCoverage | None, *, verbose: bool, gaps: bool) -> Iterator[str]:
    if covered is None:
        return
    driven = covered.model
    share = (
        f"; {driven.driven:,} of {driven.transitions:,} transitions ({driven.share:.1%})" if driven else ""
    )
    yield f"coverage: {covered.taken:,} of {plural(covered.of, 'label')} of the model{share}"
    if covered.missing and verbose:
        yield "  never: " + ", ".join(covered.missing[:10]) + (" ..." if len(covered.missing) > 10 else "")
    if covered.model is not None and (verbose or gaps):
        yield from model_lines(covered.model, gaps=gaps)


def _clocks(clocks: Mapping[str, float]) -> Iterator[str]:
    """The order of events of several processes, and how well it is known."""
    if not clocks.get("runs"):
        return
    runs = plural(int(clocks["runs"]), "run")
    differ = clocks["difference_s"]
    differ_by = f"which differ by at least {differ:g} s (corrected by ETags)"
    known = differ_by if differ else "which no ETag contradicts"
    yield f"clocks: {runs} of several recorders; order within a process and by ETags, else by clocks, {known}"
    if clocks["uncertain_runs"]:
        yield f"  {plural(int(clocks['uncertain_runs']), 'run')} that no constant difference explains"


def _summary(counted: Mapping[str, Any]) -> Iterator[str]:
    """What the requests cost, and what became of them."""
    for kind, one in counted["operations"].items():
        outcomes = ", ".join(f"{name or 'no outcome'} {amount(n)}" for name, n in one["outcomes"].items())
        times = " ".join(f"{name} {one[name]:.3g}" for name in ("p50", "p99") if name in one)
        yield f"  {kind:<15} {outcomes}{f'  {times} ms' if times else ''}"
    hops = counted["serial_hops"]
    shown = f"{hops['p50']:,} at the median, {hops['max']:,} at most" if hops else "none"
    yield f"cost: {counted['dollars']:g} dollars at list prices; serial hops of a process: {shown}"
    yield (
        f"lost: {counted['lost_races']:,} races (a condition that somebody else had changed), "
        f"{counted['lost_replies']:,} replies; repeated by an SDK: {counted['retries']:,}"
    )
    for one in counted["conflicts"][:BRIEF]:
        yield f"  contended: {one['key']} ({one['refused']:,} of {one['answered']:,} answers refused)"


def _statistics(counted: Mapping[str, Any]) -> Iterator[str]:
    for kind, one in counted["operations"].items():
        outcomes = ", ".join(f"{name or 'no outcome'} {amount(n)}" for name, n in one["outcomes"].items())
        times = " ".join(f"{name} {one[name]:.3g}" for name in ("p50", "p90", "p99", "max") if name in one)
        yield f"{kind:16} {outcomes}  {f'{times} ms' if times else 'latency unknown'}"
    rates = ", ".join(f"{code} {share:.2%}" for code, share in counted["rates"].items())
    yield (
        f"rates {rates}; duplicates {amount(counted['duplicates'])}; "
        f"unanswered {amount(counted['unanswered'])}"
    )
    for one in counted["conflicts"][:1]:
        yield f"most contended: {one['key']} ({one['refused']:,} of {one['answered']:,} answers refused)"
    for one in counted["hot_prefixes"][:1]:
        yield f"hottest prefix: {one['prefix'] or '(none)'} ({one['requests']:,} requests)"
    for one in counted["stalls"][:1]:
        yield f"longest stall: {one['seconds']:g} s before event {one['seq']} of run {one['run']}"
