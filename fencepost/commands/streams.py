"""`fencepost streams`: durable streams on an object store."""

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import LogLine, say
from fencepost.commands.operating import (
    Act,
    Ending,
    ErrorContract,
    Parameter,
    Result,
    add_subcommand,
    allow_connections,
    bind,
    print_error,
    refuse_memory,
)
from fencepost.commands.recording import record_store_option, recorded_store
from fencepost.commands.serving import TLS, add_token_commands, check_reach, check_tls, is_local, open_tokens
from fencepost.commands.values import Address, FiniteNumber, WholeNumber, listen_option, size_option
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import Misuse, StoreError

ENV = SystemEnvironment()
EPILOG = """Exit codes: 0 done, 1 the streams or the store refused, 2 the request makes no sense. Example:
fencepost streams serve s3://bucket/prefix --state /var/lib/streams --listen 127.0.0.1:4437."""


@click.group("streams", short_help="Durable streams on an object store.", epilog=EPILOG)
def command() -> None:
    """A server of the Durable Streams protocol on any store, with retention; and its operations by hand."""


def _endings() -> tuple[Ending, ...]:
    from fencepost.impl.streams.errors import StreamError

    return (Ending(Misuse, Exit.BAD_REQUEST), Ending((StoreError, StreamError), Exit.VIOLATED))


ERRORS = ErrorContract(_endings, "objects", "the server needs more")


def subcommand(name: str, summary: str, *parameters: Parameter) -> Callable[[Act], click.Command]:
    return add_subcommand(command, name, summary, parameters, ERRORS)


URL = click.argument("url")
NAME = click.argument("name")
STATE = click.option("--state", metavar="DIRECTORY", help="Local state: flagged rows, and records.")
TYPE = click.option(
    "--type",
    "content_type",
    default="application/octet-stream",
    show_default=True,
    metavar="TYPE",
    help="Content type of the stream.",
)


def _seconds(name: str, default: float, text: str, setting: str, variable: str = "") -> Parameter:
    """`variable`: the name of an environment variable that has the default, in milliseconds."""
    return click.option(
        name,
        setting,
        type=FiniteNumber(0),
        default=(lambda: _number_of(variable, 1000.0, default)) if variable else default,
        show_default=f"{default:g}, or ${variable}" if variable else True,
        metavar="SECONDS",
        help=text,
    )


def _count(name: str, default: int, text: str, variable: str = "") -> Parameter:
    return click.option(
        name,
        type=WholeNumber(1),
        default=(lambda: _number_of(variable, 1, default)) if variable else default,
        show_default=f"{default}, or ${variable}" if variable else True,
        metavar="N",
        help=text,
    )


def _number_of(variable: str, unit: float, default: float) -> str:
    """Return the number in an environment variable, in units of the option, or the default."""
    text = os.environ.get(variable, "")
    if not text:
        return f"{default}"
    try:
        number = int(text)
    except ValueError:
        raise BadRequest(f"{variable} is {text[:40]!r}, which is no whole number") from None
    return f"{number / unit:g}" if unit > 1 else f"{number}"


SKEW = _seconds("--skew", 1.0, "Bound on the difference between two clocks.", "skew_bound_s")
LANDING = _seconds(
    "--landing", 60.0, "How long a create may be in flight: a tombstone is kept as long.", "landing_bound_s"
)


def _node(url: str, state: str | None = None, /, **settings: Any) -> Any:
    from fencepost.impl.store.urls import open_store
    from fencepost.impl.streams import MemoryState, Node, Settings, SqliteState

    store = open_store(url, ENV)
    store.verify()
    store = recorded_store(store, url, "streams")
    return Node(store, ENV, Settings(**settings), SqliteState(state) if state else MemoryState())


