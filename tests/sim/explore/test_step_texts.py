"""Counterexamples of ordinary code: fields that differ, rounds of waiting folded, lines of callers."""

from pathlib import Path

from fencepost.sim.explore.callers import depths
from fencepost.sim.explore.steps import Line, body_text, field_difference, folded_text
from fencepost.sim.world.located import CodeLine

CLAIM = b'{"attempt": 1, "expires": 1700000060.0, "owner": {"name": "w0", "id": 1}}'
LATER = b'{"attempt": 2, "expires": 1700000060.0, "owner": {"name": "w1", "id": 1}, "state": "done"}'


def test_a_body_is_shown_by_its_fields() -> None:
    shown = body_text(LATER, CLAIM)
    assert shown == '{attempt: 1 -> 2, owner.name: "w0" -> "w1", +state: "done"}'
    assert field_difference(LATER, CLAIM) == '{attempt: 2 -> 1, owner.name: "w1" -> "w0", -state}'


def test_what_is_no_object_is_shown_by_its_words() -> None:
    """If this fails, a body that is a list or text, or has other fields altogether, is shown as no change."""
    assert field_difference(b"[1, 2]", b"[1, 3]") == ""
    assert field_difference(b'{"a": 1}', b'{"b": 1}') == ""
    assert field_difference(b"{", b"}") == ""
    assert "{+" in body_text(b"a text that is longer than a line of forty letters", b"a text that is no line")


def wait(number: int, kind: str, outcome: str) -> Line:
    return Line(number, "bob" if kind != "advance" else "clock", f"{kind} lock", outcome, kind=kind)


def polls(rounds: int, outcome: str = "-> exists") -> list[Line]:
    kinds = ("get", "sleep", "advance")
    return [
        wait(3 * at + place + 1, kind, outcome if kind == "get" else f"it is {at} s")
        for at in range(rounds)
        for place, kind in enumerate(kinds)
    ]


def test_rounds_of_waiting_are_folded() -> None:
    lines = [*polls(9), Line(28, "bob", "put lock", "-> done", kind="put")]
    shown = folded_text(lines)
    assert len(shown) == 5
    assert shown[3] == "        ... steps 4 to 27: the same, 8 times more"
    assert shown[4].startswith(" 28 ")


def test_what_decides_is_never_folded() -> None:
    """If this fails, a write, a fault or an answer that differs disappears from a counterexample."""
    writes = [Line(at, "bob", "put k", "-> done", kind="put") for at in range(1, 9)]
    assert len(folded_text(writes)) == 8
    faults = [Line(at, "bob", "get k", "LOST", "reply_lost", kind="get") for at in range(1, 9)]
    assert len(folded_text(faults)) == 8
    two = polls(2)
    assert len(folded_text(two)) == len(two)
    answers = [Line(at, "bob", "get k", f"-> done {at}", kind="get") for at in range(1, 9)]
    assert len(folded_text(answers)) == 8


def test_a_line_that_is_reached_from_several_stands_for_none() -> None:
    helper = CodeLine("queue.py", 30, "_put")
    claim, complete = (CodeLine("queue.py", line, name) for line, name in ((50, "claim"), (80, "complete")))
    alone = CodeLine("queue.py", 24, "look")
    chains = [(claim, helper), (complete, helper), (claim, alone)]
    assert [depths(chains)[chain] for chain in chains] == [2, 2, 1]


def test_a_helper_is_known_by_its_file_too(tmp_path: Path) -> None:
    """If this fails, a counterexample with one request of a helper points at the helper."""
    file = tmp_path / "queue.py"
    file.write_text("def _put(): pass\n\ndef claim():\n    _put()\n\ndef complete():\n    _put()\n")
    chain = (CodeLine(str(file), 4, "claim"), CodeLine(str(file), 1, "_put"))
    assert depths([chain]) == {chain: 2}
