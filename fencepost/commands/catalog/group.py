"""The command group, with the options, the opening of a catalog and the exit codes of its commands.

published                                            exit 0
a HEAD is ahead, an object is damaged                exit 1, and what to run
the rows or names do not fit                         exit 2
others were first or took over, or it is unknown     exit 3, and what settles it
cleanup lags too far behind                          exit 3, and what reduces what waits
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.operating import (
    AGAIN,
    Ending,
    ErrorContract,
    Parameter,
    Result,
    add_subcommand,
    print_error,
    refuse_memory,
    user_name,
)
from fencepost.commands.output_files import json_option
from fencepost.commands.recording import record_store_option, recorded_store
from fencepost.impl.publish import (
    STANDARD,
    Absent,
    Catalog,
    Damaged,
    Fenced,
    HeadAhead,
    Invalid,
    Overdue,
    Pressure,
    Published,
    StaleView,
    StoreUnavailable,
    Unknown,
)
from fencepost.impl.publish.context import GRACE_S, MAIN, STUCK_AFTER_S, BranchContext
from fencepost.impl.publish.pace import WAIT_S
from fencepost.impl.store import Store, open_store
from fencepost.impl.store.layers.metered import Cost, Metered

EPILOG = """Exit codes: 0 done, 1 something is damaged, 2 the request makes no sense, 3 others were first
(nothing was published: run it again) or nobody knows yet (the line shows what settles it). URL:
file:///directory, s3://bucket/prefix?endpoint=..., or the http://host:port of a server, whose token is in
$FENCEPOST_CATALOG_TOKEN. Example:
fencepost catalog put file:///data/shop person=people.csv --key id."""
INTERRUPTED = (
    "interrupted: if a commit had begun, the next command that writes settles it, whole or not at all; "
    "`fencepost catalog log` shows what was published"
)
ERRORS = ErrorContract(
    lambda: (
        Ending(Invalid, Exit.BAD_REQUEST),
        Ending((StaleView, Fenced, StoreUnavailable), Exit.UNDECIDED, AGAIN),
        Ending(Overdue, Exit.UNDECIDED),
        Ending(HeadAhead, Exit.VIOLATED, "{}: fencepost catalog repair URL".format),
        Ending(Damaged, Exit.VIOLATED),
        Ending(KeyboardInterrupt, Exit.UNDECIDED, lambda _: INTERRUPTED),
    ),
    "catalog",
    "tables are stored as Parquet",
)

URL = click.argument("url")
TABLE = click.argument("table")
NAME = click.argument("name")
AUTHOR = click.option("--author", metavar="NAME", help="Author of the commit.  [default: your user name]")
BRANCH = click.option(
    "--branch", default=MAIN, show_default=True, metavar="BRANCH", help="Branch of the catalog."
)
MESSAGE = click.option("--message", "-m", default="", metavar="TEXT", help="Message for the log.")
GRACE = click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(0),
    default=GRACE_S,
    show_default=True,
    metavar="SECONDS",
    help="Leave a killed writer's unfinished commit alone for so long when opening the catalog.",
)
STUCK_AFTER = click.option(
    "--stuck-after",
    "stuck_after_s",
    type=click.FloatRange(0),
    default=STUCK_AFTER_S,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for the unfinished commit of another that is in the way, then end it and go on.",
)
SLOW_AFTER = click.option(
    "--slow-after",
    "slow_after",
    type=click.IntRange(0),
    default=Pressure().slow_after,
    show_default=True,
    metavar="N",
    help="Commit more slowly from so many manifests on that wait for cleanup; 0: never.",
)
REFUSE_AFTER = click.option(
    "--refuse-after",
    "refuse_after",
    type=click.IntRange(0),
    default=Pressure().refuse_after,
    show_default=True,
    metavar="N",
    help="Refuse to commit from so many on; 0: never.",
)
WAIT = click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=WAIT_S,
    show_default=True,
    metavar="SECONDS",
    help="Begin again for so long when other writers are first.",
)
AT = click.option("--at", type=click.IntRange(1), metavar="MANIFEST", help="An earlier state; see `log`.")


@click.group("catalog", short_help="Keep a small dataset of many tables in a bucket.", epilog=EPILOG)
def command() -> None:
    """Keep a dataset of many tables in a bucket or directory: every commit changes all its tables at once,
    edges always point at existing rows, and any Parquet reader can read the fragments.
    """


def subcommand(
    name: str, summary: str, *parameters: Parameter, group: click.Group = command
) -> Callable[[Callable[..., Result]], click.Command]:
    """Add a command on the catalog at URL, with `--record` and `--json`. One that writes has `--grace`,
    `--stuck-after` and `--wait`, and one that commits rows, which has `--message`, the limits of `Pressure`.
    """
    waits = (GRACE, STUCK_AFTER, WAIT) if AUTHOR in parameters else ()
    limits = (SLOW_AFTER, REFUSE_AFTER) if MESSAGE in parameters else ()

    def add(act: Callable[..., Result]) -> click.Command:
        @functools.wraps(act)
        def with_url(
            url: str,
            grace_s: float = GRACE_S,
            stuck_after_s: float = STUCK_AFTER_S,
            wait_s: float = WAIT_S,
            slow_after: int = 0,
            refuse_after: int = 0,
            **options: Any,
        ) -> Result:
            pressure = Pressure(slow_after, refuse_after)
            with _Requests.of_command(grace_s, stuck_after_s, wait_s, pressure) as requests:
                result = act(url, **options)
                found = {"url": url, **result.found, **requests.debt(), "storage": storage_of(requests.costs)}
            return result._replace(found=found)

        options = (*parameters, *waits, *limits, record_store_option, json_option)
        return add_subcommand(group, name, summary, (URL, *options), ERRORS)(with_url)

    return add


