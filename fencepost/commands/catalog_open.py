"""Opening a catalog for a command, and how what can go wrong with it ends.

published                                            exit 0
a head stands ahead, an object is damaged            exit 1, and what to run
the rows or names do not fit                         exit 2
others were first, took over, or nobody knows        exit 3, and what settles it
"""

import functools
import getpass
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.impl.publish import (
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
from fencepost.impl.publish.context import BranchContext
from fencepost.impl.publish.safeguards import STANDARD
from fencepost.impl.store import open_store

MAIN = "main"
INTERRUPTED = (
    "interrupted: a commit that had begun is settled, whole or not at all, by whoever opens the catalog; "
    "`fencepost catalog log` shows what was published"
)


def told(act: Callable[..., int]) -> Callable[..., int]:
    """Turn what publishing raises into one line and an exit code."""

    @functools.wraps(act)
    def run(*args: Any, **options: Any) -> int:
        try:
            return act(*args, **options)
        except Invalid as error:
            raise BadRequest(str(error)) from error
        except StaleView as error:
            return _say(f"{error}; run the command again", Exit.UNDECIDED)
        except (Fenced, StoreUnavailable) as error:
            return _say(f"{error}; run the command again", Exit.UNDECIDED)
        except HeadAhead as error:
            return _say(f"{error}: fencepost catalog repair URL", Exit.VIOLATED)
        except Damaged as error:
            return _say(str(error), Exit.VIOLATED)
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] != "pyarrow":
                raise
            raise BadRequest("tables are kept as Parquet: pip install 'fencepost[catalog]'") from None
        except KeyboardInterrupt:
            return _say(INTERRUPTED, Exit.UNDECIDED)

    return run


def _say(text: str, code: Exit) -> Exit:
    click.echo(f"fencepost: {' '.join(text.split())}", err=True)
    return code


def refuse_memory(url: str) -> None:
    if urlsplit(url).scheme == "memory":
        raise BadRequest(
            f"{url}: nothing would remain of it when this command ends; use file:///directory or s3://bucket"
        )


def exists(url: str) -> bool:
    """Whether there is a catalog at `url`; the store itself must be there, or makeable."""
    refuse_memory(url)
    with open_store(url) as store:
        store.verify()
        return BranchContext(store, store.env, MAIN, STANDARD).newest() is not None


def reading(url: str, branch: str = MAIN) -> Catalog:
    return _open(url, branch, "read", "")


def writing(url: str, author: str | None, branch: str = MAIN) -> Catalog:
    """Beside others who write: a command that claimed would fence every service that holds the catalog."""
    return _open(url, branch, "join", author or whoever())


def _open(url: str, branch: str, mode: str, author: str) -> Catalog:
    refuse_memory(url)
    try:
        return Catalog.open(url, branch=branch, mode=mode, author=author)
    except Absent:
        if exists(url):
            raise
        raise BadRequest(f"there is no catalog at {url}; make one: fencepost catalog init {url}") from None


def whoever() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def ended(result: Published | Unknown | None, url: str, branch: str = MAIN) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a commit; for one that nobody knows about, a line that says what settles it."""
    assert result is not None
    if isinstance(result, Published):
        return Exit.HOLDS, {"published": True, "manifest": result.id, "plan": result.plan}
    _say(
        f"not known whether plan {result.plan} was published ({result.why}); do not repeat it before "
        f"`fencepost catalog settle {url} {result.plan} --base {result.base} --branch {branch}` says",
        Exit.UNDECIDED,
    )
    return Exit.UNDECIDED, {"published": None, "plan": result.plan, "base": result.base, "why": result.why}
