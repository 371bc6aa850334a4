"""`fencepost ingest serve`, `enrol`, `revoke`: the collector, and its tokens."""

import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.ingest.group import (
    ENV,
    STORE,
    log_to_stderr,
    names_from_user,
    opened,
    settings_of,
    settings_options,
    subcommand,
)
from fencepost.commands.messages import say
from fencepost.commands.operating import Result, allow_connections, bind, print_error
from fencepost.commands.serving import TLS, check_tls, handed_out, is_local, revoked, token_errors
from fencepost.commands.values import Address, listen_option, size_option
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.tokens import Principal, Tokens
from fencepost.impl.ingest.context import agree
from fencepost.impl.ingest.errors import StoreUnavailable
from fencepost.impl.ingest.frames import Limits as FrameLimits
from fencepost.impl.ingest.keys import Identity, agent_path
from fencepost.impl.ingest.maintenance import EVERY_S, SEARCH_EVERY_S
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.ingest.settings import SPOOL_BOUND, Mode, SpoolBound
from fencepost.impl.store import Store
from fencepost.impl.store.layers import Traced

LIMITS = (
    ("connections", "--connections", "Maximum number of open connections."),
    ("requests", "--requests", "Maximum number of batches in flight."),
    ("client_requests", "--agent-requests", "Maximum number of batches in flight from one agent."),
    ("threads", "--threads", "Threads that wait for the store."),
    ("header_s", "--header-timeout", "Time for the headers to arrive."),
    ("body_s", "--body-timeout", "Time for the body to arrive."),
    ("drain_s", "--drain-timeout", "Time to finish the batches in flight on SIGTERM."),
)


def limit_options(act: Callable[..., Any]) -> Callable[..., Any]:
    for name, flag, text in reversed(LIMITS):
        default = getattr(Limits(), name)
        seconds = isinstance(default, float)
        kind = click.FloatRange(0, min_open=True) if seconds else click.IntRange(1)
        unit = "SECONDS" if seconds else "N"
        act = click.option(
            flag, name, type=kind, default=default, show_default=True, metavar=unit, help=text
        )(act)
    with_size: Callable[..., Any] = size_option("--body-max", Limits().body_bytes, "Largest batch.")(act)
    return with_size


