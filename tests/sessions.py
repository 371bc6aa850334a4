"""Run every nox session in turn and write one table: `nox -s all`.

    python -m tests.sessions [--fresh] [--allow-missing] [--only NAME,NAME] [--limit MINUTES] [--folder DIR]

Each session runs as `nox -s NAME` in a process group of its own; its output goes to DIR/NAME.log.
The table is written after every session, as DIR/table.md and DIR/table.json.

A session that was green for this commit with a clean tree is not run again. A red session does not end the
run. A session whose programs are missing, and cannot be installed, is "not run". The exit code is 1 if a
session is red or not run (`--allow-missing` accepts the latter), and 130 after Ctrl-C, which ends everything.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests import outcomes

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "out" / "sessions"
LEFT_OUT = {
    "bench": "measures one benchmark that is named",
    "release": "asks for this table to be green",
    "ceph": "needs a checkout of the suite, which is named",
}
"""Sessions that are no test, with the reason."""
LAST = ("deep", "mutants")
"""Long sessions, which run after the others."""
LIMIT_MIN = 90.0
"""Minutes after which a session is stopped and red."""
GRACE_S = 15.0
"""Seconds that an interrupted session has to stop its servers before it is killed."""


def _java_17() -> bool:
    if shutil.which("java") is None:
        return False
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', version)
    return found is not None and int(found[1]) >= 17


@dataclass(frozen=True)
class Need:
    """A program of the system that a session needs."""

    name: str
    package: str
    """Its package of Debian and Ubuntu."""
    check: Callable[[], bool] | None = None

    def met(self) -> bool:
        return shutil.which(self.name) is not None if self.check is None else self.check()

    def install(self) -> None:
        """Install the package if this is root on a system with apt-get."""
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            return
        install = ["apt-get", "install", "-y", "-q", self.package]
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (install, ["apt-get", "update", "-q"], install):
            subprocess.run(command, capture_output=True, check=False, env=environment)
            if self.met():
                return

    @property
    def missing(self) -> str:
        return f"{self.name} is missing: apt-get install {self.package}"


NODE = Need("node", "nodejs")
NPM = Need("npm", "npm")
NEEDS = {
    "clients": (Need("rclone", "rclone"),),
    "conformance": (NODE, NPM),
    "matrix": (NODE, NPM),
    "pages": (Need("chromium", "chromium"),),
    "servers": (NODE, NPM),
    "spark": (Need("java 17", "openjdk-17-jre-headless", _java_17),),
}
"""Programs that a session needs beside Python, by session."""


@dataclass
class Row:
    session: str
    result: str
    """green, red, not run, or left out."""
    why: str = ""
    """Reason of any result but green."""
    passed: int | None = None
    """Passed tests; None if the session counts none."""
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    """Number of skipped tests by reason."""
    seconds: float = 0.0
    load: float = 0.0
    """Mean of the load averages at the begin and at the end."""
    commit: str = ""
    """Commit of the tree, if the tree was clean at the begin and at the end."""

    @property
    def tests(self) -> int | None:
        if self.passed is None:
            return None
        return self.passed + len(self.failed) + sum(self.skipped.values())

    def line(self) -> str:
        counts = [f"{self.passed:,} passed"] if self.passed is not None else []
        counts += [f"{len(self.failed)} failed"] if self.failed else []
        counts += [f"{sum(self.skipped.values())} skipped"] if self.skipped else []
        counts += [f"{self.seconds:,.0f} s"] if self.seconds else []
        return ", ".join([self.result, *([self.why] if self.why else []), *counts])


class Table:
    """Rows of the last runs, kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {}
        self._order: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            found = json.loads((folder / "table.json").read_text())
            self.rows = {one["session"]: _row(one) for one in found["sessions"]}

    def green(self, session: str, commit: str) -> bool:
        """Return True if the session was green for this commit; an empty commit is a tree with changes."""
        row = self.rows.get(session)
        return row is not None and row.result == "green" and bool(commit) and row.commit == commit

    def begin(self, sessions: Sequence[str]) -> None:
        """Drop rows of sessions that are no more, and keep the order of `sessions`."""
        self.rows = {name: self.rows[name] for name in sessions if name in self.rows}
        self._order = list(sessions)
        self.write()

    def put(self, row: Row) -> None:
        self.rows[row.session] = row
        self.rows = {name: self.rows[name] for name in self._order if name in self.rows}
        self.write()

    def drop(self, session: str) -> None:
        """Forget the last run of a session, so that a run that is cut leaves no result."""
        self.rows.pop(session, None)
        self.write()

    def write(self) -> None:
        rows = [asdict(row) | {"tests": row.tests} for row in self.rows.values()]
        replace(self.folder / "table.json", json.dumps({"sessions": rows}, indent=1) + "\n")
        replace(self.folder / "table.md", markdown(self.rows.values()))


def _row(fields: dict[str, Any]) -> Row:
    return Row(**{name: value for name, value in fields.items() if name != "tests"})


def replace(file: Path, text: str) -> None:
    """Write the file as a whole or not at all."""
    written = file.with_suffix(file.suffix + ".new")
    written.write_text(text)
    written.replace(file)


