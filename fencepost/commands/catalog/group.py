"""The command group, and what its commands share: options, opening a catalog, and how they end.

published                                            exit 0
a HEAD is ahead, an object is damaged                exit 1, and what to run
the rows or names do not fit                         exit 2
others were first, took over, or nobody knows        exit 3, and what settles it
"""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import refuse_memory, user_name
from fencepost.commands.output_files import TARGET, write_json
from fencepost.impl.publish import (
    STANDARD,
    Absent,
    Catalog,
    Damaged,
    Fenced,
    HeadAhead,
    Invalid,
    Published,
    StaleView,
    StoreUnavailable,
    Unknown,
)
from fencepost.impl.publish.context import MAIN, BranchContext
from fencepost.impl.store import open_store

EPILOG = """Exit codes: 0 done, 1 something is damaged, 2 the request makes no sense, 3 others were first
(nothing was published: run it again) or nobody knows yet (the line shows what settles it). URL:
file:///directory or s3://bucket/prefix?endpoint=... Example:
fencepost catalog put file:///data/shop person=people.csv --key id."""
INTERRUPTED = (
    "interrupted: if a commit had begun, the next command that writes settles it, whole or not at all; "
    "`fencepost catalog log` shows what was published"
)

URL = click.argument("url")
TABLE = click.argument("table")
NAME = click.argument("name")
AUTHOR = click.option("--author", metavar="NAME", help="Author of the commit.  [default: your user name]")
BRANCH = click.option("--branch", default=MAIN, show_default=True, help="Branch of the catalog.")
MESSAGE = click.option("--message", "-m", default="", help="Message for the log.")
AT = click.option("--at", type=click.IntRange(1), metavar="MANIFEST", help="An earlier state; see `log`.")
JSON = click.option(
    "--json", "json_file", type=TARGET, metavar="FILE", help="Write the result as JSON; - is standard output."
)


class Result(NamedTuple):
    """How a command ended: JSON for programs, a text for people, an exit code."""

    found: Mapping[str, Any]
    text: str = ""
    code: int = Exit.HOLDS


@click.group("catalog", short_help="Keep a small dataset of many tables in a bucket.", epilog=EPILOG)
def command() -> None:
    """Keep a dataset of many tables in a bucket or directory: every commit changes all its tables at once,
    edges always point at existing rows, and any Parquet reader can read the fragments.
    """


Parameter = Callable[[Callable[..., int]], Callable[..., int]]


def subcommand(
    name: str, summary: str, *parameters: Parameter, group: click.Group = command
) -> Callable[[Callable[..., Result]], click.Command]:
    """Add a command on the catalog at URL, with these parameters and `--json`."""

    def add(act: Callable[..., Result]) -> click.Command:
        @functools.wraps(act)
        def run(url: str, json_file: str | None, **options: Any) -> int:
            return _run(lambda: _finish(act(url, **options), url, json_file))

        parametrized: Callable[..., int] = run
        for parameter in (JSON, *reversed(parameters), URL):
            parametrized = parameter(parametrized)
        return group.command(name, short_help=summary)(parametrized)

    return add


def _finish(result: Result, url: str, json_file: str | None) -> int:
    if result.text:
        stream = sys.stderr if json_file == "-" else sys.stdout
        stream.write(result.text if result.text.endswith("\n") else f"{result.text}\n")
    if json_file:
        write_json({"url": url, **result.found}, json_file)
    return result.code


def _run(act: Callable[[], int]) -> int:
    """Turn the errors of publish into one line and an exit code."""
    try:
        return act()
    except Invalid as error:
        raise BadRequest(str(error)) from error
    except (StaleView, Fenced, StoreUnavailable) as error:
        return _print_error(f"{error}; run the command again", Exit.UNDECIDED)
    except HeadAhead as error:
        return _print_error(f"{error}: fencepost catalog repair URL", Exit.VIOLATED)
    except Damaged as error:
        return _print_error(str(error), Exit.VIOLATED)
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] != "pyarrow":
            raise
        raise BadRequest("tables are stored as Parquet: pip install 'fencepost[catalog]'") from None
    except KeyboardInterrupt:
        return _print_error(INTERRUPTED, Exit.UNDECIDED)


def _print_error(text: str, code: Exit) -> Exit:
    click.echo(f"fencepost: {' '.join(text.split())}", err=True)
    return code


# Opening.


def exists(url: str) -> bool:
    """Whether there is a catalog at `url`. The store itself must exist, or be possible to create."""
    refuse_memory(url)
    with open_store(url) as store:
        store.verify()
        return BranchContext(store, store.env, MAIN, STANDARD).newest() is not None


def reading(url: str, branch: str = MAIN) -> Catalog:
    return _open(url, branch, "read", "")


def writing(url: str, author: str | None, branch: str = MAIN) -> Catalog:
    """Join the other writers: a command that claimed would fence every service that has the catalog open."""
    return _open(url, branch, "join", author or user_name())


def _open(url: str, branch: str, mode: str, author: str) -> Catalog:
    refuse_memory(url)
    try:
        return Catalog.open(url, branch=branch, mode=mode, author=author)
    except Absent:
        if exists(url):
            raise
        raise BadRequest(f"there is no catalog at {url}; make one: fencepost catalog init {url}") from None


def committed(
    result: Published | Unknown, url: str, branch: str, text: Callable[[int], str], **more: Any
) -> Result:
    """How a commit ended. `text` describes it, given its manifest; an unknown one gets a line on settling."""
    if isinstance(result, Published):
        found = {"branch": branch, "published": True, "manifest": result.id, "plan": result.plan, **more}
        return Result(found, text(result.id))
    _print_error(
        f"it is unknown whether plan {result.plan} was published ({result.why}); do not repeat it before "
        f"`fencepost catalog settle {url} {result.plan} --base {result.base} --branch {branch}` "
        "has settled it",
        Exit.UNDECIDED,
    )
    unknown = {"published": None, "plan": result.plan, "base": result.base, "why": result.why}
    return Result({"branch": branch, **unknown, **more}, code=Exit.UNDECIDED)
