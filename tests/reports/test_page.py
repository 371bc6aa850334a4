"""The page: everything the results say and nothing else, in one small file that fetches nothing."""

import json
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.commands.exit_codes import VERDICT_EXITS, Exit
from fencepost.reports.folder import Entry, Findings, read_folder
from fencepost.reports.page.elements import VOID
from fencepost.reports.page.page import BYTES_MAX, page
from fencepost.reports.page.protocols import states_of
from fencepost.reports.page.sequence import styles
from fencepost.results import TraceStep
from tests.commands.running import exit_of
from tests.reports.samples import (
    AUDIT,
    COMPARE,
    PROBE,
    REPLAY,
    SIMULATE,
    write,
    write_everything,
    write_samples,
)


class Reader(HTMLParser):
    """Checks that elements are closed in order, and collects ids, links and what would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.styled: list[str] = []
        self.text = ""

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        if name not in VOID:
            self.open.append(name)
        for key, value in attributes:
            if key == "id":
                self.ids.append(value or "")
            if key == "style":
                self.styled.append(f"{name}: {value}")
            if key == "href":
                self.links.append(value or "")
            if key in ("src", "srcset", "data", "action", "poster"):
                self.fetched.append(value or "")

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        self.text += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of every command."""
    made = tmp_path_factory.mktemp("results")
    write_everything(made)
    return made


def test_the_page_is_whole_and_fetches_nothing(folder: Path) -> None:
    text = page(read_folder(folder))
    reader = read(text)
    assert not reader.fetched
    assert all(link.startswith("#") for link in reader.links)
    assert {link[1:] for link in reader.links} <= set(reader.ids)
    assert "default-src &#x27;none&#x27;" in text
    assert "@import" not in text
    assert "url(http" not in text


def test_no_element_has_a_style_of_its_own(folder: Path) -> None:
    """The policy of the page refuses it."""
    text = page(read_folder(folder))
    assert read(text).styled == []
    pictures = set(re.findall(r"at-least-\d+(?=\")", text))
    assert pictures
    assert pictures <= set(re.findall(r"at-least-\d+(?= {)", styles()))


def test_no_region_is_the_whole_content_of_another(folder: Path) -> None:
    """A table is a region already: two of one name tell nobody where they lead."""
    region = r'<div [^>]*role="region"[^>]*>'
    text = page(read_folder(folder))
    assert len(re.findall(region, text)) > 10
    assert re.findall(f"{region}{region}", text) == []


def test_ids_are_unique(folder: Path) -> None:
    """A link and a screen reader go to the first of two."""
    ids = read(page(read_folder(folder))).ids
    assert len(ids) == len(set(ids))


def test_every_section_says_what_its_results_say(folder: Path) -> None:
    output = read(page(read_folder(folder))).text
    for expected in (
        "11 results: 4 hold, 5 violated, 2 violated as expected.",
        "ann and bob both lead",
        "The nearest run that passes: the same for 1 step",
        "--replay ann:head:leader:1",
        "breaks agreement",
        "All states of peterson",
        "Actions that never fired: none",
        "two of two racing creates were done",
        "1,000,000",
        "epoch 3 was fenced",
        "+52.5%",
        "0123456789ab: 1 worse, 0 better",
        "at most, append requests",
        "Of the model's 3,264,210 transitions, 23,320 were driven (0.7%).",
        "claim() → move_boundary()",
        "11,758",
        "with at most 1 fault",
        "26 of 30",
        "The code of publish without each safeguard",
        "breaks no-wedge at rest",
        "Situations that never happened: two race",
        "fencepost check peterson --json",
    ):
        assert expected in output


def test_the_worst_comes_first_and_what_was_provoked_last(folder: Path) -> None:
    """A reviewer looks for what nobody expected."""
    output = read(page(read_folder(folder))).text
    places = [output.index(text) for text in ("probe memory://", "check peterson", "Switched off on purpose")]
    assert places == sorted(places)
    assert output.index("Switched off on purpose") < output.index("check two-phase without all-prepared")


def test_the_banner_says_what_of_which_commit_and_when(folder: Path) -> None:
    banner = page(read_folder(folder)).split('class="banner bad"')[1].split("</dl>")[0]
    for name in ("violated", "commit", "date", "duration", "against"):
        assert name in banner


