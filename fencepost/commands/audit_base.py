"""`fencepost audit SYSTEM... --base REV`: the audit before a merge, of the code at two revisions.

The tree of REV is written to a folder outside the repository. The same audit runs on that tree and on the
present files, in a process each, and the two results are compared. Packages of the repository are taken
from each tree; everything else is what is installed. Programs that the change touches come first. In them the
protective steps on changed lines are left out, one at a time: a step that no property misses is listed.
"""

import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fencepost.commands.audit_mutate import processor_seconds
from fencepost.commands.changed_code import (
    Repository,
    changed_code,
    changed_steps,
    find_repository,
    program_files,
)
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.output_files import write_file
from fencepost.commands.provenance import command_line
from fencepost.commands.rows import MutantsResult, Row
from fencepost.commands.terminal import finish
from fencepost.commands.user_files import is_file_name, split
from fencepost.comparing import CompareResult, Comparison, Unnoticed, compare, together, verdict_of
from fencepost.reports.audit_text import compare_text
from fencepost.reports.code_hosts import markdown
from fencepost.reports.command_lines import PRINTING, SEARCHING, with_token
from fencepost.reports.folder import Entry, Findings
from fencepost.results import Recorded, recorded
from fencepost.sim.explore.result import AuditResult

MUTANTS_SHARE, MUTANTS_SECONDS = 0.1, 30.0
"""Part of --budget in which steps on changed lines are left out; processor time for it without a budget."""


class Budget:
    """Processor time for the audits at each revision."""

    def __init__(self, seconds: float | None) -> None:
        self._left = seconds

    def share(self, programs: int) -> float | None:
        """Return the time for the next of so many programs; None if it is not limited, 0 if it is over."""
        return None if self._left is None else max(0.0, self._left) / programs

    def spend(self, seconds: float) -> None:
        if self._left is not None:
            self._left -= seconds


def compare_with_base(
    systems: Sequence[str],
    revision: str,
    json_file: str | None,
    *,
    markdown_file: str | None = None,
    seconds: float | None = None,
    mutating: bool = True,
) -> int:
    """Audit programs at `revision` and as they are now, with the options of the command; report differences.

    `seconds`: processor time at each revision, for all programs and for leaving out steps on changed lines.
    `mutating`: leave them out; the options of the command allow it.
    """
    repository = find_repository(systems[0], revision)
    for system in systems[1:]:
        if find_repository(system, revision).root != repository.root:
            raise BadRequest(f"{systems[0]} and {system} lie in different repositories; compare each alone")
    with tempfile.TemporaryDirectory(prefix="fencepost-base-") as scratch:
        both = _Both(systems, repository, Path(scratch))
        files = {system: both.files_of(system) for system in systems}
        # The code of a shipped program is what is installed: what the change does to it is not known.
        touched = [
            system
            for system in systems
            if not files[system] or any(file in both.changed for file in files[system])
        ]
        steps = {system: changed_steps(files[system], both.changed) for system in touched if mutating}
        reserved = MUTANTS_SHARE if any(steps.values()) else 0.0
        budget = Budget(None if seconds is None else seconds * (1 - reserved))
        found: dict[str, Comparison] = {}
        # Programs that the change touches come first; the others share the rest of the budget.
        for group in (touched, [system for system in systems if system not in touched]):
            for place, system in enumerate(group):
                share = budget.share(len(group) - place)
                found[system] = both.compare(system, share, budget, touched=system in touched)
        budget = Budget(MUTANTS_SECONDS if seconds is None else seconds * reserved)
        trying = [system for system in touched if steps.get(system)]
        for place, system in enumerate(trying):
            found[system] = both.mutate(found[system], budget.share(len(trying) - place), budget)
    result = together([*found.values()], repository.revision)
    again = [
        with_token(shlex.join(["fencepost", "audit", system, *both.replaying]), violation.token)
        for system, one in found.items()
        if one.after is not None
        for violation in one.after.result.violations
    ]
    if markdown_file and markdown_file != "-":
        write_file(Path(markdown_file), markdown(Findings([Entry("", result)])).encode(), "--markdown")
    elif markdown_file:
        say(markdown(Findings([Entry("", result)])), nl=False)
    text = compare_text(result, revision, again)
    return finish(result, text, json_file, passes=passes(result), stderr=markdown_file == "-")


