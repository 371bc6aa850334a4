"""The command group, and what its commands share: options, opening a store, and how they end."""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest.settings_file import SETTINGS_FILE
from fencepost.commands.messages import LogLine
from fencepost.commands.operating import (
    AGAIN,
    Act,
    Ending,
    ErrorContract,
    Parameter,
    Result,
    add_subcommand,
    print_error,
    refuse_memory,
)
from fencepost.commands.output_files import json_option
from fencepost.commands.recording import record_store_option, recorded_store
from fencepost.impl.cursor import CursorError
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import (
    IdentityError,
    IngestError,
    InventoryError,
    Settings,
    SettingsError,
    StoreUnavailable,
)
from fencepost.impl.ingest.settings import STANDARD_SETTINGS
from fencepost.impl.store import Store, open_store

EPILOG = """Exit codes: 0 done, 1 data is lost, damaged or parked: an operator must look, 2 the request makes
no sense, 3 not finished: run it again. Example: fencepost ingest enrol tokens.json agent-a, then fencepost
ingest serve --store file:///data/metrics --agents tokens.json."""
ENV = SystemEnvironment()
ERRORS = ErrorContract(
    lambda: (
        Ending((SettingsError, InventoryError), Exit.BAD_REQUEST),
        Ending(StoreUnavailable, Exit.UNDECIDED, AGAIN),
        Ending((IngestError, CursorError), Exit.VIOLATED),
    ),
    "ingest",
    "the collector and the agent need more",
)

STORE = click.option(
    "--store", "url", required=True, metavar="URL", help="file:///directory or s3://bucket/prefix"
)
EVERY = click.option(
    "--every", "every_s", type=click.FloatRange(0.01), metavar="SECONDS", help="Repeat for ever, this often."
)
NOTE = click.option("--note", default="", metavar="TEXT", help="Reason, kept with the decision.")
BY = click.option("--author", "by", metavar="NAME", help="Author of the decision.  [default: your user name]")


@click.group("ingest", short_help="Accept batches once, by any of several collectors.", epilog=EPILOG)
def command() -> None:
    """Agents send batches to any of several collectors. These share nothing but a bucket, and the creation of
    a small object in it is the only moment at which a batch becomes accepted.

    Collectors (`serve`) keep the indexes and rollups in order on their own, whichever of them is killed;
    `maintenance`, or `reconcile` and `rollup`, do so where collectors do not. `reconcile` finds batches by
    their place in time. A batch whose collector died before it wrote that is found by the search of `serve`
    and `maintenance` within hours, or by `audit` at once. Only `gc` deletes, and only after an `audit`.
    """


def subcommand(
    name: str, summary: str, *parameters: Parameter, group: click.Group = command, json: bool = True
) -> Callable[[Act], click.Command]:
    """Add a command with these parameters; with `json`, `--json`; on a store, `--record`."""
    more = (*((record_store_option,) if STORE in parameters else ()), *((json_option,) if json else ()))
    return add_subcommand(group, name, summary, (*parameters, *more), ERRORS)


def settings_options(act: Callable[..., Any]) -> Callable[..., Any]:
    """The times on which a whole deployment must agree, and the file that may have them."""
    for name, text in (
        ("overlap_s", "How far behind its cursor a reader starts."),
        ("skew_bound_s", "How far apart two clocks may be."),
        ("landing_bound_s", "How long after it was sent a request may be applied."),
        ("horizon_s", "How long an acceptance may rely on a stored blob."),
    ):
        default = getattr(STANDARD_SETTINGS, name)
        flag = f"--{name.removesuffix('_s').replace('_', '-')}"
        act = click.option(
            flag, name, type=float, default=default, show_default=True, metavar="SECONDS", help=text
        )(act)
    with_file: Callable[..., Any] = SETTINGS_FILE(act)
    return with_file


def settings_of(options: Mapping[str, Any], **more: Any) -> Settings:
    """The settings in the values of `settings_options`."""
    names = ("horizon_s", "landing_bound_s", "skew_bound_s", "overlap_s")
    return Settings(**{name: options[name] for name in names}, **more)


@contextmanager
def names_from_user() -> Iterator[None]:
    """Names in the block come from the command line: an invalid one makes the request invalid."""
    try:
        yield
    except IdentityError as error:
        raise BadRequest(str(error)) from None


@contextmanager
def opened(url: str, *, creates: bool = False) -> Iterator[Store]:
    """The store at `url`, which must exist, except for a collector, which creates a missing directory.

    Any other command would open a misspelt one, find it in order, and report that every night.
    """
    refuse_memory(url)
    with open_store(url, ENV) as store:
        path = getattr(store, "path", None)
        if path is not None and not creates and not Path(path).exists():
            raise BadRequest(f"there is no directory {path}; correct --store: a collector creates it")
        store.verify()
        if path is not None and creates:
            Path(path).mkdir(parents=True, exist_ok=True)
        yield recorded_store(store, url, "ingest")


def rounds(once: Callable[[], Result], every_s: float | None) -> Iterator[Result]:
    """One result, or one per interval until interrupted. An unavailable store ends nothing."""
    if every_s is None:
        yield once()
        return
    while True:
        try:
            result = once()
        except StoreUnavailable as error:
            print_error(f"{error}; trying again in {every_s:g} s")
        else:
            yield result
        ENV.sleep(every_s)


def log_to_stderr(*, verbose: bool) -> None:
    """One line a message, with its time; requests only when `verbose`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLine("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("fencepost")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    # The sender of a broken request sees the reason; a log that any sender can fill has no use.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