def test_violations_that_were_provoked_are_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mutant that is found, and a model without a safeguard, show that the properties can fail."""
    write_samples(tmp_path)
    words = ["--junit", str(tmp_path / "j.xml"), "--sarif", str(tmp_path / "s.json")]
    assert ends(str(tmp_path), "--json", str(tmp_path / "r.json"), *words) == Exit.HOLDS
    assert "holds: 4 results, 2 violations of them expected, in" in capsys.readouterr().out
    assert "<failure" not in (tmp_path / "j.xml").read_text()
    assert json.loads((tmp_path / "s.json").read_text())["runs"][0]["results"] == []
    text = page(read_folder(tmp_path))
    assert 'class="banner good"' in text
    assert 'id="counterexamples"' not in text
    assert 'id="expected"' in text


def test_an_error_is_the_worst_verdict(tmp_path: Path) -> None:
    entry = Entry("a.json", SimpleNamespace(verdict="error", provenance=None))
    assert Findings([entry]).verdict == "error"
    assert VERDICT_EXITS["error"] == Exit.BAD_REQUEST


def test_a_model_state_is_a_tree_with_its_changes_marked(tmp_path: Path) -> None:
    """`manager[1]` changed: its branch is marked, with what it was; the others are not."""
    write_samples(tmp_path)
    text = page(read_folder(tmp_path))
    assert '<li class="changed">[1] = <mark>committed</mark> (was working)</li>' in text
    assert "<li>[0] = working</li>" in text
    assert text.count("<details name=") == 4, "one group: opening a step closes the last"


def test_states_follow_from_the_changes() -> None:
    trace = [
        TraceStep(0, None, state={"at": ["a", ["b", "c"]], "n": 1}),
        TraceStep(1, "go", changes={"at[1][0]": ["b", "d"], "n": [1, 2]}),
        TraceStep(2, "odd", changes={"gone[7]": [0, 1]}),
    ]
    assert [*states_of(trace)] == [
        {"at": ["a", ["b", "c"]], "n": 1},
        {"at": ["a", ["d", "c"]], "n": 2},
        {"at": ["a", ["d", "c"]], "n": 2, "gone[7]": 1},
    ]


def test_a_broken_objective_is_listed_with_the_first_value(tmp_path: Path) -> None:
    row = {
        "objective": "p99 < 1 s",
        "broken_runs": 1,
        "runs": 5,
        "first_broken": {"cap": 4},
        "first_value": 1200.0,
    }
    write(tmp_path, "sim.json", {**SIMULATE, "objectives": [{**row, "violated": True}]})
    output = read(page(read_folder(tmp_path))).text
    assert "cap = 4: 1,200" in output
    assert "1 of 5 runs" in output


def test_nothing_of_a_result_becomes_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    probe = {**PROBE, "url": evil, "features": [{"name": evil, "verdict": "unsafe", "detail": evil}]}
    write(tmp_path, "probe.json", probe)
    write(
        tmp_path,
        "replay.json",
        {**REPLAY, "violations": [{"seq": 1, **dict.fromkeys(("run", "event", "reason"), evil)}]},
    )
    reader = read(page(read_folder(tmp_path), title=evil))
    assert not reader.fetched
    assert reader.text.count("alert(1)") >= 5


def test_the_same_folder_gives_the_same_bytes(folder: Path) -> None:
    assert page(read_folder(folder)) == page(read_folder(folder))


@pytest.mark.parametrize(
    "broken", [{"features": [{}]}, {"features": 3}, {"features": [[]]}, {"latency": {"put": 3}}]
)
def test_a_result_of_the_invalid_shape_is_named(tmp_path: Path, broken: dict[str, Any]) -> None:
    write(tmp_path, "bad.json", {**PROBE, **broken})
    write(tmp_path, "good.json", REPLAY)
    output = read(page(read_folder(tmp_path))).text
    assert "bad.json: it looks like a result of fencepost probe, but is not one" in output
    assert "epoch 3 was fenced" in output


def events(count: int) -> list[dict[str, Any]]:
    return [
        {
            "phase": phase,
            "op": op,
            "process": f"p{op % 3}",
            "kind": "put",
            "key": f"key/{op:020}",
            "outcome": "done",
            "etag": "f" * 32,
        }
        for op in range(count // 2)
        for phase in ("request", "landed")
    ]


def test_the_page_stays_small_however_large_the_run(tmp_path: Path) -> None:
    """20,000 events, a counterexample as long, and 5,000 rejected runs: several times the limit."""
    counterexample = [f"{n} process put key {'x' * 60}" for n in range(20_000)]
    run_ = {"events": events(20_000), "counterexample": counterexample}
    violation = {
        "property": "p",
        "reason": "r",
        "token": "t",
        **run_,
        "nearest_pass": {"same_steps": 3, "token": "t", **run_},
    }
    audit = {
        "system": "s",
        "strategy": "pct",
        "schedules": 1,
        "verdict": "violated",
        "bound": "b",
        "seconds": 1.0,
        "violations": [violation],
        "coverage": {},
    }
    write(tmp_path, "audit.json", audit)
    rejected = [{"run": f"r{n}", "seq": n, "event": "e" * 50, "reason": "r" * 100} for n in range(5_000)]
    write(tmp_path, "replay.json", {**REPLAY, "violations": rejected})
    text = page(read_folder(tmp_path))
    assert len(text.encode()) < BYTES_MAX
    output = read(text).text
    assert "4,800 more" in output
    assert "moments are left out here" in output


def test_sections_that_do_not_fit_are_named(tmp_path: Path) -> None:
    """Rather cut than too large for the mail; and the cut is noted."""
    for number in range(150):
        write(
            tmp_path,
            f"replay-{number}.json",
            {**REPLAY, "violations": [{"run": "r", "seq": 1, "event": "e", "reason": "r" * 400}] * 200},
        )
    text = page(read_folder(tmp_path))
    assert len(text.encode()) < BYTES_MAX
    assert "Left out: Replayed traces." in read(text).text


ends = partial(exit_of, "report")


def test_the_command_writes_all_forms(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "page.html"
    words = ["--junit", str(tmp_path / "j.xml"), "--sarif", str(tmp_path / "s.json"), "--markdown", "-"]
    assert (
        ends(str(folder), "--out", str(target), *words, "--json", str(tmp_path / "r.json")) == Exit.VIOLATED
    )
    output = capsys.readouterr()
    assert output.out.startswith("### Fencepost: ❌ violated. 11 results")
    assert output.err.splitlines()[-1] == f"violated: 11 results, 2 violations of them expected, in {target}"
    assert target.read_text() == page(read_folder(folder))
    assert json.loads((tmp_path / "r.json").read_text())["verdict"] == "violated"
    assert (tmp_path / "j.xml").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "s.json").read_text())["version"] == "2.1.0"


def test_the_default_page_lies_in_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "probe.json", {**PROBE, "verdict": "safe"})
    assert ends(str(tmp_path)) == Exit.HOLDS
    assert (tmp_path / "report.html").exists()
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "name the folder"),
        (["nowhere"], "nowhere is no folder"),
        (["{empty}"], "holds no results"),
        (["{full}", "--out", "{full}/probe.json/x.html"], "cannot write"),
        (["{full}", "--markdown", "-", "--json", "-"], "would mix"),
    ],
)
def test_an_invalid_request_is_one_line(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    write(full, "probe.json", PROBE)
    assert ends(*(word.format(empty=empty, full=full) for word in words)) == Exit.BAD_REQUEST
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1
    assert not re.search(r"Traceback", output)


def test_what_cannot_be_read_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "probe.json", {**PROBE, "verdict": "safe"})
    (tmp_path / "cut.json").write_text("{")
    assert ends(str(tmp_path)) == Exit.BAD_REQUEST
    output = capsys.readouterr()
    assert "fencepost: cut.json: line 1: it is not whole JSON" in output.err
    assert output.out.startswith("error: 1 result, 1 file that could not be read")


@pytest.mark.parametrize(
    ("command", "again"),
    [
        ("fencepost audit e --mutant m --json out/a.json", "fencepost audit e --mutant m --replay a:put:k:1"),
        (
            "fencepost audit e --json=a.json --set 'name=a b'",
            "fencepost audit e --set 'name=a b' --replay a:put:k:1",
        ),
        (
            "fencepost audit e --trace t --strategy pct --depth 2 --seed 3",
            "fencepost audit e --seed 3 --replay a:put:k:1",
        ),
        ("fencepost audit e --quiet --budget=9", "fencepost audit e --replay a:put:k:1"),
    ],
)
def test_the_line_that_replays_a_failure_is_one_the_audit_takes(
    tmp_path: Path, command: str, again: str
) -> None:
    """What was --set stays, wherever it stood; what belongs to a search is refused beside a token."""
    violation = {"property": "p", "reason": "r", "token": "a:put:k:1", "counterexample": ["1 a"]}
    audit = {**AUDIT, "verdict": "violated", "violations": [violation], "provenance": {"command": command}}
    write(tmp_path, "audit.json", audit)
    assert f"To reproduce: {again}" in read(page(read_folder(tmp_path))).text


@pytest.mark.parametrize(
    "broken",
    [
        {"violations": [{"property": "p", "token": "t"}]},
        {"violations": [3]},
        {"coverage": 3},
        {"verdict": "maybe", "schedules": "many"},
    ],
)
def test_a_result_of_the_invalid_shape_is_named_in_every_form(
    tmp_path: Path, broken: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A comment or a test report must not end in a traceback where the page does not."""
    write(tmp_path, "bad.json", {**AUDIT, **broken})
    write(tmp_path, "good.json", REPLAY)
    words = [
        "--markdown",
        str(tmp_path / "m.md"),
        "--junit",
        str(tmp_path / "j.xml"),
        "--sarif",
        str(tmp_path / "s"),
    ]
    assert ends(str(tmp_path), *words) == Exit.BAD_REQUEST
    assert "replay publish" in (tmp_path / "m.md").read_text()
    assert "Traceback" not in capsys.readouterr().err


