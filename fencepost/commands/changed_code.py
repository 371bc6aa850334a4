"""The code that a change touches: lines that differ from a revision, and the files that a program imports.

Imports are read from the text of the files, so nothing is loaded: `import` and `from` anywhere in a file,
absolute or relative, where the module is a file of the repository. A module that is imported by a name that
is computed, and a file that is read as data, are not seen.
"""

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.user_files import is_file_name, split
from fencepost.sim.mutation import Mutation, mutations


@dataclass(frozen=True)
class Repository:
    """Where the code lies under version control."""

    root: Path
    revision: str
    """The full name of the commit to compare with."""
    name: str
    """The revision as the user wrote it."""


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


HUNK = re.compile(r"@@ [^+]*\+(?P<start>\d+)(?:,(?P<count>\d+))? @@")


def changed_lines(revision: str, folder: Path | None = None) -> dict[str, frozenset[int]]:
    """Return the lines of the files below a folder that differ from a revision, by file.

    The folder is the working directory unless it is given.
    """
    here = folder or Path.cwd()
    if not _git(here, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"):
        raise BadRequest(f"--base {revision}: git knows no such commit here")
    found: dict[str, set[int]] = {}
    file = ""
    options = ("--unified=0", "--no-color", "--no-ext-diff", "--relative", "--no-prefix")
    words = ("-c", "core.quotePath=false", "diff", *options, "--end-of-options", revision, "--")
    for line in _git(here, *words).splitlines():
        if line.startswith("+++ "):
            file = line.removeprefix("+++ ").rstrip("\t")  # git ends a name with spaces so
        elif hunk := HUNK.match(line):
            start, count = int(hunk["start"]), int(hunk["count"] or 1)
            found.setdefault(file, set()).update(range(start, start + count))
    return {file: frozenset(lines) for file, lines in found.items()}


Changed = Mapping[Path, frozenset[int]]
"""By file, as a whole path: its changed lines; none where lines are only gone."""


def changed_code(repository: Repository) -> Changed:
    """Return the changed lines of the repository. Of a file that git does not follow yet, every line is."""
    root = repository.root.resolve()
    found = {root / file: lines for file, lines in changed_lines(repository.revision, root).items()}
    for name in _git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", "*.py").split("\0"):
        if name and (root / name).is_file():
            found[root / name] = frozenset(range(1, len((root / name).read_bytes().splitlines()) + 1))
    return found


def program_files(path: Path, folders: Sequence[Path]) -> list[Path]:
    """Return the program's file, and the files in these folders that it imports, directly or not."""
    found: list[Path] = []
    left = [path.resolve()]
    while left:
        file = left.pop()
        if file not in found:
            found.append(file)
            left += _imported(file, [path.resolve().parent, *folders])
    return found


def _imported(file: Path, folders: Sequence[Path]) -> Iterator[Path]:
    try:
        nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    except (OSError, ValueError, SyntaxError):
        return  # what cannot be read here is reported by the audit
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _modules(alias.name.split("."), folders)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            start = [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else folders
            for alias in node.names:
                yield from _modules([*module, alias.name], start)


def _modules(parts: Sequence[str], folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of a module, and of the packages around it. The last part may be no module."""
    for folder in folders:
        for count in range(1, len(parts) + 1):
            place = folder.joinpath(*parts[:count])
            for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
                if file.is_file():
                    yield file.resolve()


def changed_steps(files: Sequence[Path], changed: Changed) -> list[Mutation]:
    """Return the protective steps on changed lines of these files."""
    return [
        one
        for file in files
        if (lines := changed.get(file.resolve()))
        for one in mutations(file)
        if not lines.isdisjoint((one.line, one.effect))
    ]


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
