"""No text of a result acts on the medium that shows it: terminal, Markdown, HTML, JUnit, SARIF, GitHub.

Every text of every kind of result is replaced by a hostile one, and every writer writes the result.
"""

import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import cmarkgfm
import jsonschema
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

from fencepost.commands.terminal import PipeConsole
from fencepost.reports.audit_text import audit_text, compare_text, failure_text, mutants_text
from fencepost.reports.check_text import check_text, zoo_text
from fencepost.reports.code_hosts import annotations, junit, markdown, sarif
from fencepost.reports.folder import Findings, read_folder
from fencepost.reports.media import continued, for_markdown, for_markdown_summary, markdown_code, one_line
from fencepost.reports.page.page import page as html_page
from fencepost.reports.probe_text import probe_text
from fencepost.reports.replay_text import replay_text
from fencepost.reports.simulate_text import simulate_text
from fencepost.results import (
    AuditResult,
    CheckResult,
    CompareResult,
    MutantsResult,
    ProbeResult,
    ReplayResult,
    SimulateResult,
    ZooResult,
)
from tests.hostile import TEXTS
from tests.reports import sarif_schema
from tests.reports.samples import write_everything

WORDS_OF_THE_TOOL = frozenset({"verdict", "kind", "judged", "strategy", "engine", "source", "time", "base"})
"""Fields with a fixed set of values."""
RENDERERS: dict[type, Any] = {
    AuditResult: lambda data: audit_text(data, "again", verbose=True, gaps=True),
    CheckResult: lambda data: check_text(data, verbose=True),
    CompareResult: lambda data: compare_text(data, "main", []),
    MutantsResult: lambda data: mutants_text(data, verbose=True),
    ProbeResult: lambda data: probe_text(data, verbose=True),
    ReplayResult: lambda data: replay_text(data, gaps=True),
    SimulateResult: lambda data: simulate_text(data, verbose=True),
    ZooResult: lambda data: zoo_text(data, verbose=True),
}
hostile = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS, scope="module")


def poisoned(value: Any, text: str, field: str = "") -> Any:
    """The JSON value, with the text after each of its texts."""
    if isinstance(value, dict):
        return {name: poisoned(part, text, name) for name, part in value.items()}
    if isinstance(value, list):
        return [poisoned(part, text, field) for part in value]
    return f"{value}{text}" if isinstance(value, str) and field not in WORDS_OF_THE_TOOL else value


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("samples")
    write_everything(folder)
    return {str(file.relative_to(folder)): json.loads(file.read_text()) for file in folder.rglob("*.json")}