def test_a_step_of_code_has_its_line_and_what_changed_in_the_body(tmp_path: Path) -> None:
    step = {
        "number": 1,
        "process": "a",
        "kind": "put",
        "operation": "put k",
        "outcome": "done",
        "subject": "k",
    }
    steps = [{**step, "file": "m.py", "line": 7, "previous": '{"epoch": 3}', "body": '{"epoch": 41}'}]
    violation = {"property": "p", "reason": "r", "counterexample": ["1 a"], "token": "t", "steps": steps}
    write(tmp_path, "audit.json", {**AUDIT, "verdict": "violated", "violations": [violation]})
    text = page(read_folder(tmp_path))
    assert "<code>m.py:7</code>" in text
    assert "<div>epoch: <del>3</del> <ins>41</ins></div>" in text
    steps = [{**step, "previous": "a long text: 3 of all", "body": "a long text: 41 of all"}]
    write(
        tmp_path,
        "audit.json",
        {**AUDIT, "verdict": "violated", "violations": [{**violation, "steps": steps}]},
    )
    assert "…<del>3</del><ins>41</ins>…" in page(read_folder(tmp_path))


def test_outcomes_are_a_table_with_what_was_never_met(tmp_path: Path) -> None:
    row = {
        "file": "m.py",
        "line": 7,
        "function": "f",
        "kind": "put",
        "condition": "if absent",
        "outcomes": {"200": 3, "412": 0},
    }
    coverage = {**AUDIT["coverage"], "requests": [row], "executed": {"m.py": {"7": 1, "9": 0}}}
    write(tmp_path, "audit.json", {**AUDIT, "coverage": coverage})
    text = page(read_folder(tmp_path))
    assert ": 1 of 2 outcomes met" in text
    assert "never" in text
    assert "m.py:9" in text


