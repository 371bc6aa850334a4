"""Sections about the results as a whole: the verdicts, what a change did, and how the results were made."""

from fencepost.reports.folder import Entry, Findings
from fencepost.reports.page.elements import Markup, amount, anchor, article, join, table, tag, verdict
from fencepost.results import (
    AuditResult,
    CheckResult,
    CompareResult,
    MutantsResult,
    ProbeResult,
    Provenance,
    SimulateResult,
    ZooResult,
)

ORDER = {"error": 0, "violated": 0, "unsafe": 0, "undecided": 1, "unsupported": 1}
CHANGES = {"worse": "violated", "better": "holds", "other": "undecided"}


def verdicts(found: Findings) -> Markup:
    """A line for each result, the worst on top, and what could not be read."""
    results = sorted(found.results, key=lambda entry: ORDER.get(entry.verdict, 2))
    rows = [
        (
            tag("a", entry.title, href=f"#{anchor(entry)}"),
            verdict(entry.verdict),
            within(entry),
            f"{seconds:.2f}" if (seconds := getattr(entry.data, "seconds", None)) is not None else "",
        )
        for entry in results
    ]
    unread = [tag("li", tag("code", name), f": {why}") for name, why in found.unread.items()]
    head = ("what", "verdict", "within", "seconds")
    return join(
        tag("p", summary(found), class_="lead"),
        table("Every result, the worst first", head, rows, numbers="...n"),
        tag("div", tag("h3", "Could not be read"), tag("ul", unread), class_="warning") if unread else None,
    )


def summary(found: Findings) -> str:
    """One sentence."""
    bad, undecided, good = (sum(1 for r in found.results if ORDER.get(r.verdict, 2) == n) for n in range(3))
    parts = [f"{len(found.results)} results: {good} hold"]
    parts += [f"{bad} violated"] if bad else []
    parts += [f"{undecided} not decided"] if undecided else []
    return ", ".join(parts) + "."


def within(entry: Entry) -> str:
    """The bound of a verdict; beyond it nothing is claimed."""
    match entry.data:
        case CheckResult() as check:
            sizes = ", ".join(f"{name}={value}" for name, value in check.parameters.items())
            stopped = f"; stopped by {check.stopped_by}" if check.stopped_by else ""
            return f"{amount(check.distinct)} states, depth {check.depth} ({sizes or 'no sizes'}){stopped}"
        case AuditResult() as audit:
            return f"{audit.bound} ({amount(audit.schedules)} schedules)"
        case ZooResult(rows=rows) | MutantsResult(rows=rows):
            return f"{len(rows)} rows, {sum(1 for row in rows if row.unexpected)} unexpected"
        case ProbeResult() as probe:
            return f"{len(probe.features)} features of {probe.url}"
        case SimulateResult() as simulation:
            return f"{len(simulation.runs)} runs, {len(simulation.checks)} checks"
        case CompareResult() as change:
            worse, better = (
                sum(1 for c in change.changes if c.judged == kind) for kind in ("worse", "better")
            )
            return f"against {change.base[:12]}: {worse} worse, {better} better"
        case replay:
            of = "1 run" if replay.runs == 1 else f"{amount(replay.runs)} runs"
            return f"{amount(replay.events)} events of {of}, engine {replay.engine}"


def comparison(entry: Entry) -> Markup:
    """What a change made better or worse: the audit at two revisions."""
    base = entry.data.base[:12]
    rows = [(c.what, verdict(CHANGES[c.judged], c.judged), c.before, c.after) for c in entry.data.changes]
    if not rows:
        return article(entry, tag("p", verdict("holds", f"Nothing is different from {base}")))
    return article(entry, table(f"Against {base}", ("what", "is", f"at {base}", "now"), rows))


def provenances(found: Findings) -> Markup:
    """The command that makes each result again, and the versions they share."""
    rows = []
    for entry in found.results:
        made = entry.data.provenance or Provenance("unknown")
        changed = " with uncommitted changes" if made.uncommitted_changes else ""
        commit = f"{made.commit[:12] or 'unknown'}{changed}"
        rows.append((entry.file, tag("code", made.command), commit, str(getattr(entry.data, "seed", ""))))
    versions = sorted({_versions(entry.data.provenance) for entry in found.results if entry.data.provenance})
    return join(
        table("Results and their commands", ("file", "command", "commit", "seed"), rows),
        [tag("p", line) for line in versions],
    )


def _versions(made: Provenance) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in made.libraries.items())
    ours, python, system = (text or "?" for text in (made.fencepost, made.python, made.system))
    return f"Fencepost {ours}, Python {python} on {system}; {libraries}."
