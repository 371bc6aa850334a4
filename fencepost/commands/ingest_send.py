"""`fencepost ingest send` and `parked`: the agent."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest_options import ENV, JSON, finish, log_to_stderr, say, told
from fencepost.commands.ingest_points import read_points
from fencepost.commands.operating import format_table
from fencepost.impl.ingest import Identity, IdentityError, Point, encode
from fencepost.impl.ingest.keys import agent_path
from fencepost.impl.ingest.service.spool import BYTES_MAX, Batch, Spool, SpoolError

TOKEN = "FENCEPOST_INGEST_TOKEN"  # noqa: S105 - the name of a variable
SPOOL = click.option(
    "--spool", required=True, metavar="DIRECTORY", help="The agent's queue; made when missing."
)


@click.command("send", short_help="Put points into the spool, and send what it holds.")
@click.argument("source", metavar="[FILE]", required=False)
@SPOOL
@click.option("--agent", required=True, metavar="NAME", help="Whose spool it is.")
@click.option(
    "--collector", "collectors", multiple=True, required=True, metavar="URL", help="May be repeated."
)
@click.option("--token-file", metavar="FILE", help=f"Holds the agent's token.  [default: from {TOKEN}]")
@click.option(
    "--batch",
    "batch_points",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Points in one batch.",
)
@click.option(
    "--give-up-after", "give_up_s", type=click.FloatRange(0), metavar="SECONDS", help="[default: never]"
)
@click.option(
    "--spool-bytes", type=click.IntRange(1), default=BYTES_MAX, show_default=True, help="On disk at most."
)
@click.option("--metrics", "metrics_file", metavar="FILE", help="Write counts in Prometheus' text format.")
@click.option("--verbose", is_flag=True, help="Log every answer that is not final.")
@JSON
@told
def send(source: str | None, spool: str, agent: str, collectors: tuple[str, ...], **options: Any) -> int:
    """Read points, one JSON object a line, from FILE (- is standard input), put them into the spool, and send
    all that the spool holds to any of the collectors until each batch is accepted. Without FILE, only send.

    What was put into the spool survives whatever happens next: run it again to go on. Exit code 1 says that a
    batch is parked and somebody must look, 3 that some wait still.
    """
    from fencepost.impl.ingest.service.sending import Refused, Sender

    log_to_stderr(verbose=options["verbose"])
    _check_agent(agent)
    token = _token(options["token_file"])
    points = [] if source is None else read_points(_lines(source), source, ENV.now_ns())
    try:
        with Spool(spool, agent, env=ENV, bytes_max=options["spool_bytes"]) as queue:
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
            parked = len(queue.parked())
    except SpoolError as error:
        raise BadRequest(str(error)) from None
    text = f"{sent.accepted + sent.duplicates} batches accepted, {sent.left} wait, {parked} parked"
    code = Exit.VIOLATED if parked else Exit.UNDECIDED if sent.left else Exit.HOLDS
    return finish({**asdict(sent), "parked": parked, "dropped": dropped}, text, options["json_file"], code)


def _add(queue: Spool, points: Sequence[Point], size: int) -> None:
    for at in range(0, len(points), size):
        some = points[at : at + size]

        def frame(start: int, end: int, some: Sequence[Point] = some) -> bytes:
            return encode(Identity(queue.agent_id, queue.boot_id, start, end), some)

        try:
            queue.add(len(some), frame)
        except SpoolError as error:
            raise BadRequest(f"{error}; the first {at} of {len(points)} points are in the spool") from None


@click.command("parked", short_help="Batches that no collector accepts as they are.")
@SPOOL
@click.option("--drop", metavar="BATCH", help="Delete one: what was accepted in its place stands.")
@click.option("--requeue", metavar="BATCH", help="Send one again: what refused it was put right.")
@click.option("--requeue-all", is_flag=True, help="Send all again that are no conflicts.")
@JSON
@told
def parked(
    spool: str, drop: str | None, requeue: str | None, requeue_all: bool, json_file: str | None
) -> int:
    """List what the agent has put aside and why, or settle it. Exit code 1 when something is parked."""
    if sum(map(bool, (drop, requeue, requeue_all))) > 1:
        raise BadRequest("give one of --drop, --requeue and --requeue-all")
    done = ""
    try:
        with Spool(spool, Spool.owner(spool), env=ENV) as queue:
            if drop:
                queue.drop(_named(queue, drop))
                done = f"dropped {drop}\n"
            if requeue or requeue_all:
                again = [_named(queue, requeue)] if requeue else list(_no_conflicts(queue))
                for batch in again:
                    queue.requeue(batch)
                done = (
                    f"{len(again)} {'batch waits' if len(again) == 1 else 'batches wait'} to be sent again\n"
                )
            found = [(batch, queue.why(batch)) for batch in queue.parked()]
    except SpoolError as error:
        raise BadRequest(str(error)) from None
    rows = [[batch.name, str(why.get("why", "?"))] for batch, why in found]
    text = format_table(("batch", "why"), rows) if rows else "nothing is parked"
    told_json = [{**asdict(batch), **why} for batch, why in found]
    return finish({"parked": told_json}, done + text, json_file, Exit.VIOLATED if found else Exit.HOLDS)


def _no_conflicts(queue: Spool) -> Iterator[Batch]:
    """What is parked for a reason that may have gone; a conflict stays one until somebody decides."""
    for batch in queue.parked():
        answer = queue.why(batch).get("answer")
        if not (isinstance(answer, dict) and answer.get("error") == "identity_conflict"):
            yield batch


def _named(queue: Spool, name: str) -> Batch:
    for batch in queue.parked():
        if batch.name == name:
            return batch
    raise BadRequest(
        f"{name!r} is not parked in {queue.path}; the list without --drop and --requeue says what is"
    )


def _check_agent(agent: str) -> None:
    try:
        agent_path(agent)
    except IdentityError as error:
        raise BadRequest(str(error)) from None


def _token(file: str | None) -> str:
    try:
        found = os.environ.get(TOKEN, "") if file is None else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read the token file {file}: {error}") from None
    found = found.strip()
    if not found.isascii() or not found.isprintable() or not found:
        raise BadRequest(
            f"no token: give --token-file FILE or set {TOKEN} to what `fencepost ingest enrol` printed"
        )
    return found


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
        say(f"cannot write {file}: {error.strerror}", Exit.HOLDS)


COMMANDS = (send, parked)
