"""A terminal that is too narrow breaks lines, and changes no number."""

import io
from typing import Any

import pytest
from rich.console import Console

from fencepost.commands.entry import group, run
from fencepost.commands.exit_codes import Exit


def shown(words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, module: Any) -> str:
    """What a terminal of so many columns gets, before it breaks lines."""
    out = io.StringIO()

    def console(*, stderr: bool, wrapped: bool = False) -> Console:
        return Console(file=out, width=columns, soft_wrap=not wrapped, highlight=False)

    monkeypatch.setattr(module, "console_for" if hasattr(module, "console_for") else "console", console)
    assert run(lambda: group.main(words, standalone_mode=False)) == Exit.HOLDS
    return out.getvalue()


@pytest.mark.parametrize("columns", [1, 40, 80])
def test_the_figures_of_a_simulation_are_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, 13,063 ms is `13,...` on an ordinary terminal of eighty columns."""
    from fencepost.commands import simulate

    words = ["simulate", "rfc-013-hops", "--jobs", "1", "-v"]
    wide, narrow = (shown(words, width, monkeypatch, simulate) for width in (200, columns))
    rows = [line.split() for line in wide.splitlines() if "write" in line.split()[2:5]]
    assert len(rows) == 15
    assert [line.split() for line in narrow.splitlines() if "write" in line.split()[2:5]] == rows
    assert "\N{HORIZONTAL ELLIPSIS}" not in narrow


@pytest.mark.parametrize("columns", [1, 40])
def test_what_a_property_says_can_be_read(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from fencepost.commands import terminal

    output = shown(["check", "two-phase", "-v"], columns, monkeypatch, terminal)
    assert "\N{HORIZONTAL ELLIPSIS}" not in output
    assert "No manager has committed while" in output
