"""The same results as a comment, as tests, and as findings beside the code."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from fencepost.reports.code_hosts import annotations, junit, markdown, sarif
from fencepost.reports.folder import Entry, Findings, read_folder
from fencepost.results import AuditResult, CompareResult, ProbeResult, from_json
from tests.reports.samples import COMPARE, PROBE, REPLAY, SIMULATE, write, write_samples


def everything(folder: Path) -> Findings:
    write_samples(folder)
    write(folder, "probe.json", PROBE)
    write(folder, "replay.json", REPLAY)
    write(folder, "sim.json", SIMULATE)
    (folder / "cut.json").write_text("{")
    return read_folder(folder)


def test_a_comment_has_a_line_for_each_result_and_folds_the_counterexamples(tmp_path: Path) -> None:
    text = markdown(everything(tmp_path))
    assert (
        text.splitlines()[0]
        == "### Fencepost: ❌ error. 7 results: 2 hold, 3 violated, 2 violated as expected."
    )
    assert "| audit election without check-then-create | ✅ violated, as expected | a schedule of 3 " in text
    assert "audit election without check-then-create: at most one leads (expected)</summary>" in text
    assert "      5   ann          put leader unconditionally b'ann'" in text
    assert "**cut.json could not be read:**" in text
    assert text.count("```mermaid\nsequenceDiagram\n") == 1
    assert text.count("```mermaid\nflowchart TD\n") == 1


def test_nothing_of_a_result_becomes_markup_of_a_comment() -> None:
    evil = "a|b <img src=x> `code` @everyone [x](y)"
    output = markdown(Findings([Entry("x.json", from_json(ProbeResult, {**PROBE, "url": evil}))]))
    assert "a\\|b \\<img src=x\\> \\`code\\` @<!-- -->everyone \\[x\\](y)" in output


def test_junit_has_a_case_for_each_property(tmp_path: Path) -> None:
    """What is not decided is skipped: code hosts would count it as passed else."""
    root = ET.fromstring(junit(everything(tmp_path)).encode())
    suites = {suite.get("name"): suite for suite in root}
    election = suites["audit election without check-then-create"]
    assert (election.get("tests"), election.get("failures"), election.get("skipped")) == ("1", "0", "0")
    assert election.findtext("testcase/system-out") == "expected: ann and bob both lead"
    probe = suites["probe memory://"]
    assert (probe.get("tests"), probe.get("failures"), probe.get("skipped")) == ("3", "1", "1")
    assert suites["simulate cap"].get("failures") == "1"
    assert suites["cut.json"].get("errors") == "1"


def test_junit_survives_control_characters() -> None:
    """XML cannot hold them, in no form."""
    probe = {**PROBE, "features": [{"name": "a\x00b", "verdict": "unsafe", "detail": "\x1b[31m\ufffe"}]}
    root = ET.fromstring(junit(Findings([Entry("x.json", from_json(ProbeResult, probe))])).encode())
    assert [case.get("name") for case in root.iter("testcase")] == ["a\\x00b"]


def test_sarif_points_at_the_users_own_file() -> None:
    """At the line that raised when one did, and nowhere for a shipped system."""
    violation = {"property": "p", "reason": "r", "counterexample": ["1 a put"], "token": "t"}
    raised = {**violation, "raised_at": ["m.py:3 in f: g()", "h.py:7 in g: x"]}
    data = {"strategy": "exhaustive", "schedules": 1, "verdict": "violated", "bound": "", "seconds": 1.0}
    results = [
        Entry(f"{system}.json", from_json(AuditResult, {**data, "system": system, "violations": [one]}))
        for system, one in (("src/mine.py:claim", violation), ("election", violation), ("m.py:f", raised))
    ]
    found = json.loads(sarif(Findings(results)))["runs"][0]
    places = [row.get("locations", [{}])[0].get("physicalLocation") for row in found["results"]]
    assert [(p["artifactLocation"]["uri"], p["region"]["startLine"]) if p else None for p in places] == [
        ("src/mine.py", 1),
        None,
        ("h.py", 7),
    ]
    assert found["tool"]["driver"]["rules"] == [{"id": "p", "shortDescription": {"text": "p"}}]


def test_sarif_of_models(tmp_path: Path) -> None:
    """The steps of the counterexample are a code flow, which code hosts show one by one."""
    findings = everything(tmp_path)
    check = next(entry for entry in findings.results if entry.title.startswith("check two-phase"))
    unprovoked = Entry(check.file, replace(check.data, without=()))
    found = json.loads(sarif(Findings([unprovoked])))["runs"][0]
    (row,) = found["results"]
    assert row["ruleId"] == "agreement"
    (flow,) = row["codeFlows"]
    steps = flow["threadFlows"][0]["locations"]
    assert [step["executionOrder"] for step in steps] == [1, 2, 3, 4]
    assert "choose_to_abort(m=0)" in steps[-1]["location"]["message"]["text"]
    assert found["tool"]["driver"]["version"]


def test_junit_of_a_violation_that_nobody_provoked() -> None:
    root = ET.fromstring(junit(Findings([mine()])).encode())
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("50% off,\nx", "1 a put")


def mine(**more: Any) -> Entry:
    """An audit of the user's own file that found something."""
    violation = {"property": "one: leads", "reason": "50% off,\nx", "counterexample": ["1 a put"]}
    data = {"strategy": "exhaustive", "schedules": 1, "verdict": "violated", "bound": "b", "seconds": 1.0}
    return Entry(
        "a.json", from_json(AuditResult, {**data, "system": "m.py:f", "violations": [violation], **more})
    )