def _stage(name: str, verdict: str, runs: int, explored: float) -> dict[str, Any]:
    bound = f"<b>{name}</b>"
    return {
        "name": name,
        "verdict": verdict,
        "bound": bound,
        "schedules": runs // 2,
        "runs": runs,
        "seconds": 1.0,
        "explored": explored,
    }


def test_the_stages_of_an_audit_are_a_table(tmp_path: Path) -> None:
    """A share of less than everything is never shown as everything, and a stage may not have begun."""
    stages = [
        _stage("empty", "holds", 0, 1.0),
        _stage("no-faults", "holds", 2468, 1.0),
        _stage("one-fault", "undecided", 20, 0.99999),
        _stage("two-faults", "undecided", 0, 0.0),
    ]
    write(tmp_path, "audit.json", {**AUDIT, "verdict": "undecided", "stages": stages, "enough": "no-faults"})
    found = re.search('<section id="stages".*?</section>', page(read_folder(tmp_path)), re.DOTALL)
    assert found is not None
    rows = [
        [re.sub("<.*?>", "", cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)]
        for row in re.findall("<tr>.*?</tr>", found.group(), re.DOTALL)
    ]
    assert rows == [
        ["stage", "verdict", "schedules", "explored (estimate)"],
        ["empty", "✓ holds, by a larger stage", "0", "100 %"],
        ["no-faults", "✓ holds", "1,234", "100 %"],
        ["one-fault", "? undecided", "10", "99.9 %"],
        ["two-faults", "? undecided, not begun", "0", "0.0 %"],
    ]
    assert "no-faults must hold for a pass" in found.group()


def test_an_audit_of_one_stage_has_no_table_of_stages(tmp_path: Path) -> None:
    write(tmp_path, "audit.json", AUDIT)
    assert 'id="stages"' not in page(read_folder(tmp_path))


def test_a_comparison_lists_what_no_property_notices(tmp_path: Path) -> None:
    """Also where nothing is different; and a program that was not compared does not count as equal."""
    write(tmp_path, "compared.json", {**COMPARE, "changes": []})
    text = page(read_folder(tmp_path))
    assert "<li>tests/more.py:second: not compared, the budget ran out before it</li>" in text
    assert (
        "<li>no property notices when line 5 of app/lead.py is left out (guard): if found.done:</li>" in text
    )