def passes(result: CompareResult) -> bool:
    """Return True if nothing is worse, and what is undecided holds as far as --enough demands."""
    return result.verdict == "undecided" and all(
        part.after is not None and part.after.result.passes
        for part in result.programs or (result,)
        if part.verdict == "undecided"
    )


class _Both:
    """Programs at two revisions."""

    def __init__(self, systems: Sequence[str], repository: Repository, folder: Path) -> None:
        self._repository = repository
        self._folder = folder
        self._tree = write_tree(repository, folder / "tree")
        self.words = _options_of_command(("--base", "--json", "--markdown", "--budget"), systems)
        self.replaying = _options_of_command(SEARCHING, systems)
        self.changed = changed_code(repository)
        root = repository.root.resolve()
        self._folders = [Path.cwd().resolve(), root, root / "src", *packages(root, folder / "packages")]

    def files_of(self, system: str) -> list[Path]:
        """Return the files of a program; none of a shipped one."""
        return program_files(Path(split(system)[0]), self._folders) if is_file_name(system) else []

    def compare(self, system: str, share: float | None, budget: Budget, *, touched: bool) -> Comparison:
        """Audit a program twice, within a share of the budget for each audit."""
        if share == 0:
            why = "the budget ran out before it"
            return Comparison(system=system, verdict="undecided", touched=touched, left_out=why)
        words = self.words if share is None else [*self.words, "--budget", f"{share:.6f}"]
        spent = [processor_seconds()]
        before, after = None, None
        for tree in (self._tree, self._repository.root):
            before, after = after, _audit(system, words, self._repository, tree, self._target())
            spent.append(processor_seconds())
        if after is None:
            raise BadRequest(f"the audit of {system} as it is now could not run; see the line above")
        budget.spend(max(spent[1] - spent[0], spent[2] - spent[1]))
        changes = compare(before.result, after.result) if before is not None else []
        return Comparison(
            system=system,
            verdict=after.result.verdict if before is None else verdict_of(changes, after.result),
            changes=tuple(changes),
            touched=touched,
            before=before,
            after=after,
        )

    def mutate(self, found: Comparison, share: float | None, budget: Budget) -> Comparison:
        """Leave out the steps on changed lines of a program that holds, and list those that go unnoticed."""
        now = found.after.result.verdict if found.after is not None else "not compared"
        if now != "holds":
            return replace(found, untried=f"the program must hold for that, and is {now}")
        if not share:
            return replace(found, untried="the budget ran out before it")
        started = processor_seconds()
        target = self._target()
        name = self._repository.revision
        words = [*self.words, "--mutate", "--base", name, "--budget", f"{share:.6f}"]
        ran = ran_on_tree("audit", found.system, words, self._repository, self._repository.root, target)
        budget.spend(processor_seconds() - started)
        if not ran:
            return replace(found, untried="their audits could not run")
        rows = recorded(MutantsResult, json.loads(target.read_text(encoding="utf-8"))).result.rows
        tried = [row for row in rows if row.safeguard and row.tried]
        left = sum(1 for row in tried if row.verdict == "undecided")
        whole = next((row for row in rows if not row.safeguard), None)
        untried = f"their time ran out before {left} of {len(tried)} were decided" if left else ""
        if whole is not None and whole.verdict != "holds":
            untried = "their time ran out before the program was decided again"
        return replace(
            found,
            untried=untried,
            unnoticed=tuple(self._unnoticed(row) for row in tried if row.verdict == "holds"),
        )

    def _target(self) -> Path:
        """Return a file for a result, in a folder of its own: packages of the tree are linked beside it."""
        return Path(tempfile.mkdtemp(dir=self._folder)) / "result.json"

    def _unnoticed(self, row: Row) -> Unnoticed:
        file = Path(row.file).resolve()
        root = self._repository.root.resolve()
        name = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.name
        kind = row.safeguard.rpartition(":")[2].partition(".")[0]
        return Unnoticed(file=name, line=row.line, kind=kind, code=row.code)


def _options_of_command(without: Sequence[str], systems: Sequence[str]) -> list[str]:
    """Return the words of the command that is running, behind its name, without options and programs."""
    words = shlex.split(command_line(without=without, flags=PRINTING))[2:]
    for system in systems:
        words.remove(system)
    return words


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
