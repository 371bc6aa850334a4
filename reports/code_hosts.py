"""Results in the forms of code hosts: a Markdown comment, JUnit XML, SARIF 2.1.0, annotations of GitHub.

In Markdown, a table of verdicts and a folded counterexample for each violation, with its sequence diagram in
Mermaid. In JUnit, a suite a result and a case a property; what is undecided is
`skipped`, which is not passed. In SARIF and in annotations, what is violated: a result points at the file of
the program when the program is the user's own (`file.py:function`), and at the line that raised when one
did. A violation in a shipped system points nowhere: there is no line to blame. The steps of a counterexample
are the code flow of its SARIF result. A violation that was provoked (a mutant, `--without`) is no finding in
any of these.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from fencepost.reports.audit_text import comparison_notes
from fencepost.reports.check_text import trace_lines
from fencepost.reports.folder import Entry, Findings
from fencepost.reports.media import (
    for_github,
    for_github_property,
    for_markdown,
    for_markdown_summary,
    for_sarif,
    markdown_code,
    printable,
)
from fencepost.reports.page.mermaid import mermaid, mermaid_states
from fencepost.reports.page.verdicts import NOT_FOUND, summary, within
from fencepost.reports.places import Changed, place
from fencepost.results import (
    AuditResult,
    CheckResult,
    CompareResult,
    MutantsResult,
    ProbeResult,
    SimulateResult,
    TraceStep,
    Violation,
    ZooResult,
)

BAD = ("violated", "unsafe")
OPEN = ("undecided", "unsupported")
SIGNS = {"error": "❌", "holds": "✅", "safe": "✅", "violated": "❌", "unsafe": "❌"}
LINES_MAX = 60
"""Of one counterexample: a comment has a limit, and a reader too."""
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class Case:
    """One thing that a result decided."""

    name: str
    verdict: str
    message: str = ""
    trace: list[str] = field(default_factory=list)
    violation: Violation | None = None
    """The violation of an audit."""
    steps: Sequence[TraceStep] = ()
    """The counterexample of a model."""

    @property
    def mermaid(self) -> str:
        if self.violation is not None and self.violation.events:
            return mermaid(self.violation.events)
        return mermaid_states(self.steps) if self.steps else ""


def cases(entry: Entry) -> Iterator[Case]:
    """Yield the decisions of one result, one case each."""
    match entry.data:
        case CheckResult(properties=properties):
            for row in properties:
                lines = [*trace_lines(row.trace)]
                yield Case(row.name, row.verdict, row.reason or row.doc, lines, steps=row.trace)
        case AuditResult(violations=violations) as audit:
            for one in violations:
                yield Case(one.property, "violated", one.reason, list(one.counterexample), one)
            for mutant in entry.missed:
                yield Case(mutant, entry.verdict, f"{NOT_FOUND}: {audit.bound}")
            if not violations and not entry.missed:
                yield Case("every schedule", audit.verdict, audit.bound)
        case CompareResult(changes=changes):
            for change in changes:
                verdict = "violated" if change.judged == "worse" else "holds"
                yield Case(change.what, verdict, f"{change.before} -> {change.after}")
            if not changes:
                yield Case("nothing is different", entry.verdict)
        case ZooResult(rows=rows) | MutantsResult(rows=rows):
            for tried in rows:
                name = tried.model if isinstance(entry.data, ZooResult) else entry.data.system
                judged = tried.verdict if tried.verdict in OPEN else "holds"
                verdict = "violated" if tried.unexpected else judged
                yield Case(f"{name} {tried.safeguard or 'as it is'}", verdict, tried.property)
        case ProbeResult(features=features):
            for feature in features:
                yield Case(feature.name, feature.verdict, feature.detail)
        case SimulateResult(checks=checks):
            for check in checks:
                yield Case(check.name, "holds" if check.ok else "violated", f"error {check.error:+.1%}")
            if not checks:
                yield Case("objectives", entry.verdict)
        case replay:
            yield Case("every run", entry.verdict, f"{replay.rejected} of {replay.runs} rejected")


def counterexamples(entry: Entry) -> Iterator[Case]:
    """The violated properties of a model or of a program."""
    if isinstance(entry.data, CheckResult | AuditResult):
        yield from (case for case in cases(entry) if case.verdict == "violated")


def findings(found: Findings) -> list[tuple[Entry, Case]]:
    """Return the violations that need attention: all that were not provoked on purpose."""
    return [(entry, case) for entry in found.results if not entry.expected for case in counterexamples(entry)]


def markdown(found: Findings) -> str:
    """The text of a comment."""
    lines = [
        f"### Fencepost: {SIGNS.get(found.verdict, '❔')} {found.verdict}. {summary(found)}",
        "",
        "| what | verdict | within |",
        "|---|---|---|",
    ]
    for entry in found.results:
        shown = (
            "✅ violated, as expected"
            if entry.expected
            else f"{SIGNS.get(entry.verdict, '❔')} {entry.verdict}"
        )
        lines.append(f"| {for_markdown(entry.title)} | {shown} | {for_markdown(within(entry))} |")
    lines += [
        f"\n**{for_markdown(name)} could not be read:** {for_markdown(why)}"
        for name, why in found.unread.items()
    ]
    for entry in found.of(CompareResult):
        lines += _worse(entry.data)
    for entry in [part for whole in found.results for part in (whole, *_audits_now(whole))]:
        for case in counterexamples(entry):
            trace = case.trace if len(case.trace) <= LINES_MAX else [*case.trace[:LINES_MAX], "..."]
            expected = " (expected)" if entry.expected else ""
            name = for_markdown_summary(f"{entry.title}: {case.name}")
            lines += ["", f"<details><summary>{name}{expected}</summary>", ""]
            lines += markdown_code(trace)
            lines += ["", "```mermaid", case.mermaid, "```"] if case.mermaid else []
            lines += ["", "</details>"]
    return "\n".join(lines) + "\n"


def _worse(result: CompareResult) -> Iterator[str]:
    """What a change made worse, as a table, and what else a reviewer has to know of it, as a list."""
    base = result.base[:12]
    rows = [change for change in result.changes if change.judged == "worse"]
    if rows:
        yield from ("", f"**Worse than at {for_markdown(base)}**", "")
        yield from (f"| what | at {for_markdown(base)} | now |", "|---|---|---|")
        for change in rows:
            yield f"| {' | '.join(map(for_markdown, (change.what, change.before, change.after)))} |"
    notes = comparison_notes(result)
    if notes:
        yield ""
        yield from (f"- {for_markdown(note)}" for note in notes)


def _audits_now(entry: Entry) -> Iterator[Entry]:
    """The audits of the files as they are now, in a comparison of two revisions."""
    if isinstance(entry.data, CompareResult):
        for part in entry.data.programs or (entry.data,):
            if part.after is not None:
                yield Entry(entry.file, part.after.result, entry.written, part.after.provenance)


def junit(found: Findings) -> str:
    """The XML text."""
    root = ET.Element("testsuites", name="fencepost")
    for entry in found.results:
        suite = ET.SubElement(root, "testsuite", name=printable(entry.title))
        every = list(cases(entry))
        for case in every:
            _add(suite, entry, case)
        suite.set("failures", str(sum(case.verdict in BAD and not entry.expected for case in every)))
        suite.set("errors", str(sum(case.verdict == "error" for case in every)))
        suite.set("skipped", str(sum(case.verdict in OPEN for case in every)))
        suite.set("tests", str(len(every)))
        seconds = getattr(entry.data, "seconds", None)
        if seconds is not None:
            suite.set("time", f"{seconds:.3f}")
    for name, why in found.unread.items():
        file = printable(name)
        suite = ET.SubElement(root, "testsuite", name=file, tests="1", errors="1")
        error = ET.SubElement(ET.SubElement(suite, "testcase", name="can be read", classname=file), "error")
        error.set("message", printable(why))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(suite: ET.Element, entry: Entry, case: Case) -> None:
    element = ET.SubElement(suite, "testcase", name=printable(case.name), classname=printable(entry.title))
    message = printable(case.message or case.verdict)
    if case.verdict in BAD and entry.expected:
        ET.SubElement(element, "system-out").text = printable(f"expected: {case.message}")
    elif case.verdict in BAD:
        ET.SubElement(element, "failure", message=message).text = printable("\n".join(case.trace))
    elif case.verdict == "error":
        ET.SubElement(element, "error", message=message)
    elif case.verdict in OPEN:
        ET.SubElement(element, "skipped", message=message)


def sarif(found: Findings) -> str:
    """The JSON text."""
    versions = [entry.provenance.fencepost for entry in found.results if entry.provenance]
    results = [_finding(entry, case, found.changed) for entry, case in findings(found)]
    rules = sorted({row["ruleId"] for row in results})
    driver = {
        "name": "fencepost",
        "version": next(filter(None, versions), "0"),
        "rules": [{"id": rule, "shortDescription": {"text": for_sarif(rule)}} for rule in rules],
    }
    runs = [{"tool": {"driver": driver}, "results": results}]
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": runs}, indent=2) + "\n"


def _finding(entry: Entry, case: Case, changed: Changed) -> dict[str, Any]:
    text = f"{entry.title}: {case.message}"
    if case.violation:
        text = "\n".join([text, *case.trace])
    elif case.trace:
        text = f"{text} Violated in {len(case.trace) - 1} steps."
    row: dict[str, Any] = {
        "ruleId": printable(case.name),
        "level": "error",
        "message": {"text": for_sarif(text)},
    }
    where = place(entry.data, [case.violation] if case.violation else [], changed)
    location: dict[str, Any] = {}
    if where is not None:
        location = _location(*where)
        row["locations"] = [location]
    steps = [
        {"executionOrder": number, "location": {**at, "message": {"text": for_sarif(" ".join(step.split()))}}}
        for number, (step, at) in enumerate(zip(case.trace, _lines_of(case, location), strict=True), start=1)
    ]
    if steps:
        row["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return row


def _lines_of(case: Case, otherwise: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The location of each step of a counterexample: its own line where that is known."""
    steps = {step.number: step for step in (case.violation.steps if case.violation else ())}
    for text in case.trace:
        first = text.split(maxsplit=1)[:1]
        step = steps.get(int(first[0])) if first and first[0].isdecimal() else None
        yield _location(step.file, step.line) if step and step.file and step.line else otherwise