@dataclass
class _Requests:
    """The requests that one command sends, and how long it waits for others."""

    grace_s: float
    stuck_after_s: float
    wait_s: float
    pressure: Pressure
    opened: contextlib.ExitStack
    costs: list[Cost] = field(default_factory=list)
    """A cost for each store that the command opened, one after the other."""
    written: Catalog | None = None
    """The catalog that the command opened for writing."""

    @staticmethod
    @contextlib.contextmanager
    def of_command(
        grace_s: float, stuck_after_s: float, wait_s: float, pressure: Pressure
    ) -> "Iterator[_Requests]":
        with contextlib.ExitStack() as opened:
            requests = _Requests(grace_s, stuck_after_s, wait_s, pressure, opened)
            opened.callback(_REQUESTS.reset, _REQUESTS.set(requests))
            yield requests

    def count(self, store: Store) -> Store:
        """Count the requests of this store from now on."""
        metered = Metered(store)
        self.costs.append(self.opened.enter_context(metered.operation("command")))
        return metered

    def debt(self) -> dict[str, Any]:
        """What waits for cleanup, of a command that writes; says so to people if it slowed the command."""
        if self.written is None:
            return {}
        found, slowed_s = self.written.debt, round(self.written.slowed_s, 3)
        if slowed_s:
            say(
                f"slowed by {slowed_s:g} s: {found.manifests} manifests and {found.plans} unfinished plans "
                "wait for cleanup; `fencepost catalog maintain` cleans all the time",
                err=True,
            )
        return {"debt": {**dataclasses.asdict(found), "slowed_s": slowed_s}}


def storage_of(costs: Sequence[Cost]) -> dict[str, int]:
    """Return the requests, serial hops and bytes of a command."""
    return {
        "requests": sum(cost.requests for cost in costs),
        "serial_hops": sum(cost.serial_hops for cost in costs),
        "bytes_sent": sum(cost.bytes_sent for cost in costs),
        "bytes_received": sum(cost.bytes_received for cost in costs),
    }


_REQUESTS: ContextVar[_Requests] = ContextVar("requests of this command")


# Opening.

TOKEN = "FENCEPOST_CATALOG_TOKEN"  # noqa: S105 - the name of a variable
"""The variable that holds the token for a server."""


def is_server(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def exists(url: str) -> bool:
    """Return True if `url` has a catalog. The store itself must exist, or be possible to create."""
    refuse_memory(url)
    with open_store(url) as store:
        store.verify()
        return BranchContext(store, store.env, MAIN, STANDARD).newest() is not None


def reading(url: str, branch: str = MAIN) -> Catalog:
    return _open(url, branch, "read", "")


def writing(
    url: str, author: str | None, branch: str = MAIN, *, create: bool = False, tables: Sequence[str] = ()
) -> Catalog:
    """Join the other writers: a command that claimed would fence every service that has the catalog open.

    Name the `tables` that the command is going to write, if they are known.
    """
    return _open(url, branch, "join", author or user_name(), create=create, tables=tables)


def _open(
    url: str, branch: str, mode: str, author: str, *, create: bool = False, tables: Sequence[str] = ()
) -> Catalog:
    refuse_memory(url)
    requests = _REQUESTS.get()
    try:
        catalog = Catalog.open(
            url,
            branch=branch,
            mode=mode,
            author=author,
            create=create,
            grace_s=requests.grace_s,
            stuck_after_s=requests.stuck_after_s,
            wait_s=requests.wait_s,
            tables=tables,
            pressure=requests.pressure,
            layer=lambda store: requests.count(recorded_store(store, url, "publish")),
            token=os.environ.get(TOKEN, ""),
        )
    except Absent:
        if is_server(url) or exists(url):
            raise
        raise BadRequest(f"there is no catalog at {url}; make one: fencepost catalog init {url}") from None
    if mode != "read":
        requests.written = catalog
    return catalog


def committed(
    result: Published | Unknown, url: str, branch: str, text: Callable[[int], str], **more: Any
) -> Result:
    """Return the result of a commit. `text` describes it; an unknown one gets a line on settling it."""
    if isinstance(result, Published):
        found = {"branch": branch, "published": True, "manifest": result.id, "plan": result.plan, **more}
        return Result(found, text(result.id))
    print_error(
        f"it is unknown whether plan {result.plan} was published ({result.why}); do not repeat it before "
        f"`fencepost catalog settle {url} {result.plan} --base {result.base} --branch {branch}` "
        "has settled it",
        Exit.UNDECIDED,
    )
    unknown = {"published": None, "plan": result.plan, "base": result.base, "why": result.why}
    return Result({"branch": branch, **unknown, **more}, code=Exit.UNDECIDED)
