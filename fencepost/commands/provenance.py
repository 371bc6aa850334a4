"""The provenance of a result: everything that is needed to compute it again.

It names versions, the revision of the code in the current folder, and the command itself. It holds no date
and no path of the machine, so that the same seed still gives the same bytes.
"""

import platform
import subprocess
from collections.abc import Collection
from importlib import metadata

import click

import fencepost
from fencepost.commands.entry import WORDS
from fencepost.reports.command_lines import drop_options
from fencepost.results import Provenance

LIBRARIES = ("numpy", "hypothesis", "greenlet", "simpy", "pyarrow", "pyspark")


def provenance(command: str = "") -> Provenance:
    """The command that is running, and everything its numbers may depend on."""
    commit, changed = revision()
    return Provenance(
        command or command_line(),
        fencepost.__version__,
        commit,
        changed,
        platform.python_version(),
        platform.system(),
        versions(),
    )


def command_line(*, without: Collection[str] = (), flags: Collection[str] = ()) -> str:
    """The command that is running, as it was typed, without some options and the values of those."""
    context = click.get_current_context(silent=True)
    words = context.meta.get(WORDS, []) if context is not None else []
    return drop_options(["fencepost", *words], without, flags)


def versions() -> dict[str, str]:
    """Of the libraries that decide a result, as far as they are installed. Nothing is imported."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def revision() -> tuple[str, bool]:
    """The commit the command was given in, and whether files differ from it; empty outside of git."""
    commit = _git("rev-parse", "HEAD")
    return commit, bool(commit) and bool(_git("status", "--porcelain", "--untracked-files=no"))


def _git(*words: str) -> str:
    try:
        ran = subprocess.run(  # noqa: S603 - the words are ours
            ["git", *words],  # noqa: S607 - the user's own git, as in their shell
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.strip()
