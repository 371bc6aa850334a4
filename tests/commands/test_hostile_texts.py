"""Text of an audited program, of a file's name or of an option does not act on the terminal."""

import logging
import sys
from pathlib import Path

import pytest

from fencepost.commands.messages import LogLine
from tests.commands.running import Run
from tests.hostile import TEXTS

hostile = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
PROGRAM = """
from fencepost.impl.store import ANYTHING

TEXT = {text!r}

def noted(world):
    def write():
        world.store().put("key" + TEXT[:50], TEXT.encode(errors="replace"), when=ANYTHING)
        world.note("topic" + TEXT, TEXT)
    world.spawn(write, name="p" + TEXT[:9])
    def never(view):
        assert not view.notes("topic" + TEXT), "reason " + TEXT
    world.always("property " + TEXT, never)

def raised(world):
    def write():
        raise ValueError(TEXT)
    world.spawn(write, name="p")

def refused(world):
    raise ValueError(TEXT)
"""


def acts(text: str) -> list[str]:
    """The characters that a terminal obeys."""
    return [c for c in text if not c.isprintable() and c not in "\n\t"]


@hostile
@pytest.mark.parametrize("function", ["noted", "raised", "refused"])
def test_audit(ran: Run, tmp_path: Path, text: str, function: str) -> None:
    program = tmp_path / "mine.py"
    program.write_text(PROGRAM.format(text=text))
    code, out, err = ran("audit", f"{program}:{function}", "-v")
    assert code in {1, 2}
    assert out + err
    assert not acts(out + err)


@hostile
@pytest.mark.parametrize("words", [("audit",), ("check",), ("replay",), ("simulate",), ("report",), ("x",)])
def test_words_of_the_command_line(ran: Run, text: str, words: tuple[str, ...]) -> None:
    code, out, err = ran(*words, f"no{text}")
    assert code == 2
    assert len(err.splitlines()) == 1
    assert not acts(out + err)


@hostile
def test_logs(text: str) -> None:
    """A message is one line, whatever a client sent."""
    record = logging.LogRecord("n", logging.INFO, "f.py", 1, "refused %s", (text,), None)
    line = LogLine("%(levelname)s %(message)s").format(record)
    assert line.startswith("INFO refused ")
    assert not acts(line)
    assert "\n" not in line
    try:
        raise ValueError(text)
    except ValueError:
        record.exc_info = sys.exc_info()
    assert not acts(LogLine().format(record))