def test_annotations_are_commands_that_github_reads() -> None:
    """A comma or colon in a property, or a line break in a message, would end it."""
    found = Findings([mine(), mine(verdict="undecided", violations=[])], {"x.json": "cut"})
    assert annotations(found).splitlines() == [
        "::error file=m.py,line=1,title=audit m.py%3Af%3A one%3A leads::50%25 off,%0Ax%0A1 a put",
        "::warning title=audit m.py%3Af::not decided: b (1 schedule)",
        "::error file=x.json,title=Could not be read::cut",
    ]


def test_a_finding_points_at_the_line_that_defines_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("import x\n\n\ndef f(world):\n    pass\n")
    assert annotations(Findings([mine()])).startswith("::error file=m.py,line=4,")


STEP = {"number": 1, "process": "a", "kind": "put", "operation": "put k", "outcome": "done"}


def test_each_step_of_a_code_flow_has_its_own_line_and_an_error_its_own() -> None:
    steps = [{**STEP, "file": "m.py", "line": 3}, {**STEP, "number": 2, "file": "n.py", "line": 9}]
    trace = ["1 a put", "2 a put", "=> p"]
    violation = {"property": "p", "reason": "r", "counterexample": trace, "steps": steps}
    (row,) = json.loads(sarif(Findings([mine(violations=[violation])])))["runs"][0]["results"]
    flow = row["codeFlows"][0]["threadFlows"][0]["locations"]
    places = [step["location"]["physicalLocation"] for step in flow]
    lines = [(one["artifactLocation"]["uri"], one["region"]["startLine"]) for one in places]
    assert lines == [("m.py", 3), ("n.py", 9), ("n.py", 9)]
    error = {"message": "it never ends", "file": "m.py", "line": 4}
    broken = Findings([mine(verdict="error", violations=[], error=error)])
    assert broken.verdict == "error"
    message = "::error file=m.py,line=4,title=audit m.py%3Af::error: it never ends"
    assert annotations(broken).startswith(message)
    assert ET.fromstring(junit(broken).encode()).find("testsuite/testcase/error") is not None


def test_a_comment_lists_what_a_change_made_worse() -> None:
    """With the programs that were not compared, and the steps that no property misses; nothing else."""
    hostile = {"judged": "worse", "what": "property 'a | b <i> @octocat'", "before": "1", "after": "# 2"}
    data = {**COMPARE, "changes": [*COMPARE["changes"], hostile]}
    lines = markdown(Findings([Entry("x.json", from_json(CompareResult, data))])).splitlines()
    at = lines.index("**Worse than at 0123456789ab**")
    assert lines[at:] == [
        "**Worse than at 0123456789ab**",
        "",
        "| what | at 0123456789ab | now |",
        "|---|---|---|",
        "| at most, append requests | 7 | 8 |",
        "| property 'a \\| b \\<i\\> @<!-- -->octocat' | 1 | \\# 2 |",
        "",
        "- tests/more.py:second: not compared, the budget ran out before it",
        "- no property notices when line 5 of app/lead.py is left out (guard): if found.done:",
        "- steps on changed lines were not left out: the budget ran out before it",
    ]