@subcommand(
    "serve",
    "Run the server.",
    click.argument("url", required=False),
    listen_option("127.0.0.1:4437"),
    STATE,
    click.option(
        "--durability",
        type=click.Choice(["store", "local"]),
        default="store",
        show_default=True,
        help="What an answered append survives: the loss of this disk, or only of this process.",
    ),
    SKEW,
    LANDING,
    _seconds(
        "--sweep-every",
        5.0,
        "Between two sweeps, which reap; 0 reaps nothing.",
        "sweep_s",
        "DS_EXPIRY_SWEEP_MS",
    ),
    _seconds(
        "--scan-every",
        6 * 3600.0,
        "Between two scans of the store; 0 is off.",
        "scan_s",
        "DS_RETENTION_SCAN_MS",
    ),
    _count(
        "--reap-limit",
        20,
        "Streams that one sweep reaps; another follows at once if more are due.",
        "DS_RETENTION_REAP_LIMIT",
    ),
    _count("--reap-concurrency", 4, "Streams that are reaped at once."),
    _count(
        "--delete-concurrency",
        4,
        "Objects that a reap deletes at once.",
        "DS_RETENTION_DELETE_CONCURRENCY",
    ),
    _seconds("--revalidate", 0.0, "Age up to which a manifest is used without a look.", "revalidate_s"),
    _seconds("--long-poll", 20.0, "How long a long-poll waits for data.", "long_poll_s"),
    _seconds("--session", 60.0, "How long an event stream stays open.", "sse_s"),
    _count("--connections", 2000, "Maximum number of open connections."),
    click.option(
        "--client-readers",
        type=WholeNumber(1),
        metavar="N",
        help="Readers of one address that wait, or have long answers.  [default: all connections but a few]",
    ),
    size_option("--memory-max", 256 << 20, "Memory for what clients send and have not read yet."),
    click.option("--tokens", metavar="FILE", help="Serve only who has a token of this file; see `enrol`."),
    click.option(
        "--anonymous", is_flag=True, help="Without --tokens, serve everyone who can reach this machine."
    ),
    click.option(
        "--cors-origin",
        "origins",
        multiple=True,
        metavar="ORIGIN",
        help="Origin whose pages may write, as https://app.example; * is any. Others only read. Repeatable.",
    ),
    *TLS,
    record_store_option,
)
def serve(
    url: str | None,
    listen: Address,
    state: str | None,
    durability: str,
    long_poll_s: float,
    sse_s: float,
    connections: int,
    client_readers: int | None,
    memory_max: int,
    tokens: str | None,
    anonymous: bool,
    origins: tuple[str, ...],
    certificate: str | None,
    key: str | None,
    **how: Any,
) -> Result:
    """Serve the streams below URL. SIGTERM or ctrl-C uploads what is buffered and ends.

    Without URL the streams lie in the directory of --state, and retention cleans that.

    Under `local` an append is answered when this disk has it; losing the disk loses what was not uploaded.

    Without --tokens everyone who reaches the address may read, append, create and delete; so only this
    machine can, unless --anonymous is given.
    """
    from fencepost.impl.http.limits import Limits
    from fencepost.impl.http.server import Server
    from fencepost.impl.streams import Durability
    from fencepost.impl.streams.access import Access
    from fencepost.impl.streams.app import StreamServer
    from fencepost.impl.streams.background import Background

    if url is None:
        if not state:
            raise BadRequest("name a store URL; or give --state, which then keeps the streams too")
        url = (Path(state).absolute() / "objects").as_uri()
    if durability == "local" and not state:
        raise BadRequest("--durability local needs --state")
    check_tls(certificate, key)
    check_reach(listen, tokens, anonymous=anonymous, system="streams", risk="delete every stream")
    access = Access(open_tokens(tokens, "streams"), origins)
    if access.tokens is not None and not (is_local(listen.host) or certificate):
        print_error(f"{listen.host} is not local: put a TLS proxy in front, tokens travel unencrypted")
    allow_connections(connections)
    node = _node(url, state, durability=Durability(durability), **how)
    handler = logging.StreamHandler()
    handler.setFormatter(LogLine())
    logging.getLogger("fencepost.streams").addHandler(handler)
    limits = Limits(
        connections=connections,
        requests=connections,
        client_requests=connections,
        answers=connections,
        client_answers=client_readers or max(1, connections - max(1, min(connections // 8, 64))),
        memory_bytes=memory_max,
    )
    with contextlib.closing(bind(listen)) as bound:
        service = StreamServer(node, long_poll_s=long_poll_s, sse_s=sse_s, limits=limits, access=access)
        background = Background(node, service.metrics)
        server = Server(
            service,
            on_listening=lambda address: say(f"listening on {address}"),
            certificate=certificate,
            key=key,
        )
        try:
            server.run([bound])
        finally:
            service.close()
            background.close()
            node.close()
    return Result({})


@subcommand(
    "create",
    "Create a stream.",
    URL,
    NAME,
    TYPE,
    click.option(
        "--ttl",
        "ttl_s",
        type=WholeNumber(0),
        metavar="SECONDS",
        help="It expires so long after its last use.",
    ),
)
def create(url: str, name: str, content_type: str, ttl_s: int | None) -> Result:
    """Create NAME below URL, unless it exists with the same configuration."""
    from fencepost.impl.streams import Configuration

    refuse_memory(url)
    manifest, created = _node(url).create(name, Configuration(content_type, ttl_s))
    found = {"created": created, "next_offset": manifest.offset(manifest.tail)}
    return Result(found, f"{'created' if created else 'exists'}, next offset {found['next_offset']}")


@subcommand(
    "append",
    "Append standard input.",
    URL,
    NAME,
    TYPE,
    click.option("--close", is_flag=True, help="Close the stream after it."),
)
def append(url: str, name: str, content_type: str, close: bool) -> Result:
    """Append standard input to NAME as one message."""
    from fencepost.impl.streams.framing import to_stored

    body = to_stored(sys.stdin.buffer.read(), content_type)
    done = _node(url).append(name, body, content_type=content_type, close=close)
    return Result({"next_offset": done.offset}, f"next offset {done.offset}")


OFFSET = click.option(
    "--offset", default="-1", show_default=True, metavar="OFFSET", help="Where to begin; -1 is the start."
)


@subcommand("read", "Print a stream.", URL, NAME, OFFSET)
def read(url: str, name: str, offset: str) -> Result:
    """Write the bytes of NAME from the offset to standard output."""
    for chunk in _chunks(_node(url), name, offset):
        sys.stdout.buffer.write(chunk.body)
        if chunk.up_to_date:
            break
    sys.stdout.buffer.flush()
    return Result({})


@subcommand("tail", "Follow a stream.", URL, NAME, OFFSET)
def tail(url: str, name: str, offset: str) -> Result:
    """Write the bytes of NAME from the offset to standard output until the stream is closed."""
    for chunk in _chunks(_node(url), name, offset):
        sys.stdout.buffer.write(chunk.body)
        sys.stdout.buffer.flush()
        if chunk.closed:
            break
        if chunk.up_to_date:
            ENV.sleep(0.5)
    return Result({})


def _chunks(node: Any, name: str, offset: str) -> Iterator[Any]:
    while True:
        chunk = node.read_from(name, offset)
        yield chunk
        offset = chunk.manifest.offset(chunk.end)


@subcommand("delete", "Delete a stream.", URL, NAME, STATE)
def delete(url: str, name: str, state: str | None) -> Result:
    """Delete NAME. Its objects go with the next sweeps."""
    _node(url, state).delete(name)
    return Result({}, f"deleted {name}")


@subcommand("sweep", "Reap what is doomed.", URL, STATE, SKEW, LANDING)
def sweep(url: str, state: str | None, **how: float) -> Result:
    """Scan everything below URL, and reap the deleted and expired streams."""
    from fencepost.impl.streams import Reaper

    node = _node(url, state, **how, reap_limit=10**9)
    reaper = Reaper(node)
    failures = {name: str(error) for name, error in reaper.sweep()}
    counters = vars(reaper.counters)
    lines = [f"{name}: {text}" for name, text in failures.items()]
    lines.append(
        f"streams reaped: {counters['streams_reaped']}; objects deleted: {counters['objects_deleted']}"
    )
    code = Exit.VIOLATED if failures else Exit.HOLDS
    return Result({**counters, "failures": failures}, "\n".join(lines), code)


@subcommand(
    "restore",
    "Flag what is doomed.",
    URL,
    click.option("--state", metavar="DIRECTORY", required=True, help="Local state of the server."),
)
def restore(url: str, state: str) -> Result:
    """Write a row into the local state for each doomed manifest below URL, so that a server reaps it."""
    from fencepost.impl.streams import Reaper

    node = _node(url, state)
    Reaper(node).scan()
    flagged = sorted(node.state.flagged())
    return Result({"flagged": flagged}, f"streams to be reaped: {len(flagged)}")


@subcommand("status", "Describe a stream.", URL, NAME)
def status(url: str, name: str) -> Result:
    """Show what the manifest of NAME says."""
    node = _node(url)
    manifest = node.load(node.stream(name))
    if manifest is None:
        return Result({"name": name, "exists": False}, f"there is no stream {name}", Exit.VIOLATED)
    found = {
        "name": name,
        "exists": True,
        "incarnation": manifest.incarnation,
        "owner": manifest.owner,
        "next_offset": manifest.offset(manifest.tail),
        "segments": sum(one.count for one in manifest.segments),
        "closed": manifest.closed,
        "deleted": manifest.is_tombstone,
        "forks": list(manifest.forks),
    }
    return Result(found, "\n".join(f"{key}: {value}" for key, value in found.items()))


add_token_commands(subcommand, "streams", "/orders")
