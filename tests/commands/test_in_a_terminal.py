"""Every command as a person meets it: in a terminal, with --help, with mistakes, with Ctrl-C.

A terminal is more than standard output: colour, width, progress lines and Ctrl-C come with it.
"""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fencepost.commands.entry import SUMMARIES
from fencepost.commands.exit_codes import Exit

SECONDS_MAX = 120
"""Then a command hangs. It is no measure: on a busy machine everything is slow."""

INPUTS = {
    "check": ["check", "{file}:Machine"],
    "zoo": ["zoo", "{file}:Machine"],
    "audit": ["audit", "{file}:function"],
    "probe": ["probe", "files://{file}"],
    "catalog": ["catalog", "log", "file://{file}"],
    "report": ["report", "{file}"],
    "simulate": ["simulate", "{file}"],
    "replay": ["replay", "{file}", "--model", "publish"],
}
"""How each command that reads something is given a file that is not there."""


class Terminal:
    """A command in a pseudo-terminal of its own, and what it shows there."""

    def __init__(self, *words: str, cwd: Path | None = None) -> None:
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fencepost", *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        )
        os.close(slave)
        self._deadline = time.monotonic() + SECONDS_MAX
        self.shown = ""

    def read_until(self, pattern: str) -> None:
        while not re.search(pattern, self.shown):
            assert self._read(), f"it ended before {pattern!r}: {self.shown}"

    def press_ctrl_c(self) -> None:
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self) -> int:
        while self._read():
            pass
        return self._process.wait(max(1.0, self._deadline - time.monotonic()))

    def close(self) -> None:
        """Whatever happened, nothing is left running or open."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)

    def _read(self) -> bool:
        assert time.monotonic() < self._deadline, f"it hangs: {self.shown}"
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return True
        try:
            part = os.read(self._master, 65536)
        except OSError:
            return False  # how a terminal says that nobody holds its other end any more
        self.shown += part.decode(errors="replace")
        return bool(part)


def run_in_terminal(*words: str, cwd: Path | None = None) -> tuple[int, str]:
    with contextlib.closing(Terminal(*words, cwd=cwd)) as terminal:
        return terminal.end(), terminal.shown


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in ("check", "audit"))) for name in SUMMARIES],
)
def test_help_and_a_invalid_option(name: str) -> None:
    """Help names every option; a mistake is one line that says where help is."""
    code, shown = run_in_terminal(name, "--help")
    assert code == Exit.HOLDS
    assert f"Usage: python -m fencepost {name}" in shown or f"Usage: fencepost {name}" in shown
    assert "--help" in shown
    code, shown = run_in_terminal(name, "--no-such-option")
    assert code == Exit.BAD_REQUEST
    assert shown.count("\n") == 1
    assert "--no-such-option" in shown
    assert "--help" in shown


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "audit"))
        for name in INPUTS
        if name in SUMMARIES
    ],
)
def test_a_file_that_is_not_there(name: str, tmp_path: Path) -> None:
    words = [word.format(file=tmp_path / "missing.py") for word in INPUTS[name]]
    code, shown = run_in_terminal(*words, cwd=tmp_path)
    assert code == Exit.BAD_REQUEST, shown
    assert "missing.py" in shown
    assert "Traceback" not in shown
    assert shown.count("\n") == 1


LONG = {
    "check": (["check", "two-phase", "--set", "managers=12"], r"depth [3-9]"),
    "audit": (["audit", "publish"], r"[0-9]+ runs"),
    "zoo": (["zoo", "--programs"], r"holds|breaks"),
    "probe": (["probe", "memory://"], r"[a-z]"),
    "simulate": (["simulate", "publish-writers", "--sweep", "workload.writers=16,24,32,40"], r"[0-9]"),
}
"""What takes long, and what shows that it is under way."""


@pytest.mark.server
@pytest.mark.parametrize("name", LONG)
def test_ctrl_c_ends_it_cleanly_with_what_was_found(name: str, tmp_path: Path) -> None:
    """No traceback, exit code 3, nothing half-written, and the terminal as it was."""
    words, under_way = LONG[name]
    target = tmp_path / "out.json"
    with contextlib.closing(Terminal(*words, "--json", str(target), cwd=tmp_path)) as terminal:
        terminal.read_until(under_way)
        terminal.press_ctrl_c()
        code = terminal.end()
    assert code == Exit.UNDECIDED, terminal.shown
    assert "Traceback" not in terminal.shown
    assert "undecided" in terminal.shown or "interrupted" in terminal.shown
    left = [file.name for file in tmp_path.iterdir()]
    assert left in ([], ["out.json"])


def test_colour_is_for_terminals_alone(tmp_path: Path) -> None:
    """In a log, escape sequences are noise."""
    _, shown = run_in_terminal("check", "two-phase", "--set", "managers=2")
    assert "\x1b[" in shown
    ran = subprocess.run(
        [sys.executable, "-m", "fencepost", "check", "two-phase", "--set", "managers=2"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in ran.stdout + ran.stderr