@subcommand(
    "serve",
    "Run a collector.",
    STORE,
    click.option("--agents", "tokens", required=True, metavar="FILE", help="Token file; see `enrol`."),
    listen_option("127.0.0.1:8480"),
    click.option(
        "--collector-id", metavar="NAME", help="Its name in manifests.  [default: host name and a number]"
    ),
    click.option(
        "--acceptance",
        type=click.Choice([mode.value for mode in Mode]),
        default=Mode.S3_MANIFEST.value,
        show_default=True,
        help="What accepts batches: the bucket, or this collector's own disk.",
    ),
    click.option("--spool", metavar="DIR", help="The disk that accepts, with local_spool."),
    click.option(
        "--spool-batches",
        type=click.IntRange(1),
        default=SPOOL_BOUND.batches,
        show_default=True,
        metavar="N",
        help="Most batches that wait on the disk; beyond them agents get 503.",
    ),
    size_option("--spool-max", SPOOL_BOUND.bytes, "Most bytes that wait on the disk."),
    click.option(
        "--landing-threads",
        type=click.IntRange(1),
        default=SPOOL_BOUND.landing,
        show_default=True,
        metavar="N",
        help="Batches on the disk that go to the bucket at once.",
    ),
    click.option(
        "--landing-every",
        "landing_s",
        type=click.FloatRange(0.001),
        default=5.0,
        show_default=True,
        metavar="SECONDS",
        help="How often batches on the disk go to the bucket.",
    ),
    click.option(
        "--maintenance-every",
        "maintenance_s",
        type=click.FloatRange(0),
        default=EVERY_S,
        show_default=True,
        metavar="SECONDS",
        help="How often one of all collectors repairs indexes and rolls up new batches; 0 is never.",
    ),
    click.option(
        "--search-every",
        "search_s",
        type=click.FloatRange(0, min_open=True),
        default=SEARCH_EVERY_S,
        show_default=True,
        metavar="SECONDS",
        help="How often that searches all accepted batches for those that no index shows.",
    ),
    *TLS,
    click.option("--verbose", is_flag=True, help="Log a line for every request."),
    limit_options,
    settings_options,
    json=False,
)
def serve(url: str, tokens: str, listen: Address, collector_id: str | None, **options: Any) -> Result:
    """Accept batches over HTTP and store them at --store, until SIGTERM or ctrl-C: then the collector
    finishes the batches in flight.

    One of the collectors of a store at a time maintains it as well: it writes index objects that a killed
    collector left out, and rolls up new batches. So `reconcile` and `rollup` need not run. It deletes
    nothing: for that, run `audit` and then `gc`.
    """
    from fencepost.impl.ingest.service.app import Plan, collecting

    mode = Mode(options["acceptance"])
    if (mode is Mode.LOCAL_SPOOL) != (options["spool"] is not None):
        raise BadRequest("--acceptance local_spool needs --spool DIR, and --spool needs local_spool")
    check_tls(options["certificate"], options["key"])
    limits = Limits(body_bytes=options["body_max"], **{name: options[name] for name, _, _ in LIMITS})
    settings = settings_of(options, acceptance=mode, limits=FrameLimits.for_body(limits.body_bytes))
    log_to_stderr(verbose=options["verbose"])
    allow_connections(limits.connections)
    with contextlib.ExitStack() as parts:
        with token_errors():
            known = Tokens(token_file(tokens))
        bound = parts.enter_context(bind(listen))
        if not (is_local(listen.host) or options["certificate"]):
            print_error(f"{listen.host} is not local: put a TLS proxy in front, tokens travel unencrypted")
        store = parts.enter_context(opened(url, creates=True))
        plan = Plan(
            store=store,
            on_answer=_answers(store),
            env=ENV,
            tokens=known,
            collector_id=collector_id or f"{socket.gethostname()}-{ENV.new_id()}",
            settings=settings,
            limits=limits,
            spool=Path(options["spool"]) if options["spool"] else None,
            spool_bound=SpoolBound(
                options["spool_batches"], options["spool_max"], options["landing_threads"]
            ),
            landing_s=options["landing_s"],
            maintenance_s=options["maintenance_s"],
            search_s=options["search_s"],
        )
        with contextlib.suppress(StoreUnavailable):  # it accepts nothing until the store is back
            agree(plan.store, ENV, settings)
        _serve(parts.enter_context(collecting(plan)), bound, options)
    return Result({})


def _answers(store: Store) -> Callable[[Identity, str, str], object] | None:
    """Record the answers to agents, which no request shows, where requests are recorded."""
    if not isinstance(store, Traced):
        return None
    return lambda identity, sha256, result: store.note(
        "", f"outcome {identity.path}", f"sha={sha256} what={result}"
    )


def _serve(collector: Any, bound: socket.socket, options: dict[str, Any]) -> None:
    from fencepost.impl.http.server import Server

    server = Server(
        collector,
        on_listening=lambda url: say(f"listening on {url}"),
        certificate=options["certificate"],
        key=options["key"],
    )
    server.run([bound])


@subcommand(
    "enrol",
    "Make a token for an agent, an operator or a reader.",
    click.argument("file"),
    click.argument("name"),
    click.option("--operator", "role", flag_value="operator", help="For an operator."),
    click.option("--reader", "role", flag_value="reader", help="For queries only."),
    click.option(
        "--token-file",
        "out_file",
        metavar="FILE",
        help="Write the token there, readable only by you.  [default: print it]",
    ),
    json=False,
)
def enrol(file: str, name: str, role: str | None, out_file: str | None) -> Result:
    """Add a token of NAME to FILE, which keeps only its hash: the token itself appears this once. Collectors
    that use FILE accept it at once.
    """
    role = role or "agent"

    def make() -> str:
        with names_from_user(), token_errors():
            agent_path(name)
            return token_file(file).enrol(Principal(role, name), ENV)

    token = handed_out(make, out_file)
    return Result({}, token or f"{role} {name} is enrolled in {file}; its token is in {out_file}")


@subcommand("revoke", "Revoke tokens.", click.argument("file"), click.argument("name"), json=False)
def revoke(file: str, name: str) -> Result:
    """Remove all tokens of NAME from FILE, or the one token whose part before the dot is NAME."""
    with token_errors():
        count = token_file(file).revoke(name) if Path(file).exists() else 0
    return revoked(file, name, count)
