"""The banner, and sections about the results as a whole: verdicts, what a change did, how they were made."""

from datetime import UTC, datetime
from typing import Any

from fencepost.reports.audit_text import comparison_notes
from fencepost.reports.folder import Entry, Findings
from fencepost.reports.page.elements import (
    SIGNS,
    Content,
    Markup,
    amount,
    anchor,
    article,
    join,
    table,
    tag,
    verdict,
)
from fencepost.reports.text import plural
from fencepost.results import (
    AuditResult,
    CheckResult,
    CompareResult,
    MutantsResult,
    ObjectiveResult,
    ProbeResult,
    Provenance,
    SimulateResult,
    StageResult,
    ZooResult,
)

ORDER = {"error": 0, "violated": 0, "unsafe": 0, "undecided": 1, "unsupported": 1}
NOT_FOUND = "the mutant was not found"
CHANGES = {"worse": "violated", "better": "holds", "other": "undecided"}


def banner(found: Findings) -> Markup:
    """Show the facts that a review starts with: verdict, commit, date, duration, effect of the change."""
    kind, sign = SIGNS[found.verdict]
    entries = [("commit", _commits(found)), ("date", _date(found)), ("duration", _duration(found))]
    entries += [("against", _changes(entry)) for entry in found.of(CompareResult)]
    return tag(
        "div",
        tag("p", tag("span", f"{sign} ", aria_hidden="true"), found.verdict, class_="word"),
        tag("p", summary(found)),
        tag("dl", [tag("div", tag("dt", name), tag("dd", text)) for name, text in entries if text]),
        class_=f"banner {kind}",
    )


def _commits(found: Findings) -> str:
    made = [entry.provenance for entry in found.results if entry.provenance]
    changed = " with uncommitted changes"
    names = {f"{m.commit[:12]}{changed if m.uncommitted_changes else ''}" for m in made if m.commit}
    return ", ".join(sorted(names))


def _date(found: Findings) -> str:
    """When the last result was written."""
    last = max((entry.written for entry in found.results), default=0.0)
    return f"{datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M} UTC" if last else ""


def _duration(found: Findings) -> str:
    seconds = [s for entry in found.results if (s := getattr(entry.data, "seconds", None)) is not None]
    if not seconds:
        return ""
    minutes, rest = divmod(sum(seconds), 60)
    return f"{minutes:.0f} min {rest:.0f} s" if minutes else f"{rest:.1f} s"


def _changes(entry: Entry) -> str:
    """`0123456789ab: 1 worse, 0 better`."""
    worse, better = (sum(c.judged == kind for c in entry.data.changes) for kind in ("worse", "better"))
    return f"{entry.data.base[:12]}: {worse} worse, {better} better"


def verdicts(found: Findings) -> Markup:
    """A line for each result, the worst on top; expected violations apart; and what could not be read."""
    ordered = sorted(found.results, key=lambda entry: ORDER.get(entry.verdict, 2))
    head = ("what", "verdict", "within", "seconds")
    groups = [
        ("Every result, the worst first", [entry for entry in ordered if not entry.expected]),
        ("Switched off on purpose, and found: expected", [entry for entry in ordered if entry.expected]),
    ]
    unread = [tag("li", tag("code", name), f": {why}") for name, why in found.unread.items()]
    return join(
        [
            table(caption, head, map(_verdict_row, entries), numbers="...n")
            for caption, entries in groups
            if entries
        ],
        tag("div", tag("h3", "Could not be read"), tag("ul", unread), class_="warning") if unread else None,
    )


def _verdict_row(entry: Entry) -> tuple[Content, ...]:
    seconds = getattr(entry.data, "seconds", None)
    return (
        tag("a", entry.title, href=f"#{_where(entry)}"),
        verdict("holds", "violated, as expected") if entry.expected else verdict(entry.verdict),
        within(entry),
        f"{seconds:.2f}" if seconds is not None else "",
    )


def _where(entry: Entry) -> str:
    """The first counterexample of a result, else the result."""
    rows: tuple[Any, ...] = ()
    if isinstance(entry.data, CheckResult):
        rows = tuple(row.verdict == "violated" for row in entry.data.properties)
    elif isinstance(entry.data, AuditResult):
        rows = tuple(True for _ in entry.data.violations)
    return f"{anchor(entry)}-{rows.index(True)}" if True in rows else anchor(entry)


def summary(found: Findings) -> str:
    """One sentence."""
    unexpected = [entry for entry in found.results if not entry.expected]
    bad, undecided, good = (sum(1 for r in unexpected if ORDER.get(r.verdict, 2) == n) for n in range(3))
    parts = [f"{plural(len(found.results), 'result')}: {good} hold{'s' if good == 1 else ''}"]
    parts += [f"{bad} violated"] if bad else []
    parts += [f"{undecided} not decided"] if undecided else []
    expected = len(found.results) - len(unexpected)
    parts += [f"{expected} violated as expected"] if expected else []
    return ", ".join(parts) + "."


