"""`fencepost ingest query`: read what was accepted, from the bucket itself."""

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest.group import (
    ENV,
    STORE,
    command,
    names_from_user,
    opened,
    settings_of,
    settings_options,
    subcommand,
)
from fencepost.commands.operating import Result, format_table
from fencepost.impl.ingest import query as ask
from fencepost.impl.ingest.context import IngestContext
from fencepost.impl.ingest.errors import QueryError
from fencepost.impl.ingest.keys import agent_path


class _Moment(click.ParamType[int]):
    """A moment: `2026-11-20T07:00Z`, or nanoseconds since 1970."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if value.isascii() and value.isdigit() and len(value) <= 20:
            return int(value)
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time; write 2026-11-20T07:00Z, or nanoseconds since 1970.", param, ctx
            )
        if moment.tzinfo is None:
            self.fail(f"{value!r} names no time zone; write {value}Z for UTC.", param, ctx)
        since = moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return since // dt.timedelta(microseconds=1) * 1000


METRIC = click.argument("metric")
FROM = click.option("--from", "start_ns", type=_Moment(), required=True, metavar="TIME", help="Its start.")
TO = click.option("--to", "end_ns", type=_Moment(), required=True, metavar="TIME", help="Its end, exclusive.")
LABEL = click.option(
    "--label", "labels", metavar="NAME=VALUE", multiple=True, help="Only series that have this label."
)


@command.group("query", short_help="Read what was accepted.")
def query() -> None:
    """Read accepted batches from the bucket: sums by hour from the rollups, single points from the batches.

    A batch is found by its place in time, which its collector writes after the 200; if the collector died
    first, the search of the maintenance writes it. `points --agent` needs no such place.
    """


@subcommand("metrics", "The metrics that are rolled up in a window.", STORE, FROM, TO, group=query)
def metrics(url: str, start_ns: int, end_ns: int) -> Result:
    """List the metrics of the hours between two times."""
    with opened(url) as store, _questions():
        found = ask.metrics_in(IngestContext(store, ENV), start_ns, end_ns)
    return Result({"metrics": found}, "\n".join(found) or "no metric is rolled up in this window")


@subcommand(
    "sums", "One metric by hour and labels.", STORE, METRIC, FROM, TO, LABEL, settings_options, group=query
)
def sums(
    url: str, metric: str, start_ns: int, end_ns: int, labels: tuple[str, ...], **options: Any
) -> Result:
    """Sum METRIC by whole hours and labels; batches that no rollup counts yet are read and added.

    Exit code 1 when accepted batches could not be read: their points are missing in the sums.
    """
    with opened(url) as store, _questions():
        context = IngestContext(store, ENV, settings_of(options))
        found = ask.sums_by_hour(context, _window(metric, start_ns, end_ns, labels))
    result = ask.sums_row(found)
    names = ("hour", "labels", "count", "sum", "min", "max", "nan")
    rows = [[_shown(row[name]) for name in names] for row in result["sums"]]
    text = format_table(names, rows) if rows else "no points"
    return Result(result, _with_missing(text, found.missing), Exit.VIOLATED if found.missing else Exit.HOLDS)


@subcommand(
    "points",
    "Single points.",
    STORE,
    METRIC,
    FROM,
    TO,
    LABEL,
    click.option("--agent", metavar="NAME", help="Only points of this agent."),
    click.option(
        "--accepted-until",
        "until_ns",
        type=_Moment(),
        metavar="TIME",
        help="Without --agent: do not look for points that were accepted later.  [default: now]",
    ),
    click.option(
        "--limit",
        type=click.IntRange(1),
        default=ask.POINTS_MAX,
        show_default=True,
        metavar="N",
        help="Points of a page.",
    ),
    click.option("--after", default="", metavar="POSITION", help="Where the page before ended."),
    settings_options,
    group=query,
)
def points(
    url: str,
    metric: str,
    start_ns: int,
    end_ns: int,
    labels: tuple[str, ...],
    agent: str | None,
    until_ns: int | None,
    limit: int,
    after: str,
    **options: Any,
) -> Result:
    """Print the points of METRIC, a page at a time: by agent, boot and sequence with --agent, else by time of
    acceptance. Exit code 1 when accepted batches could not be read.
    """
    with names_from_user():
        if agent is not None:
            agent_path(agent)
    with opened(url) as store, _questions():
        page = ask.points_of(
            IngestContext(store, ENV, settings_of(options)),
            _window(metric, start_ns, end_ns, labels),
            agent=agent,
            accepted_until_ns=until_ns,
            after=after,
            limit=limit,
        )
    result = ask.page_row(page)
    names = ("agent_id", "boot_id", "labels", "unix_ns", "value")
    rows = [[_shown(row[name]) for name in names] for row in result["points"]]
    text = format_table(names, rows) if rows else "no points"
    if page.after:
        text += f"more: --after '{page.after}'"
    return Result(result, _with_missing(text, page.missing), Exit.VIOLATED if page.missing else Exit.HOLDS)


@contextmanager
def _questions() -> Iterator[None]:
    """Report a question that cannot be answered as an invalid request."""
    try:
        yield
    except QueryError as error:
        raise BadRequest(str(error)) from None


def _window(metric: str, start_ns: int, end_ns: int, labels: tuple[str, ...]) -> ask.Window:
    pairs = dict(label.partition("=")[::2] for label in labels)
    if any("=" not in label for label in labels) or len(pairs) < len(labels):
        raise BadRequest("write --label NAME=VALUE, and each name once")
    return ask.Window(metric, start_ns, end_ns, pairs)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={text}" for name, text in sorted(value.items())) or "-"
    return "-" if value is None else str(value)


def _with_missing(text: str, missing: list[str]) -> str:
    return "\n".join([text.rstrip("\n"), *(f"not read: {reason}" for reason in missing)])
