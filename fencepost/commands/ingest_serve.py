"""`fencepost ingest serve`, `enrol`, `revoke`: the collector, and who may speak to it."""

import contextlib
import ipaddress
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.ingest_options import (
    ENV,
    STORE,
    log_to_stderr,
    opened,
    say,
    settings_of,
    settings_options,
    told,
)
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.tokens import BadTokens, Principal, Tokens
from fencepost.impl.ingest.context import agree
from fencepost.impl.ingest.errors import IdentityError, StoreUnavailable
from fencepost.impl.ingest.frames import Limits as FrameLimits
from fencepost.impl.ingest.keys import agent_path
from fencepost.impl.ingest.maintenance import EVERY_S as MAINTENANCE_S
from fencepost.impl.ingest.maintenance import SEARCH_EVERY_S as SEARCH_S
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.ingest.settings import Mode

PORT = 8480
LIMITS = (
    ("body_bytes", "--body-bytes", "Maximum size of one batch."),
    ("connections", "--connections", "Maximum number of open connections."),
    ("requests", "--requests", "Maximum number of batches in flight."),
    ("client_requests", "--agent-requests", "Maximum number of batches in flight from one agent."),
    ("threads", "--threads", "Threads that wait for the store."),
    ("header_s", "--header-s", "Time for the headers to arrive."),
    ("body_s", "--body-s", "Time for the body to arrive."),
    ("drain_s", "--drain-s", "Time to finish the batches in flight on SIGTERM."),
)


def limit_options(act: Callable[..., Any]) -> Callable[..., Any]:
    for name, flag, text in reversed(LIMITS):
        default = getattr(Limits(), name)
        kind = click.FloatRange(0, min_open=True) if isinstance(default, float) else click.IntRange(1)
        act = click.option(flag, name, type=kind, default=default, show_default=True, help=text)(act)
    return act