def objectives(found: Findings) -> Markup | None:
    """Every objective of every simulation, the broken ones first, with the first value that breaks each."""
    rows = [
        (
            one.objective,
            tag("a", entry.title, href=f"#{anchor(entry)}"),
            verdict("violated" if one.broken_runs else "holds" if one.runs == planned else "undecided"),
            f"{one.broken_runs} of {plural(one.runs, 'run')}",
            _first_broken(one),
        )
        for entry in found.of(SimulateResult)
        for planned in [entry.data.planned or len(entry.data.runs)]
        for one in sorted(entry.data.objectives, key=lambda one: not one.broken_runs)
    ]
    head = ("objective", "of", "verdict", "broken in", "first broken at")
    return table("Objectives of the simulations", head, rows) if rows else None


def _first_broken(one: ObjectiveResult) -> str:
    if not one.broken_runs:
        return ""
    where = ", ".join(f"{name} = {value}" for name, value in (one.first_broken or {}).items())
    value = "no operation succeeded" if one.first_value is None else amount(one.first_value)
    return f"{where or 'the one run'}: {value}"


def within(entry: Entry) -> str:
    """The bound of a verdict; beyond it nothing is claimed."""
    match entry.data:
        case CheckResult() as check:
            sizes = ", ".join(f"{name}={value}" for name, value in check.parameters.items())
            stopped = f"; stopped by {check.stopped_by}" if check.stopped_by else ""
            return f"{amount(check.distinct)} states, depth {check.depth} ({sizes or 'no sizes'}){stopped}"
        case AuditResult(error=error) if error is not None:
            return f"{error.message} ({error.file}:{error.line})" if error.file else error.message
        case AuditResult() as audit:
            missed = f"{NOT_FOUND}: " if entry.missed else ""
            return f"{missed}{audit.bound} ({plural(audit.schedules, 'schedule')})"
        case ZooResult(rows=rows) | MutantsResult(rows=rows):
            return f"{len(rows)} rows, {sum(1 for row in rows if row.unexpected)} unexpected"
        case ProbeResult() as probe:
            return f"{len(probe.features)} features of {probe.url}"
        case SimulateResult() as simulation:
            parts = [plural(len(simulation.runs), "run")]
            parts += [plural(len(simulation.checks), "check")] if simulation.checks else []
            parts += [plural(len(simulation.objectives), "objective")] if simulation.objectives else []
            return ", ".join(parts)
        case CompareResult():
            return f"against {_changes(entry)}"
        case replay:
            return f"{amount(replay.events)} events of {plural(replay.runs, 'run')}, engine {replay.engine}"


def stages(entry: Entry) -> Markup:
    """Show the stages of an audit, each decided on its own; nothing where the search had one."""
    if not entry.data.stages:
        return Markup("")
    rows = [
        (
            one.name,
            verdict(one.verdict, _reached(one)),
            f"{one.schedules:,}",
            _explored(one.explored),
        )
        for one in entry.data.stages
    ]
    head = ("stage", "verdict", "schedules", "explored (estimate)")
    caption = f"{entry.title}, stage by stage; {entry.data.enough} must hold for a pass"
    return tag("div", table(caption, head, rows, numbers="..nn"))


def _reached(one: StageResult) -> str:
    """A stage without a run of its own holds where a larger one was explored."""
    if one.runs:
        return one.verdict
    more = {"holds": ", by a larger stage", "undecided": ", not begun"}
    return f"{one.verdict}{more.get(one.verdict, '')}"


def _explored(share: float) -> str:
    """A share that is not the whole is never rounded up to it."""
    return "100 %" if share >= 1 else f"{min(share, 0.999):.1%}".replace("%", " %")


def comparison(entry: Entry) -> Markup:
    """Show the differences between the audits of two revisions."""
    base = entry.data.base[:12]
    rows = [(c.what, verdict(CHANGES[c.judged], c.judged), c.before, c.after) for c in entry.data.changes]
    notes = comparison_notes(entry.data)
    return article(
        entry,
        table(f"Against {base}", ("what", "is", f"at {base}", "now"), rows)
        if rows
        else tag("p", verdict("holds", f"Nothing is different from {base}")),
        tag("ul", [tag("li", note) for note in notes]) if notes else None,
    )


def provenances(found: Findings) -> Markup:
    """The command that makes each result again, and the versions they share."""
    rows = []
    for entry in found.results:
        made = entry.provenance or Provenance("unknown")
        changed = " with uncommitted changes" if made.uncommitted_changes else ""
        commit = f"{made.commit[:12] or 'unknown'}{changed}"
        rows.append((entry.file, tag("code", made.command), commit, str(getattr(entry.data, "seed", ""))))
    versions = sorted({_versions(entry.provenance) for entry in found.results if entry.provenance})
    return join(
        table("Results and their commands", ("file", "command", "commit", "seed"), rows),
        [tag("p", line) for line in versions],
    )


def _versions(made: Provenance) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in made.libraries.items())
    ours, python, system = (text or "?" for text in (made.fencepost, made.python, made.system))
    return f"Fencepost {ours}, Python {python} on {system}; {libraries}."
