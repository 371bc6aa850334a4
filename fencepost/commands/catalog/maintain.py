"""`fencepost catalog maintain`: compaction and cleanup that run for ever."""

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Iterator

import click

from fencepost.commands.catalog.group import AUTHOR, ERRORS, GRACE, URL, command, exists, storage_of
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import Result, add_subcommand, print_error, user_name
from fencepost.commands.output_files import json_option
from fencepost.commands.receiving import served
from fencepost.commands.recording import record_store_option, recorded_store
from fencepost.commands.values import Address, AddressType
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.publish.errors import PublishError
from fencepost.impl.publish.maintenance import Goals, Maintainer, Round
from fencepost.impl.store import StoreError, open_store
from fencepost.impl.store.layers.metered import Cost, Metered

EVERY_S = 60.0
_GOALS = Goals()


@add_subcommand(
    command,
    "maintain",
    "Compact and clean up, for ever.",
    (
        URL,
        click.option("--once", is_flag=True, help="Do all that is to be done now, and end."),
        click.option(
            "--every",
            "every_s",
            type=click.FloatRange(0.01),
            default=EVERY_S,
            show_default=True,
            metavar="SECONDS",
            help="Pause between two rounds.",
        ),
        click.option(
            "--keep",
            type=click.IntRange(1),
            default=_GOALS.keep,
            show_default=True,
            help="Manifests per branch.",
        ),
        click.option(
            "--compact-from",
            "runs",
            type=click.IntRange(2),
            default=_GOALS.runs,
            show_default=True,
            metavar="N",
            help="Compact a table from so many runs on.",
        ),
        click.option(
            "--tables",
            type=click.IntRange(1),
            default=_GOALS.tables,
            show_default=True,
            metavar="N",
            help="Most tables that one round compacts.",
        ),
        click.option(
            "--deletes",
            type=click.IntRange(1),
            default=_GOALS.deletes,
            show_default=True,
            metavar="N",
            help="Most objects that one round deletes.",
        ),
        click.option(
            "--listen",
            type=AddressType(),
            metavar="HOST:PORT",
            help="Serve metrics and the state here; port 0 takes a free one.",
        ),
        AUTHOR,
        GRACE,
        record_store_option,
        json_option,
    ),
    ERRORS,
)
def maintain(
    url: str,
    once: bool,
    every_s: float,
    keep: int,
    runs: int,
    tables: int,
    deletes: int,
    listen: Address | None,
    author: str | None,
    grace_s: float,
) -> Iterator[Result]:
    """Settle what dead writers left, compact tables of many runs, and delete what no retained manifest needs,
    in rounds of bounded work. SIGTERM or ctrl-C ends it between two steps.

    Any number of these may run beside any number of writers, and be killed at any moment. A writer always
    comes first: the compaction that it overtakes is done again.
    """
    goals = Goals(keep, runs, tables, deletes)
    if not exists(url):
        raise BadRequest(f"there is no catalog at {url}; make one: fencepost catalog init {url}")
    with (
        _until_signalled() as stopping,
        open_store(url) as plain,
        contextlib.ExitStack() as stack,
    ):
        metered = Metered(recorded_store(plain, url, "publish"))
        worker = Maintainer(
            metered, SystemEnvironment(), goals, author=author or user_name(), grace_s=grace_s
        )
        if once:
            with metered.operation("rounds") as cost:
                done = worker.rounds(stopping.is_set)
            left = done.lost or done.more
            yield _result(url, done, cost, always=True)._replace(code=Exit.UNDECIDED if left else Exit.HOLDS)
            return
        server = None
        if listen is not None:
            from fencepost.impl.publish.maintenance_server import MaintenanceServer

            server = MaintenanceServer(plain)
            stack.enter_context(served(server, listen, "listening on"))
        while not stopping.is_set():
            pause_s = every_s
            try:
                with metered.operation("round") as cost:
                    done = worker.round(stopping.is_set)
            except (PublishError, StoreError) as error:
                print_error(f"{error}; trying again in {every_s:g} s")
                if server is not None:
                    server.note_failure()
            else:
                if server is not None:
                    server.note(done)
                yield _result(url, done, cost)
                if done.more and not done.lost:
                    pause_s = 0.0
            stopping.wait(pause_s)


def _result(url: str, done: Round, cost: Cost, *, always: bool = False) -> Result:
    """Return the result of a round. Its text is empty if it did nothing, unless `always`."""
    lines = [f"compacted {table}" for table in done.compacted]
    lines += [f"others were first: {name}; a later round does it again" for name in done.lost]
    if done.settled:
        lines.append(f"settled {done.settled} unfinished plans")
    cleaned = done.cleaned
    if cleaned is not None and (always or cleaned.objects):
        lines.append(
            f"deleted {cleaned.manifests} manifests, {cleaned.versions} versions, "
            f"{cleaned.fragments} fragments"
        )
    found = {"url": url, **dataclasses.asdict(done), "storage": storage_of([cost])}
    return Result(found, "\n".join(lines))


@contextlib.contextmanager
def _until_signalled() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set."""
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