def _location(file: str, line: int) -> dict[str, Any]:
    uri = quote(file.replace("\\", "/"), errors="surrogatepass")
    where = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    return {"physicalLocation": where}


def annotations(found: Findings) -> str:
    """Workflow commands of GitHub, a line each: a violation is an error, an open verdict a warning."""
    lines = []
    for entry, case in findings(found):
        where = place(entry.data, [case.violation] if case.violation else [], found.changed)
        message = "\n".join([case.message or "violated", *case.trace])
        lines.append(_command("error", where, f"{entry.title}: {case.name}", message))
    for entry in found.results:
        if entry.verdict in OPEN:
            lines.append(_command("warning", None, entry.title, f"not decided: {within(entry)}"))
        elif entry.verdict in (*BAD, "error") and not entry.expected and not [*counterexamples(entry)]:
            where = place(entry.data) if entry.verdict == "error" else None
            lines.append(_command("error", where, entry.title, f"{entry.verdict}: {within(entry)}"))
    for name, why in found.unread.items():
        lines.append(f"::error file={for_github_property(name)},title=Could not be read::{for_github(why)}")
    return "".join(f"{line}\n" for line in lines)


def _command(kind: str, where: tuple[str, int] | None, title: str, message: str) -> str:
    at = f"file={for_github_property(where[0])},line={where[1]}," if where else ""
    return f"::{kind} {at}title={for_github_property(title)}::{for_github(message)}"
