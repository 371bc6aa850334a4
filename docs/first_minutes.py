"""Writes first-minutes.md: the transcript of a first session, typed into a shell in a pseudo-terminal.

python docs/first_minutes.py            # type everything, write the page
python docs/first_minutes.py --check    # compare with the page, apart from figures that vary

Nothing in the transcript is written by hand but the remarks and the commands below.
"""

import difflib
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.impl.environment import SystemEnvironment

PAGE = Path(__file__).with_name("first-minutes.md")
PROMPT = "fencepost-first-minutes> "
WIDTH, SECONDS_MAX = 110, 900
LINES_MAX = 24
"""Of one command's output on the page; what is longer is cut in the middle, and the cut is marked."""

NAIVE = """from fencepost.store import ANYTHING


def leader(world):
    store = world.store()

    def claim(name):
        if not store.head("leader").done:
            store.put("leader", name.encode(), when=ANYTHING)
            world.note("leads", name)

    for name in ("ann", "bob"):
        world.spawn(claim, name, name=name)
    world.always("one leads", lambda view: len(view.notes("leads")) < 2)
"""
FIXED = NAIVE.replace("ANYTHING", "ABSENT").replace(
    """        if not store.head("leader").done:
            store.put("leader", name.encode(), when=ABSENT)
            world.note("leads", name)
""",
    """        if store.put("leader", name.encode(), when=ABSENT).done:
            world.note("leads", name)
""",
)


@dataclass(frozen=True)
class Typed:
    """A remark of the page and a command; `file` and `text` are an editor's work before it."""

    remark: str
    command: str
    file: str = ""
    text: str = ""


SESSION = (
    Typed("What is there?", "fencepost --help"),
    Typed("The tour shows each of the questions, and answers it:", "fencepost demo"),
    Typed("A textbook protocol holds in every state it can reach,", "fencepost check two-phase"),
    Typed(
        "and breaks without one of its safeguards; the shortest way there is printed.",
        "fencepost check two-phase --without all-prepared",
    ),
    Typed(
        "Now code of my own: a process that finds no leader writes its name.",
        "fencepost audit leader.py:leader",
        "leader.py",
        NAIVE,
    ),
    Typed(
        "Two lead. With a conditional create nobody has to look first:",
        "fencepost audit leader.py:leader",
        "leader.py",
        FIXED,
    ),
    Typed("Can I build on this store?", "fencepost probe memory:// --quick"),
    Typed("What does a cap on requests in flight do to the tail?", "fencepost simulate cap-tail"),
    Typed(
        "Something to show to a colleague:",
        "mkdir out; fencepost audit leader.py:leader --quiet --json out/audit.json; fencepost report out",
    ),
)


def _seconds() -> float:
    return SystemEnvironment().monotonic_ns() / 1e9


class Shell:
    """An interactive bash in a pseudo-terminal."""

    def __init__(self, folder: Path) -> None:
        self._master, slave = pty.openpty()
        programs = str(Path(sys.executable).parent)
        environment = {
            "PATH": f"{programs}:{os.environ.get('PATH', '')}",
            "HOME": str(folder),
            "PS1": PROMPT,
            "TERM": "xterm",
            "COLUMNS": str(WIDTH),
            "LINES": "50",
        }
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],  # noqa: S607 - the shell that is installed
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self._read_until_prompt()
        self.type(f"stty cols {WIDTH} rows 50")

    def type(self, command: str) -> tuple[list[str], float]:
        """Return the text before the next prompt, and the seconds until then."""
        began = _seconds()
        os.write(self._master, f"{command}\n".encode())
        shown = self._read_until_prompt()
        return [*lines(shown.partition("\n")[2])], _seconds() - began

    def _read_until_prompt(self) -> str:
        shown, deadline = "", _seconds() + SECONDS_MAX
        while not shown.endswith(PROMPT):
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - _seconds()))
            if not ready:
                raise TimeoutError(f"no prompt after {SECONDS_MAX} s: {shown[-500:]}")
            shown += os.read(self._master, 65536).decode("utf-8", "replace")
        return shown.removesuffix(PROMPT)

    def close(self) -> None:
        os.write(self._master, b"exit\n")
        self._process.wait(10)
        os.close(self._master)


def lines(shown: str) -> Iterator[str]:
    """Yield the lines that are left on the screen, without colours and without text that was written over."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][AB0]|\x1b[=>]", "", shown)
    for line in plain.replace("\r\n", "\n").split("\n"):
        text = line.rsplit("\r", 1)[-1].rstrip()
        if text and not re.match(r"^[⠁-⣿] ", text):
            yield text


def transcript() -> str:
    """The page."""
    parts = [
        "# The first minutes",
        "<!-- Written by docs/first_minutes.py, which types these commands into a terminal; change that. -->",
        "A first session, typed into a terminal by a script. Every line of output is from that run.",
    ]
    whole = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        shell = Shell(folder)
        for typed in SESSION:
            parts.append(f"{typed.remark}")
            if typed.file:
                (folder / typed.file).write_text(typed.text)
                parts.append(f"```python\n# {typed.file}\n{typed.text}```")
            shown, seconds = shell.type(typed.command)
            whole += seconds
            shown = [line.replace(str(folder), "/home/you") for line in shown]
            if len(shown) > LINES_MAX:
                left = len(shown) - LINES_MAX
                shown = [*shown[: LINES_MAX // 2], f"... {left} lines ...", *shown[-LINES_MAX // 2 :]]
            parts.append(
                "```text\n" + "\n".join([f"$ {typed.command}", *shown]) + f"\n```\n\n({seconds:.1f} s)"
            )
        shell.close()
    parts.append(f"Typed without a pause, these {len(SESSION)} commands took {whole:.0f} s.")
    return "\n\n".join(parts) + "\n"


def evened(text: str) -> str:
    """The page without what varies from run to run: figures, tokens, progress of a moment."""
    text = re.sub(r"fencepost-probe/\w+", "PREFIX", re.sub(r"--replay \S+", "--replay TOKEN", text))
    return " ".join(re.sub(r"\d[\d,.]*", "N", text).split())


def main() -> int:
    made = transcript()
    if "--check" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        if evened(made) == evened(page):
            return 0
        sys.stdout.writelines(difflib.unified_diff(page.splitlines(True), made.splitlines(True), n=0))
        sys.stdout.write(f"{PAGE.name} is out of date; run python docs/first_minutes.py\n")
        return 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