@click.command("serve", short_help="Run a collector.")
@STORE
@click.option("--agents", "tokens", required=True, metavar="FILE", help="Who may speak; see `enrol`.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes a free one."
)
@click.option(
    "--collector-id", metavar="NAME", help="What manifests call it.  [default: host name and a number]"
)
@click.option(
    "--acceptance",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.S3_MANIFEST.value,
    show_default=True,
    help="What accepts: the bucket, or this collector's own disk.",
)
@click.option("--spool", metavar="DIRECTORY", help="The disk that accepts, with local_spool.")
@click.option(
    "--landing-interval-ms",
    type=click.IntRange(1),
    default=5000,
    show_default=True,
    help="How often what the disk accepted goes to the bucket.",
)
@click.option(
    "--maintenance-every",
    "maintenance_s",
    type=click.FloatRange(0),
    default=MAINTENANCE_S,
    show_default=True,
    metavar="SECONDS",
    help="How often indexes are repaired and new batches added up, by one of all collectors; 0 is never.",
)
@click.option(
    "--search-every",
    "search_s",
    type=click.FloatRange(0, min_open=True),
    default=SEARCH_S,
    show_default=True,
    metavar="SECONDS",
    help="How often that looks through all accepted batches for such as show nowhere.",
)
@click.option("--tls-certificate", metavar="FILE", help="Speak TLS, with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="And this key.")
@click.option("--verbose", is_flag=True, help="Log a line for every request.")
@limit_options
@settings_options
@told
def serve(url: str, tokens: str, host: str, port: int, collector_id: str | None, **options: Any) -> int:
    """Accept batches over HTTP and keep them at --store, until told to stop (SIGTERM or ctrl-C): then what is
    being worked on is finished.

    One of the collectors of a store at a time keeps it in order as well: what another left out of the
    indexes, because it was killed, is written, and what is new is added up. So nobody need run `reconcile`
    and `rollup`. It deletes nothing: for that somebody must run `audit` and then `gc`.
    """
    from fencepost.impl.ingest.service.app import Plan, collecting

    mode = Mode(options["acceptance"])
    if (mode is Mode.LOCAL_SPOOL) != (options["spool"] is not None):
        raise BadRequest("--acceptance local_spool needs --spool DIRECTORY, and --spool is for nothing else")
    if (options["tls_certificate"] is None) != (options["tls_key"] is None):
        raise BadRequest("--tls-certificate and --tls-key come together")
    limits = Limits(**{name: options[name] for name, _, _ in LIMITS})
    settings = settings_of(options, acceptance=mode, limits=FrameLimits.for_body(limits.body_bytes))
    log_to_stderr(verbose=options["verbose"])
    _allow_connections(limits.connections)
    with contextlib.ExitStack() as parts:
        known = _tokens(tokens)
        bound = parts.enter_context(_bound(host, port))
        if not (_is_local(host) or options["tls_certificate"]):
            say(
                f"{host} is reached by others: let a TLS proxy stand in front, tokens travel as they are",
                Exit.HOLDS,
            )
        plan = Plan(
            store=parts.enter_context(opened(url, makes=True)),
            env=ENV,
            tokens=known,
            collector_id=collector_id or f"{socket.gethostname()}-{ENV.new_id()}",
            settings=settings,
            limits=limits,
            spool=Path(options["spool"]) if options["spool"] else None,
            landing_s=options["landing_interval_ms"] / 1000,
            maintenance_s=options["maintenance_s"],
            search_s=options["search_s"],
        )
        with contextlib.suppress(StoreUnavailable):  # then it accepts nothing either, until the store is back
            agree(plan.store, ENV, settings)
        _serve(parts.enter_context(collecting(plan)), bound, options)
    return Exit.HOLDS


def _serve(collector: Any, bound: socket.socket, options: dict[str, Any]) -> None:
    from fencepost.impl.http.server import Server

    try:
        server = Server(
            collector,
            on_listening=lambda url: click.echo(f"listening on {url}"),
            certificate=options["tls_certificate"],
            key=options["tls_key"],
        )
        server.config.load()
    except OSError as error:  # a certificate that is missing, or none
        raise BadRequest(f"TLS cannot be set up: {error}; see to --tls-certificate and --tls-key") from None
    server.run([bound])


def _tokens(file: str) -> Tokens:
    try:
        return Tokens(token_file(file))
    except BadTokens as error:
        raise BadRequest(str(error)) from None


def _bound(host: str, port: int) -> socket.socket:
    from fencepost.impl.http.server import listener

    try:
        return listener(host, port)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadRequest(
            f"cannot listen on {host} port {port}: {why}; give another --host or --port"
        ) from None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allow_connections(count: int) -> None:
    """Each takes a file descriptor; a shell's soft limit is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 512  # and the store's, and our own
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            say(f"the system allows {hard} open files: --connections {count} will not be reached", Exit.HOLDS)


@click.command("enrol", short_help="Make a token for an agent or an operator.")
@click.argument("file")
@click.argument("name")
@click.option("--operator", is_flag=True, help="For an operator.")
@click.option(
    "--token-file",
    "out_file",
    metavar="FILE",
    help="Write the token there, for your eyes only.  [default: print it]",
)
@told
def enrol_command(file: str, name: str, operator: bool, out_file: str | None) -> int:
    """Add a token of NAME to FILE, which keeps its hash only. The token itself is given out this once.
    Collectors that use FILE know it at once.
    """
    role = "operator" if operator else "agent"
    with contextlib.ExitStack() as parts:
        out = None if out_file is None else parts.enter_context(_for_our_eyes(out_file))
        try:
            agent_path(name)
            token = token_file(file).enrol(Principal(role, name), ENV)
        except (BadTokens, IdentityError) as error:
            if out_file is not None:
                Path(out_file).unlink()
            raise BadRequest(str(error)) from None
        click.echo(token, file=out)
    if out_file is not None:
        click.echo(f"{role} {name} is enrolled in {file}; its token is in {out_file}")
    return Exit.HOLDS


def _for_our_eyes(file: str) -> IO[str]:
    """Opened before there is a token to lose, and never over another file."""
    try:
        return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except OSError as error:
        raise BadRequest(f"cannot write {file}: {error.strerror}; give --token-file a new file") from None


@click.command("revoke", short_help="Take tokens back.")
@click.argument("file")
@click.argument("name")
@told
def revoke_command(file: str, name: str) -> int:
    """Remove all tokens of NAME from FILE, or the one token whose part before the dot is NAME."""
    try:
        count = token_file(file).revoke(name) if Path(file).exists() else 0
    except BadTokens as error:
        raise BadRequest(str(error)) from None
    if not count:
        raise BadRequest(f"{file} has no token of {name!r}")
    click.echo(f"revoked {count} {'token' if count == 1 else 'tokens'} of {name}")
    return Exit.HOLDS


COMMANDS = (serve, enrol_command, revoke_command)
