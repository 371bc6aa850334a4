"""`fencepost ingest send` and `parked`: the agent.

Points are one JSON object a line:

    {"name": "cpu.load", "labels": {"host": "a"}, "unix_ns": 1760000000000000000, "value": 0.5}

`unix_ns` defaults to the current time; `labels` is optional.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest.group import ENV, log_to_stderr, names_from_user, subcommand
from fencepost.commands.operating import Result, format_table, print_error
from fencepost.commands.output_files import TARGET
from fencepost.commands.values import size_option
from fencepost.impl.ingest import Identity, Point, encode, read
from fencepost.impl.ingest.keys import agent_path
from fencepost.impl.ingest.service.spool import BYTES_MAX, Batch, Spool, SpoolError

TOKEN = "FENCEPOST_INGEST_TOKEN"  # noqa: S105 - the name of a variable
FIELDS = ("name", "labels", "unix_ns", "value")
SPOOL = click.option("--spool", required=True, metavar="DIR", help="Queue of the agent; created if missing.")
_ANY = Identity("any", "any", 0, 0)


@subcommand(
    "send",
    "Put points into the spool, and send its batches.",
    click.argument("source", metavar="[FILE]", required=False),
    SPOOL,
    click.option("--agent", required=True, metavar="NAME", help="Owner of the spool."),
    click.option(
        "--collector", "collectors", multiple=True, required=True, metavar="URL", help="May be repeated."
    ),
    click.option(
        "--token-file", metavar="FILE", help=f"File with the agent's token.  [default: from {TOKEN}]"
    ),
    click.option(
        "--batch",
        "batch_points",
        type=click.IntRange(1),
        default=1000,
        show_default=True,
        help="Points in one batch.",
    ),
    click.option(
        "--give-up-after",
        "give_up_s",
        type=click.FloatRange(0),
        metavar="SECONDS",
        help="Time limit.  [default: none]",
    ),
    size_option("--spool-max", BYTES_MAX, "Limit on disk."),
    click.option(
        "--metrics",
        "metrics_file",
        type=TARGET,
        metavar="FILE",
        help="Write metrics in Prometheus' text format.",
    ),
    click.option("--verbose", is_flag=True, help="Log every response that decides nothing."),
)
def send(source: str | None, spool: str, agent: str, collectors: tuple[str, ...], **options: Any) -> Result:
    """Read points, one JSON object a line, from FILE (- is standard input), put them into the spool, and send
    all batches of the spool to any of the collectors until each is accepted. Without FILE, only send.

    Batches in the spool survive a crash: run the command again to continue. Exit code 1 means that a batch is
    parked and needs an operator, 3 that batches still wait.
    """
    from fencepost.impl.ingest.service.sending import Refused, Sender

    log_to_stderr(verbose=options["verbose"])
    with names_from_user():
        agent_path(agent)
    token = _token(options["token_file"])
    points = [] if source is None else read_points(_lines(source), source, ENV.now_ns())
    with _spool_errors(), Spool(spool, agent, env=ENV, bytes_max=options["spool_max"]) as queue:
        try:
            sender = Sender(queue, collectors, token)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        _add(queue, points, options["batch_points"])
        try:
            dropped = sender.settle()
            sent = sender.drain(options["give_up_s"])
        except Refused as refused:
            raise BadRequest(f"{refused}; {len(queue)} batches wait in the spool") from None
        finally:
            sender.close()
            _write_metrics(options["metrics_file"], sender.metrics.exposition())
        parked_now = len(queue.parked())
    text = f"{sent.accepted + sent.duplicates} batches accepted, {sent.left} wait, {parked_now} parked"
    code = Exit.VIOLATED if parked_now else Exit.UNDECIDED if sent.left else Exit.HOLDS
    return Result({**asdict(sent), "parked": parked_now, "dropped": dropped}, text, code)


def _add(queue: Spool, points: Sequence[Point], size: int) -> None:
    for at in range(0, len(points), size):
        some = points[at : at + size]

        def frame(start: int, end: int, some: Sequence[Point] = some) -> bytes:
            return encode(Identity(queue.agent_id, queue.boot_id, start, end), some)

        try:
            queue.add(len(some), frame)
        except SpoolError as error:
            raise BadRequest(f"{error}; the first {at} of {len(points)} points are in the spool") from None


@subcommand(
    "parked",
    "Batches that no collector accepts as they are.",
    SPOOL,
    click.option("--drop", metavar="BATCH", help="Delete one: the batch accepted in its place is final."),
    click.option("--requeue", metavar="BATCH", help="Send one again: the cause of its refusal is gone."),
    click.option("--requeue-all", is_flag=True, help="Send all again except conflicts."),
)
def parked(spool: str, drop: str | None, requeue: str | None, requeue_all: bool) -> Result:
    """List the parked batches with the reason, or drop or requeue them. Exit code 1 when batches are
    parked."""
    if sum(map(bool, (drop, requeue, requeue_all))) > 1:
        raise BadRequest("give one of --drop, --requeue and --requeue-all")
    done = ""
    with _spool_errors(), Spool(spool, Spool.owner(spool), env=ENV) as queue:
        if drop:
            queue.drop(_find(queue, drop))
            done = f"dropped {drop}\n"
        if requeue or requeue_all:
            again = [_find(queue, requeue)] if requeue else list(_without_conflicts(queue))
            for batch in again:
                queue.requeue(batch)
            done = f"{len(again)} {'batch waits' if len(again) == 1 else 'batches wait'} to be sent again\n"
        found = [(batch, queue.why(batch)) for batch in queue.parked()]
    rows = [[batch.name, str(why.get("why", "?"))] for batch, why in found]
    text = done + (format_table(("batch", "why"), rows) if rows else "nothing is parked")
    code = Exit.VIOLATED if found else Exit.HOLDS
    return Result({"parked": [{**asdict(batch), **why} for batch, why in found]}, text, code)


def _without_conflicts(queue: Spool) -> Iterator[Batch]:
    """Batches whose reason may be gone; a conflict remains one until an operator decides."""
    for batch in queue.parked():
        answer = queue.why(batch).get("answer")
        if not (isinstance(answer, dict) and answer.get("error") == "identity_conflict"):
            yield batch


def _find(queue: Spool, name: str) -> Batch:
    for batch in queue.parked():
        if batch.name == name:
            return batch
    raise BadRequest(f"{name!r} is not parked in {queue.path}; list the batches without --drop and --requeue")


@contextlib.contextmanager
def _spool_errors() -> Iterator[None]:
    try:
        yield
    except SpoolError as error:
        raise BadRequest(str(error)) from None


def _token(file: str | None) -> str:
    try:
        text = os.environ.get(TOKEN, "") if file is None else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read the token file {file}: {error}") from None
    token = text.strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise BadRequest(
            f"no token: give --token-file FILE or set {TOKEN} to the output of `fencepost ingest enrol`"
        )
    return token


def _lines(source: str) -> Iterator[bytes]:
    if source == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(source).open("rb") as file:
            yield from file
    except OSError as error:
        raise BadRequest(f"cannot read {source}: {error.strerror}") from None


def _write_metrics(file: str | None, page: bytes) -> None:
    if file is None:
        return
    draft = Path(f"{file}.tmp")
    try:
        draft.write_bytes(page)
        draft.replace(file)
    except OSError as error:
        print_error(f"cannot write {file}: {error.strerror}")


def read_points(lines: Iterable[bytes], source: str, now_ns: int) -> list[Point]:
    """All points, or `BadRequest` with the first invalid line.

    Each point is encoded in a frame, so that its defects show now and not later at a collector.
    """
    points: list[Point] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            point = _point(json.loads(line), now_ns)
            read(encode(_ANY, [point], compress=False))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise BadRequest(
                f"line {number} of {source} is not a point: {error}; nothing was added"
            ) from None
        points.append(point)
    return points


def _point(fields: object, now_ns: int) -> Point:
    if not isinstance(fields, dict):
        raise TypeError('expected an object like {"name": "cpu.load", "value": 0.5}')
    unknown = sorted(set(fields) - set(FIELDS))
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!a}; known are {', '.join(FIELDS)}")
    name, labels, time = fields.get("name"), fields.get("labels", {}), fields.get("unix_ns", now_ns)
    value = fields.get("value")
    if not isinstance(name, str):
        raise TypeError("name is missing or not text")
    if not isinstance(labels, dict) or not all(isinstance(label, str) for label in labels.values()):
        raise TypeError("labels must be an object with texts")
    if not isinstance(time, int) or isinstance(time, bool):
        raise TypeError("unix_ns must be a whole number")
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("value is missing or not a number")
    return Point(name, labels, time, float(value))