@pytest.fixture(scope="module")
def found(samples: dict[str, Any], text: str, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Every kind of result with the text in it, and a file that is none."""
    folder = tmp_path_factory.mktemp("found")
    for name, data in samples.items():
        file = folder / name.replace("/", "-")
        file.write_text(json.dumps({**poisoned(data, text), "provenance": None}))
    (folder / "cut.json").write_text("{" + text.encode("utf-8", "replace").decode())
    read = read_folder(folder)
    assert {type(entry.data) for entry in read.results} == set(RENDERERS)
    return read


def acts(text: str) -> list[str]:
    """The characters that a terminal obeys."""
    return [c for c in text if not c.isprintable() and c not in "\n\t"]


class Page(HTMLParser):
    """The elements of a page, and its texts outside code."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.lines: list[str] = []
        self._code = 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self._code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.texts.append(data)
        self.lines.append(data)


def rendered(text: str) -> Page:
    """Markdown as GitHub renders it, with HTML as it is written."""
    return Page(cmarkgfm.github_flavored_markdown_to_html(text, options=Options.CMARK_OPT_UNSAFE))


NOTIFIES = re.compile(r"@\w|#[^\W_]")


@hostile
def test_terminal(found: Findings, text: str) -> None:
    for entry in found.results:
        output = io.StringIO()
        PipeConsole(file=output, width=160, soft_wrap=True).print(RENDERERS[type(entry.data)](entry.data))
        assert not acts(output.getvalue())


@hostile
def test_no_text_is_a_line_of_a_counterexample_of_its_own(found: Findings, text: str) -> None:
    """A forged line would begin where the lines of the report begin."""
    for entry in found.of(AuditResult):
        if entry.data.violations:
            report = failure_text(entry.data, "why", "again")
            assert not acts(report)
            steps = [line for one in entry.data.violations[:1] for line in one.counterexample]
            assert [line for line in report.split("\n") if line.startswith("  ")][: len(steps)] == [
                f"  {one_line(line)}".rstrip() for line in steps
            ]
            verdicts = [line for line in report.split("\n") if line.startswith(entry.data.verdict)]
            assert len(verdicts) == 1


@hostile
def test_markdown(found: Findings, text: str) -> None:
    page = rendered(markdown(found))
    assert page.elements <= {
        "h3",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "strong",
        "details",
        "summary",
        "pre",
        "code",
        "ul",
        "li",
    }, "nothing but the elements of the writer"
    assert page.attributes <= {"lang", "class"}
    assert not [line for line in page.texts if NOTIFIES.search(line)]
    assert not acts("".join(page.lines))


@hostile
def test_junit(found: Findings, text: str) -> None:
    root = ET.fromstring(junit(found).encode())
    kinds = {element.tag for element in root.iter()}
    assert kinds <= {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out"}
    assert len(root) == len(found.results) + len(found.unread)


URI = re.compile(r"(?:[A-Za-z0-9._~/!$&'()*+,;=@-]|%[0-9A-F]{2})*")
BRACKET = re.compile(r"(?<!\\)(?:\\\\)*[\[\]]")


@hostile
def test_sarif(found: Findings, text: str) -> None:
    document = sarif(found)
    document.encode()
    parsed = json.loads(document)
    jsonschema.validate(parsed, sarif_schema.LOG, jsonschema.Draft7Validator)
    rules = [rule["id"] for rule in parsed["runs"][0]["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    assert {row["ruleId"] for row in parsed["runs"][0]["results"]} == {*rules}
    for name, value in leaves(parsed["runs"]):
        if name == "uri":
            assert URI.fullmatch(value)
        if name == "text":
            assert not BRACKET.search(value)
        assert not acts(value)


def leaves(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, field)
    elif isinstance(value, str):
        yield field, value


COMMAND = re.compile(r"::(error|warning) (?:(?:file|line|title)=[^,:\n]*,?)+::[^\n]*")


@hostile
def test_annotations(found: Findings, text: str) -> None:
    lines = annotations(found).split("\n")
    assert lines.pop() == ""
    clean = annotations(Findings(found.results, found.unread)).count("\n")
    assert len(lines) == clean
    for line in lines:
        assert COMMAND.fullmatch(line), line
        assert not acts(line)


@hostile
def test_html(found: Findings, text: str) -> None:
    page = Page(html_page(found, title=f"title{text}"))
    clean = Page(html_page(Findings([]), title=""))
    assert not acts("".join(page.lines))
    assert not {"img", "iframe", "object"} & page.elements
    assert not [name for name in page.attributes | clean.attributes if name.startswith("on")]


@hostile
def test_a_command_in_a_result(samples: dict[str, Any], text: str, tmp_path: Path) -> None:
    """The page shows how to repeat a result; a command that no shell can read is refused with its file."""
    data = samples["deep/audit.json"]
    made = {**data["provenance"], "command": data["provenance"]["command"] + text}
    (tmp_path / "a.json").write_text(json.dumps({**data, "provenance": made}))
    found = read_folder(tmp_path)
    assert len(found.results) + len(found.unread) == 1
    for write in (markdown, junit, sarif, annotations):
        write(found).encode()
    assert not acts("".join(Page(html_page(found, title="")).lines))


@hostile
def test_markdown_anywhere_in_a_paragraph(text: str) -> None:
    assert_plain(text)


SPECIAL = st.text(st.sampled_from("\\`*_{}[]()<>|~!^$&:/.@#+-=\"' \n\twa1x\x1b\u202e\udc80"), max_size=24)


@given(SPECIAL)
def test_markdown_of_any_text(text: str) -> None:
    assert_plain(text)


def assert_plain(text: str) -> None:
    """The text is shown as it is, and is no markup, in a paragraph, a cell, an element and a code block."""
    shown = " ".join(one_line_breaks(text).split())
    for frame, elements in (
        ("{}\n", {"p"}),
        ("| a |\n|---|\n| {} |\n", {"table", "thead", "tbody", "tr", "th", "td"}),
    ):
        page = rendered(frame.format(for_markdown(text)))
        assert page.elements <= elements
        assert shown in "".join(page.lines)
        assert not [part for part in page.texts if NOTIFIES.search(part)]
    page = rendered(f"<details><summary>{for_markdown_summary(text)}</summary>\n\nnext\n\n</details>\n")
    assert page.elements == {"details", "summary", "p"}
    assert shown in "".join(page.lines)
    page = rendered("\n".join(["before", "", *markdown_code(["x", text, "y"]), "", "after"]))
    assert page.elements == {"p", "pre", "code"}


def one_line_breaks(text: str) -> str:
    """The text as `printable` writes it, by a rule of its own."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


@hostile
def test_one_line_has_no_second_line(text: str) -> None:
    assert not acts(one_line(text))
    assert "\n" not in one_line(text)
    assert all(line.startswith("    ") for line in continued(text).split("\n")[1:])
