"""Every guide is run as it is read: its files are written, its code executed, its commands compared.

In a guide, a `python` block whose first line names a file (`# claim.py`) is that file; any other is executed,
in one namespace for the whole guide. A block that begins with `# in claim.py` changes that file: what stands
above the line `# becomes`, and in the file exactly once, is replaced by what stands below it.

A block with a name behind the language (```csv people.csv) is that file. Where a guide says `file:///data/`,
a folder of the test stands, and where it says `127.0.0.1:84`xx, ports that are free.

In a `console` block, lines after `$` are commands, and what follows must be what they print: a line of dots
stands for any lines, a token for any token, and counts of runs, seconds and bytes for any number. A command
that ends in `&` is a process that runs until the end of the guide; it must print at once what is shown.
"""

import concurrent.futures.process  # noqa: F401 - as below: what was pickled must be what is imported
import contextlib
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy  # noqa: F401, ICN001 - pytester forgets what a test imports, and NumPy loads only once
import pytest

from tests.commands.running import exit_of
from tests.depth import DEEP

pytest_plugins = ["pytester"]

GUIDES = sorted((Path(__file__).parent.parent.parent / "docs" / "guides").glob("*.md"))
NOT_RUN = ("pip",)
"""Commands that are shown for people only."""
LONG = ("fencepost replay traces --model publish --coverage",)
"""It explores the whole model; `nox -s deep` runs it."""
FOLDER = "file:///data/"
COUNTED = re.compile(r"interleavings|passed in|index objects written|^ +(?:steps|answers|faults|conflicts) ")


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and content of every marked block, in order."""
    yield from re.findall(r"^```(\w+(?: \S+)?)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def transcripts(body: str) -> Iterator[tuple[str, list[str]]]:
    """Commands of a console block, each with the lines that follow it."""
    command, shown = "", []
    for line in [*body.splitlines(), "$ "]:
        if line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], []
        else:
            shown.append(line)


def evened(line: str) -> str:
    """A line without what may differ from run to run."""
    line = re.sub(r"^python\S* -m pytest ", "pytest ", line)  # as this very session was begun
    line = re.sub(r"(--replay |--fencepost-token=)\S+", r"\1TOKEN", line.rstrip())
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line)
    line = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "PLAN", line)
    line = re.sub(r"[\d.,]+ s, [\d.,]+ \w+ \([\d.,]+ bytes a state\)", "TIME, SIZE", line)
    line = re.sub(r"( schedules?), [\d.,]+ s$", r"\1, TIME", line)
    return re.sub(r"\d[\d,]*(\.\d+)?", "N", line) if COUNTED.search(line) else line


def agrees(shown: list[str], printed: list[str]) -> bool:
    """Whether a guide shows what was printed."""
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(evened(line)) + r"\n" for line in shown]
    return re.fullmatch("".join(parts), "".join(f"{evened(line)}\n" for line in printed)) is not None


def marked(guide: Path) -> Any:
    """A guide that starts a process is for those who test with processes."""
    starts = any(
        command.endswith(" &") or " --over-http" in command for command, _ in commands(guide.read_text())
    )
    return pytest.param(guide, id=guide.stem, marks=[pytest.mark.server] if starts else [])


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for language, body in blocks(text):
        if language == "console":
            yield from transcripts(body)


@pytest.mark.parametrize("guide", [marked(guide) for guide in GUIDES])
def test_a_guide_does_what_it_says(
    guide: Path,
    pytester: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(pytester.path)
    monkeypatch.syspath_prepend(pytester.path)
    names: dict[str, object] = {}
    with contextlib.ExitStack() as processes:
        follow(guide, pytester, capsys, names, Ports(), processes)


def follow(
    guide: Path,
    pytester: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    names: dict[str, object],
    ports: "Ports",
    processes: contextlib.ExitStack,
) -> None:
    for language, body in blocks(ports.real(guide.read_text())):
        first = body.split("\n", 1)[0]
        file = re.fullmatch(r"# (\w+\.py)", first)
        if language == "python" and file:
            Path(file[1]).write_text(body)
        elif language == "python" and (changed := re.fullmatch(r"# in (\w+\.py)", first)):
            Path(changed[1]).write_text(edited(Path(changed[1]).read_text(), body))
        elif " " in language:
            Path(language.split()[1]).write_text(body)
        elif language == "python":
            exec(compile(body, str(guide), "exec"), names)
        elif language == "console":
            for command, shown in transcripts(body):
                words = shlex.split(command)
                if words[0] in NOT_RUN or (command in LONG and not DEEP):
                    continue
                stands = f"{pytester.path.as_uri()}/"
                words = [word.replace(FOLDER, stands) for word in words]
                if words[-1] == "&":
                    printed = [processes.enter_context(started(words[:-1]))]
                else:
                    printed = printed_by(words, pytester, capsys)
                printed = [line.replace(stands, FOLDER) for line in printed]
                lines = [f"{guide.name} shows for `{command}`:", *shown, "and it prints:", *printed]
                assert agrees(shown, printed), "\n".join(lines)


def edited(text: str, body: str) -> str:
    """A file after a block that changes it."""
    before, after = body.split("\n", 1)[1].split("# becomes\n")
    before = before.rstrip("\n") + "\n"  # a formatter likes a blank line behind imports
    assert text.count(before) == 1, f"this must stand in the file exactly once:\n{before}"
    return text.replace(before, after)


class Ports:
    """Free ports of this machine, each standing for one that a guide names."""

    def __init__(self) -> None:
        self._free: dict[str, str] = {}

    def real(self, text: str) -> str:
        return re.sub(r"(127\.0\.0\.1:)(84\d\d)\b", lambda found: found[1] + self._one(found[2]), text)

    def _one(self, port: str) -> str:
        if port not in self._free:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self._free[port] = str(free.getsockname()[1])
        return self._free[port]


@contextlib.contextmanager
def started(words: list[str]) -> Iterator[str]:
    """A command that runs until the end of the guide, and the first line it prints."""
    assert words[0] == "fencepost"
    with subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().rstrip()
        finally:
            process.terminate()
            assert process.wait(60) == 0, "it must end well when it is stopped"


def printed_by(words: list[str], pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    if words[0] == "fencepost":
        with pytest.MonkeyPatch.context() as patch:
            if words[1] == "check":
                patch.setenv("COLUMNS", "250")  # its tables are as wide as the longest sentence of a property
            exit_of(*words[1:])
    else:
        assert words[0] == "pytest", f"a guide may run fencepost and pytest, not {words[0]}"
        pytester.runpytest_inprocess("-p", "no:cacheprovider", *words[1:])
    captured = capsys.readouterr()
    return [*captured.out.splitlines(), *captured.err.splitlines()]


def test_a_guide_that_shows_something_else_is_caught() -> None:
    """The check above must be able to fail."""
    printed = ["13 interleavings, 0.01 s", "    1   ann   head leader -> missing", "f --replay a:put:k:1"]
    assert agrees(["14 interleavings, 2.50 s", *printed[1:]], printed)
    assert agrees(["...", "f --replay other"], printed)
    assert agrees(["..."], printed)
    assert not agrees([], printed)
    assert not agrees(printed[:2], printed)
    assert not agrees([printed[0], printed[1].replace("ann", "bob"), printed[2]], printed)
    assert not agrees(["...", "g --replay other"], printed)


def test_commands_are_found_with_what_they_print() -> None:
    body = "$ a b\none\ntwo\n$ c\n"
    assert list(transcripts(body)) == [("a b", ["one", "two"]), ("c", [])]
    assert list(blocks("x\n```python\n# f.py\n1\n```\n```\nno\n```\n")) == [("python", "# f.py\n1\n")]
    assert list(blocks("```csv a.csv\nid\n```\n")) == [("csv a.csv", "id\n")]
    assert agrees(
        ["3 distinct states, 0.01 s, 72 bytes (24 bytes a state)"],
        ["3 distinct states, 2.30 s, 1.2 KiB (9 bytes a state)"],
    )
    assert not agrees(["3 distinct states, 0.01 s"], ["4 distinct states, 0.01 s"])


def test_a_change_that_does_not_fit_is_caught() -> None:
    assert edited("a\nb\n", "# in x.py\nb\n# becomes\nc\n") == "a\nc\n"
    assert edited("a\nb\n", "# in x.py\nb\n\n# becomes\nc\n") == "a\nc\n"
    with pytest.raises(AssertionError, match="exactly once"):
        edited("a\nb\n", "# in x.py\nd\n# becomes\nc\n")
