"""Counterexamples as Mermaid text. Which characters its parser refuses was found with the parser itself."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fencepost.reports.page.mermaid import FIELDS_MAX, mermaid, mermaid_states
from fencepost.reports.page.sequence import ROWS_MAX
from fencepost.results import TraceStep

START = TraceStep(0, None, state={"manager": ["working", "working"], "decision": "init"})
COMMIT = TraceStep(1, "commit", changes={"decision": ["init", "committed"]})
HEAR = TraceStep(2, "hear_commit", {"m": 1}, changes={"manager[1]": ["working", "committed"]}, back_to=1)


def test_the_run_of_a_model_is_a_flow_of_states_with_its_actions_on_the_arrows() -> None:
    assert mermaid_states((START, COMMIT, HEAR)).splitlines() == [
        "flowchart TD",
        '    n0["manager: [working, working]<br/>decision: init"]',
        '    n1["decision: init → committed"]',
        '    n0 -->|"commit()"| n1',
        '    n2["manager[1]: working → committed"]',
        '    n1 -->|"hear_commit(m=1)"| n2',
        '    n2 -->|"and again"| n1',
        "    style n2 stroke:#c00,stroke-width:3px",
    ]


def test_a_comment_is_not_flooded() -> None:
    wide = TraceStep(0, None, state={f"field{at}": "x" * 1000 for at in range(40)})
    many = [TraceStep(at, "go", changes={"x": [at, at + 1]}) for at in range(1, ROWS_MAX + 9)]
    text = mermaid_states((wide, *many))
    assert f"and {40 - FIELDS_MAX} more" in text
    assert '-->|"9 more steps"|' in text
    assert max(map(len, text.splitlines())) < 1500
    assert mermaid_states((START, TraceStep(1, "stutter"))).count("nothing changes") == 1


@given(name=st.text(), value=st.one_of(st.text(), st.lists(st.text(), max_size=3)))
def test_nothing_of_a_model_ends_a_label(name: str, value: Any) -> None:
    step = TraceStep(1, name, {name: value}, changes={name: [value, value]})
    lines = mermaid_states((TraceStep(0, None, state={name: value}), step)).splitlines()
    assert len(lines) == 5
    for line in lines[1:4]:
        (label,) = re.findall(r'"(.*)"', line)
        assert not re.search(r'["&>`%]|<(?!br/>)', label.replace("<br/>", ""))


@given(name=st.text(min_size=1))
def test_nothing_of_a_program_ends_a_statement(name: str) -> None:
    note = {"phase": "note", "process": name, "op": -1, "kind": "note", "key": name, "note": name}
    for line in mermaid([note]).splitlines()[1:]:
        assert not re.search(r";.|%", re.sub(r"#\d+;", "", line))
