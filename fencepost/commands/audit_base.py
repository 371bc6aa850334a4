"""`fencepost audit SYSTEM --base REV`: the audit before a merge, of the code at two revisions.

The tree of REV is written to a folder outside the repository. The same audit runs on that tree and on the
present files, in a process each, and the two results are compared. Packages of the repository are taken
from each tree; everything else is what is installed.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.provenance import command_line
from fencepost.commands.terminal import finish
from fencepost.commands.user_files import is_file_name, split
from fencepost.comparing import CompareResult, compare, verdict_of
from fencepost.reports.audit_text import compare_text
from fencepost.reports.command_lines import PRINTING, SEARCHING, with_token
from fencepost.results import Recorded, recorded
from fencepost.sim.explore.result import AuditResult


@dataclass(frozen=True)
class Repository:
    """Where the code lies under version control."""

    root: Path
    revision: str
    """The full name of the commit to compare with."""
    name: str
    """The revision as the user wrote it."""


def compare_with_base(system: str, revision: str, json_file: str | None) -> int:
    """Audit `system` at `revision` and as it is now, with the options of the command; report differences."""
    words = shlex.split(command_line(without=("--base", "--json"), flags=PRINTING))
    words.remove(system)
    repository = find_repository(system, revision)
    with tempfile.TemporaryDirectory(prefix="fencepost-base-") as scratch:
        folder = Path(scratch)
        tree = write_tree(repository, folder / "tree")
        before = _audit(system, words[2:], repository, tree, folder / "before.json")
        after = _audit(system, words[2:], repository, repository.root, folder / "after.json")
    if after is None:
        raise BadRequest(f"the audit of {system} as it is now could not run; see the line above")
    changes = compare(before.result, after.result) if before is not None else []
    result = CompareResult(
        system=system,
        base=repository.revision,
        verdict=after.result.verdict if before is None else verdict_of(changes, after.result),
        changes=tuple(changes),
        before=before,
        after=after,
    )
    replaying = command_line(without=SEARCHING, flags=PRINTING)
    again = [with_token(replaying, violation.token) for violation in after.result.violations]
    return finish(result, compare_text(result, revision, again), json_file)


def find_repository(system: str, revision: str) -> Repository:
    """The repository of the audited file, or of the current folder for a shipped system."""
    start = Path(split(system)[0]).resolve().parent if is_file_name(system) else Path.cwd()
    if not start.is_dir():
        raise BadRequest(f"there is no file {split(system)[0]}; give the path of the file to audit")
    root = _git(start, "rev-parse", "--show-toplevel")
    if not root:
        raise BadRequest(
            f"--base compares with a revision, and {start} is not under git; audit it without --base"
        )
    commit = _git(start, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        raise BadRequest(f"--base: git knows no revision {revision!r} in {root}; git log lists them")
    return Repository(Path(root), commit, revision)


def write_tree(repository: Repository, target: Path) -> Path:
    """The files of the revision below `target`. The repository itself is not touched."""
    target.mkdir()
    archive = target.with_suffix(".tar")
    with archive.open("wb") as file:
        subprocess.run(  # noqa: S603 - the words are ours, the revision is a commit's full name
            ["git", "archive", "--format=tar", repository.revision],  # noqa: S607 - the user's own git
            cwd=repository.root,
            stdout=file,
            check=True,
        )
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    archive.unlink()
    return target


def _audit(
    system: str, words: Sequence[str], repository: Repository, tree: Path, target: Path
) -> Recorded[AuditResult] | None:
    """The result of the audit on a tree, or None when it could not run there."""
    if not ran_on_tree("audit", system, [*words, "--quiet"], repository, tree, target):
        return None
    return recorded(AuditResult, json.loads(target.read_text(encoding="utf-8")))


def ran_on_tree(
    command: str, system: str, words: Sequence[str], repository: Repository, tree: Path, target: Path
) -> bool:
    """Run a command on the code of a tree, and write its JSON; return False if it could not run there."""
    here = Path.cwd().resolve()
    within = here.relative_to(repository.root) if here.is_relative_to(repository.root) else Path()
    if is_file_name(system):
        path, wanted = split(system)
        file = (here / path).resolve().relative_to(repository.root)
        named = os.path.relpath(tree / file, tree / within) + (f":{wanted}" if wanted else "")
    else:
        named = system
    folder = tree / within
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(path) for path in [*packages(tree, target.with_suffix(".packages")), tree, tree / "src"]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    # -P: the folder it is started in must not come before these, where a package is a folder of the root.
    ran = subprocess.run(  # noqa: S603 - this interpreter, with the words this command was given
        [sys.executable, "-P", "-m", "fencepost", command, named, *words, "--json", str(target)],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ran.returncode == Exit.BAD_REQUEST or not target.exists():
        say(
            ran.stderr.strip().splitlines()[-1] if ran.stderr.strip() else "fencepost: it did not run",
            err=True,
        )
        return False
    return True


def packages(tree: Path, target: Path) -> list[Path]:
    """Where packages lie that `pyproject.toml` maps to folders of other names, as links in `target`."""
    settings = tree / "pyproject.toml"
    try:
        mapping = tomllib.loads(settings.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-dir"]
    except (OSError, KeyError, ValueError):
        return []
    if "" in mapping or not isinstance(mapping, dict):
        return [tree / str(mapping[""])] if isinstance(mapping, dict) else []
    for name, folder in sorted(mapping.items()):
        _link(target.joinpath(*name.split(".")), tree / folder)
    return [target]


def _link(place: Path, folder: Path) -> None:
    """A folder with links to what `folder` holds, so that further packages can be put into it."""
    place.mkdir(parents=True, exist_ok=True)
    for child in folder.iterdir():
        if not (place / child.name).exists():
            (place / child.name).symlink_to(child)


HUNK = re.compile(r"@@ [^+]*\+(?P<start>\d+)(?:,(?P<count>\d+))? @@")


def changed_lines(revision: str) -> dict[str, frozenset[int]]:
    """Return the lines of the files below the working directory that differ from a revision, by file."""
    here = Path.cwd()
    if not _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"):
        raise BadRequest(f"--base {revision}: git knows no such commit here")
    found: dict[str, set[int]] = {}
    file = ""
    options = ("--unified=0", "--no-color", "--no-ext-diff", "--relative", "--no-prefix")
    for line in _git(here, "diff", *options, "--end-of-options", revision, "--").splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ ")
        elif hunk := HUNK.match(line):
            start, count = int(hunk["start"]), int(hunk["count"] or 1)
            found.setdefault(file, set()).update(range(start, start + count))
    return {file: frozenset(lines) for file, lines in found.items()}


def _git(folder: Path, *words: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - the words are ours; a revision follows --end-of-options
            ["git", *words],  # noqa: S607 - the user's own git
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        raise BadRequest(f"--base needs git, which cannot be started: {error.strerror}") from error
    return ran.stdout.strip() if ran.returncode == 0 else ""