def markdown(rows: Iterable[Row]) -> str:
    rows = list(rows)
    lines = [
        "| session | result | tests | passed | failed | skipped | seconds | load | commit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        skipped = str(sum(row.skipped.values()))
        if row.skipped:
            reasons = "; ".join(f"{count} {why}" for why, count in sorted(row.skipped.items()))
            skipped += f": {reasons}".replace("|", "\\|").replace("\n", " ")
        result = f"{row.result}: {row.why}" if row.why else row.result
        counts = [str(row.tests), str(row.passed), str(len(row.failed)), skipped]
        cells = [
            *(row.session, result),
            *(counts if row.passed is not None else ["-"] * 4),
            *((f"{row.seconds:.0f}", f"{row.load:.1f}") if row.seconds else ("-", "-")),
            row.commit[:9] or "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    failed = [f"- {row.session}: `{name}`" for row in rows for name in row.failed]
    return "\n".join([*lines, *(["", "Failed:", "", *failed] if failed else []), ""])


def sessions_of(listing: str) -> list[str]:
    """Return the names of the sessions that `nox --list --json` printed, each once, long ones last."""
    names = dict.fromkeys(one["name"] for one in json.loads(listing) if one["name"] != "all")
    return sorted(names, key=lambda name: name in LAST)


def listed() -> list[str]:
    every = ["-k", "not no_such_session"]  # without a selection nox lists its default sessions
    command = [sys.executable, "-m", "nox", "--list", "--json", *every]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sessions_of(listing)


def clean_commit() -> str:
    """Return the commit of the tree, or an empty string if files differ from it or git is missing."""
    try:
        changes = _git("status", "--porcelain")
        return "" if changes else _git("rev-parse", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*words: str) -> str:
    found = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def command(session: str) -> list[str]:
    return [sys.executable, "-m", "nox", "-s", session]


def run(session: str, folder: Path, limit_s: float) -> Row:
    """Run one session to its end and return its row."""
    counts = folder / f"{session}.outcomes"
    counts.unlink(missing_ok=True)
    before, load, begin = clean_commit(), os.getloadavg()[0], time.monotonic()
    with (folder / f"{session}.log").open("wb") as log:
        child = subprocess.Popen(
            command(session),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, outcomes.VARIABLE: str(counts)},
            start_new_session=True,  # a signal reaches all of its processes
        )
        why = ""
        try:
            code = child.wait(limit_s)
            why = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            why = f"stopped after {limit_s / 60:g} minutes"
        finally:
            end(child)
    found = outcomes.read(counts)
    return Row(
        session,
        "red" if why else "green",
        why,
        passed=None if found is None else found.passed,
        failed=[] if found is None else found.failed,
        skipped={} if found is None else dict(found.skipped),
        seconds=time.monotonic() - begin,
        load=(load + os.getloadavg()[0]) / 2,
        commit=before if before == clean_commit() else "",
    )


def end(child: subprocess.Popen[bytes]) -> None:
    """End the process, its group and its descendants: a signal first, then a kill."""
    if child.poll() is None:
        family = _descendants(child.pid)
        _signal_group(child.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
        for pid in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _descendants(pid: int) -> list[int]:
    """Return the identifiers of the processes below `pid`, also of those that left its group."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False
    ).stdout
    parents = dict(map(int, line.split()) for line in listing.splitlines())
    found = [pid]
    for one in found:
        found += [other for other, parent in parents.items() if parent == one]
    return found[1:]


def missing(session: str) -> str:
    """Return one line that names a missing program, after the attempt to install it, or an empty string."""
    for need in NEEDS.get(session, ()):
        if not need.met():
            need.install()
        if not need.met():
            return need.missing
    return ""


def run_all(sessions: Sequence[str], table: Table, fresh: bool, limit_s: float) -> None:
    """Run the sessions that are not green for this commit, a line and a row each."""
    width = max(map(len, sessions))
    for session in sessions:
        sys.stdout.write(f"{session:{width}}  ")
        sys.stdout.flush()
        if session in LEFT_OUT:
            row = Row(session, "left out", LEFT_OUT[session])
        elif not fresh and table.green(session, clean_commit()):
            sys.stdout.write(f"{table.rows[session].line()} (not run again)\n")
            continue
        elif why := missing(session):
            row = Row(session, "not run", why)
        else:
            table.drop(session)
            row = run(session, table.folder, limit_s)
        table.put(row)
        sys.stdout.write(f"{row.line()}\n")
        sys.stdout.flush()


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="nox -s all --", description="Run every session in turn.")
    parser.add_argument("--fresh", action="store_true", help="run also what is green for this commit")
    parser.add_argument("--allow-missing", action="store_true", help="accept sessions that are not run")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help="these sessions")
    parser.add_argument("--limit", type=float, default=LIMIT_MIN, metavar="MINUTES", help="for each session")
    parser.add_argument("--folder", type=Path, default=FOLDER, metavar="DIRECTORY")
    options = parser.parse_args(words)
    sessions = listed()
    chosen = options.only.split(",") if options.only else sessions
    if unknown := set(chosen) - set(sessions):
        parser.error(f"no session {', '.join(sorted(unknown))}; there are {', '.join(sessions)}")
    table = Table(options.folder)
    table.begin(sessions)
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        run_all(chosen, table, options.fresh, options.limit * 60)
    except KeyboardInterrupt:
        sys.stdout.write("interrupted; the same command continues here\n")
        return 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    sys.stdout.write(f"{options.folder / 'table.md'}\n")
    accepted = {"green", "left out"} | ({"not run"} if options.allow_missing else set())
    return int(any(table.rows[name].result not in accepted for name in chosen))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
