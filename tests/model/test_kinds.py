"""A kind of property is one class: the search, random walks, the texts and the commands follow it.

If these fail, a new kind needs changes in every place that compares kinds by their names.
"""

import ast
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from fencepost.model import Int, Machine, Model, ModellingMistake, PropertyResult, Truth, action, check, walk
from fencepost.model.kernel.compiled import build
from fencepost.model.kernel.language import kinds
from fencepost.model.kernel.language.declare import declares
from fencepost.model.kernel.language.kinds import Judged, Kind
from fencepost.reports.check_text import check_text
from tests.commands.running import exit_of

ROOT = Path(__file__).parent.parent.parent


class Unreachable(Kind):
    """No reachable state satisfies it."""

    name = "unreachable"
    judged = Judged.STATES
    decided_by = True


class Rare(Kind):
    """At most half of the reachable states satisfy it."""

    name = "rare"

    def decide(self, wanted: Any, decision: Any) -> PropertyResult:
        if not decision.search.complete:
            return PropertyResult.of(wanted, "undecided", reason=decision.search.reason)
        found = sum(int(decision.search.model.holds(wanted, level).sum()) for level in decision.search.levels)
        if 2 * found <= decision.search.distinct:
            return PropertyResult.of(wanted, "holds")
        return PropertyResult.of(
            wanted, "violated", reason=f"{found} of {decision.search.distinct} states satisfy it"
        )


unreachable, rare = declares(Unreachable()), declares(Rare())


class Counter(Machine):
    count = Int(0, 7)

    @action(by=(1, 2))
    def rise(s, by: int) -> None:
        s.count = (s.count + by) % 8

    @unreachable("It never stands at five.")
    def five(s) -> Truth:
        return s.count == 5

    @unreachable(n=(8, 9))
    def beyond(s, n: int) -> Truth:
        """It never rises above seven."""
        return s.count >= n

    @rare
    def low(s) -> Truth:
        """It is seldom low."""
        return s.count < 3

    high = rare("It is seldom high.")(lambda s: s.count > 2)


def test_a_new_kind_is_decided_by_its_class() -> None:
    compiled = [False, True] if build.has_compiler() else [False]
    for engine in compiled:
        result = check(Counter, compiled=engine, keep_going=True)
        found = {one.name: (one.kind, one.verdict, one.reason) for one in result.properties}
        assert found == {
            "five": ("unreachable", "violated", ""),
            "beyond": ("unreachable", "holds", ""),
            "low": ("rare", "holds", ""),
            "high": ("rare", "violated", "5 of 8 states satisfy it"),
            "no-deadlock": ("deadlock", "holds", ""),
        }
        assert result["five"].counterexample is not None
        assert len(result["five"].counterexample) == 3
        assert result.verdict == "violated"


def test_walks_and_a_bound_leave_it_undecided_unless_they_meet_it() -> None:
    found = {one.name: one.verdict for one in walk(Counter, walks=100, steps=20).properties}
    assert found["five"] == "violated"
    assert found["low"] == "undecided"
    assert check(Counter, max_depth=1)["low"].reason == "stopped by the bound of 1 steps"


def test_texts_and_commands_follow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = check(Counter, keep_going=True)
    assert "high is violated: 5 of 8 states satisfy it" in _plain(check_text(result))
    (tmp_path / "mine.py").write_text(MINE)
    assert exit_of("check", f"{tmp_path}/mine.py:Switch", "-v") == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "off unreachable violated" in printed
    assert "1. turn() on: False -> True" in printed


MINE = """
from fencepost.model import *
from fencepost.model.kernel.language.declare import declares
from fencepost.model.kernel.language.kinds import Judged, Kind

class Unreachable(Kind):
    name, judged, decided_by = "unreachable", Judged.STATES, True

class Switch(Machine):
    on = Bool()

    @action
    def turn(s):
        s.on = ~s.on

    off = declares(Unreachable())("It stays off.")(lambda s: s.on)
"""


def _plain(text: Any) -> str:
    from rich.console import Console

    page = Console(width=200, record=True, file=StringIO())
    page.print(text)
    return page.export_text()


def test_a_kind_of_runs_needs_a_decorator_with_fairness() -> None:
    with pytest.raises(ModellingMistake, match="properties of runs take fairness"):
        declares(kinds.Eventually())


def test_no_other_module_knows_a_kind_by_its_name() -> None:
    """A comparison with the name of a kind is a place that a new kind would have to change."""
    named = {
        kind.name
        for kind in vars(kinds).values()
        if isinstance(kind, type) and issubclass(kind, Kind) and hasattr(kind, "name")
    }
    assert {"invariant", "step", "reachable", "eventually", "refinement", "deadlock"} <= named
    found = []
    for folder in ("model", "reports", "fencepost", "sim", "properties"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Compare) and re.search(r"\bkind\b", ast.unparse(node.left)):
                    words = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                    if words & (named - {"step"}) or (words == {"step"} and path.parts[-3] == "kernel"):
                        found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


def test_every_kind_says_when_it_is_judged() -> None:
    model = Model(Counter)
    assert [one.kind.judged for one in model.properties] == [
        *(Judged.STATES, Judged.STATES),
        *(Judged.AFTERWARDS, Judged.AFTERWARDS),
    ]
