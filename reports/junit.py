"""The results as JUnit XML: a suite a result, a case a property, which code hosts show as tests."""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from fencepost.reports.page.found import Findings, Result
from fencepost.reports.quantities import printable


@dataclass(frozen=True)
class Case:
    """One thing that was to be shown."""

    name: str
    verdict: str
    said: str = ""
    counterexample: str = ""


def cases(result: Result) -> Iterator[Case]:
    """What one result decided, piece by piece."""
    data = result.data
    if result.command == "check":
        for prop in data["properties"]:
            steps = "\n".join(
                f"{step['step']} {step['action']} {step.get('parameters', {})}" for step in prop["trace"]
            )
            yield Case(prop["name"], prop["verdict"], prop.get("reason", "") or prop.get("doc", ""), steps)
    elif result.command == "audit":
        for violation in data["violations"]:
            yield Case(
                violation["property"],
                "violated",
                violation.get("reason", ""),
                "\n".join(violation["counterexample"]),
            )
        if not data["violations"]:
            yield Case("every schedule", data["verdict"], data.get("bound", ""))
    elif result.command == "compare":
        for change in data["changes"]:
            verdict = "violated" if change["judged"] == "worse" else "holds"
            yield Case(change["what"], verdict, f"{change['before']} -> {change['after']}")
        if not data["changes"]:
            yield Case("nothing is different", result.verdict)
    elif result.command in ("zoo", "mutants"):
        for row in data["rows"]:
            verdict = (
                "violated" if row.get("wrong") else "undecided" if row["verdict"] == "undecided" else "holds"
            )
            name = data["system"] if result.command == "mutants" else row["model"]
            yield Case(f"{name} {row['safeguard'] or 'as it is'}", verdict, row.get("property", ""))
    elif result.command == "probe":
        for feature in data["features"]:
            yield Case(feature["name"], feature["verdict"], feature.get("detail", ""))
    elif result.command == "simulate":
        for check in data.get("checks", ()):
            yield Case(check["name"], "holds" if check["ok"] else "violated", f"error {check['error']:+.1%}")
        if not data.get("checks"):
            yield Case("objectives", result.verdict)
    else:
        yield Case("every run", result.verdict, f"{data['rejected']} of {data.get('runs', '?')} rejected")


def junit(found: Findings) -> str:
    """The XML text. What is not decided is skipped, which is not passed."""
    root = ET.Element("testsuites", name="fencepost")
    for result in found.results:
        suite = ET.SubElement(root, "testsuite", name=result.title)
        seconds = result.data.get("seconds")
        counts = {"failures": 0, "skipped": 0, "tests": 0}
        for case in cases(result):
            _add(suite, result, case, counts)
        for name, count in counts.items():
            suite.set(name, str(count))
        if isinstance(seconds, int | float):
            suite.set("time", f"{seconds:.3f}")
    for name, why in found.unread.items():
        suite = ET.SubElement(root, "testsuite", name=name, tests="1", errors="1")
        error = ET.SubElement(ET.SubElement(suite, "testcase", name="can be read", classname=name), "error")
        error.set("message", printable(why))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(suite: ET.Element, result: Result, case: Case, counts: dict[str, int]) -> None:
    element = ET.SubElement(suite, "testcase", name=printable(case.name), classname=printable(result.title))
    counts["tests"] += 1
    if case.verdict in ("violated", "unsafe"):
        failure = ET.SubElement(element, "failure", message=printable(case.said or case.verdict))
        failure.text = printable(case.counterexample)
        counts["failures"] += 1
    elif case.verdict in ("undecided", "unsupported"):
        ET.SubElement(element, "skipped", message=printable(case.said or case.verdict))
        counts["skipped"] += 1
