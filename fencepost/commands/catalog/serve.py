"""`fencepost catalog serve`, `enrol`, `revoke`: the server of a catalog, and its tokens."""

import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any

import click

from fencepost.commands.catalog.group import (
    ERRORS,
    REFUSE_AFTER,
    SLOW_AFTER,
    STUCK_AFTER,
    URL,
    command,
    exists,
)
from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.messages import LogLine, say
from fencepost.commands.operating import (
    Act,
    Parameter,
    Result,
    add_subcommand,
    allow_connections,
    bind,
    print_error,
)
from fencepost.commands.output_files import json_option
from fencepost.commands.recording import record_store_option, recorded_store
from fencepost.commands.serving import TLS, add_token_commands, check_reach, check_tls, is_local, open_tokens
from fencepost.commands.values import Address, WholeNumber, listen_option, size_option
from fencepost.impl.http.limits import Limits
from fencepost.impl.publish.pressure import Pressure
from fencepost.impl.publish.service.kinds import LIMITS
from fencepost.impl.store import open_store


def subcommand(name: str, summary: str, *parameters: Parameter) -> Callable[[Act], click.Command]:
    return add_subcommand(command, name, summary, parameters, ERRORS)


@subcommand(
    "serve",
    "Commit for many writers.",
    URL,
    listen_option("127.0.0.1:8490"),
    click.option(
        "--author", metavar="NAME", help="Author of the commits.  [default: serve@ and the host name]"
    ),
    click.option("--tokens", metavar="FILE", help="Serve only who has a token of this file; see `enrol`."),
    click.option(
        "--anonymous", is_flag=True, help="Without --tokens, serve everyone who can reach this machine."
    ),
    click.option(
        "--connections",
        type=WholeNumber(1),
        default=LIMITS.connections,
        show_default=True,
        metavar="N",
        help="Maximum number of open connections.",
    ),
    click.option(
        "--requests",
        type=WholeNumber(1),
        default=LIMITS.requests,
        show_default=True,
        metavar="N",
        help="Maximum number of commits that wait; beyond them clients get 503.",
    ),
    click.option(
        "--client-requests",
        type=WholeNumber(1),
        metavar="N",
        help="The same for one token or address; beyond them it gets 429.  [default: all of them]",
    ),
    size_option("--body-max", LIMITS.body_bytes, "Largest commit."),
    size_option("--memory-max", LIMITS.memory_bytes, "Memory for the commits that wait."),
    click.option(
        "--drain-timeout",
        "drain_s",
        type=click.FloatRange(0, min_open=True),
        default=LIMITS.drain_s,
        show_default=True,
        metavar="SECONDS",
        help="Time to finish the commits that wait, on SIGTERM.",
    ),
    STUCK_AFTER,
    SLOW_AFTER,
    REFUSE_AFTER,
    *TLS,
    click.option("--verbose", is_flag=True, help="Log a line for every request."),
    record_store_option,
    json_option,
)
def serve(url: str, listen: Address, author: str | None, **options: Any) -> Result:
    """Commit for writers of other processes and languages, which send their changes over HTTP to this server.

    All changes that wait at the same moment share one commit, so writers do not meet each other. Each is
    answered when its commit is durable and visible. Any number of servers may serve one catalog, beside
    writers with handles of their own. SIGTERM or ctrl-C finishes the commits that wait.

    Without --tokens everyone who reaches the address may read and write every table; so only this machine
    can, unless --anonymous is given.
    """
    from fencepost.impl.http.server import Server
    from fencepost.impl.publish.service.app import CatalogServer, Setup

    check_tls(options["certificate"], options["key"])
    check_reach(
        listen,
        options["tokens"],
        anonymous=options["anonymous"],
        system="catalog",
        risk="write every table",
    )
    tokens = open_tokens(options["tokens"], "catalog")
    if tokens is not None and not (is_local(listen.host) or options["certificate"]):
        print_error(f"{listen.host} is not local: put a TLS proxy in front, tokens travel unencrypted")
    if not exists(url):
        raise BadRequest(f"there is no catalog at {url}; make one: fencepost catalog init {url}")
    allow_connections(options["connections"])
    _log(verbose=options["verbose"])
    limits = Limits(
        connections=options["connections"],
        requests=options["requests"],
        client_requests=options["client_requests"] or options["requests"],
        body_bytes=options["body_max"],
        memory_bytes=options["memory_max"],
        drain_s=options["drain_s"],
    )
    with contextlib.closing(bind(listen)) as bound, open_store(url) as store:
        service = CatalogServer(
            Setup(
                recorded_store(store, url, "publish"),
                author or f"serve@{socket.gethostname()}",
                tokens,
                limits,
                stuck_after_s=options["stuck_after_s"],
                pressure=Pressure(options["slow_after"], options["refuse_after"]),
            )
        )
        server = Server(
            service,
            on_listening=lambda address: say(f"listening on {address}", err=_is_json_on_stdout()),
            certificate=options["certificate"],
            key=options["key"],
        )
        try:
            server.run([bound])
        finally:
            service.close()
    found = service.figures.to_json()
    storage, commits = found["storage"], found["commits"]
    text = (
        f"{found['orders']} changes in {commits} commits, {storage['ops']} requests to the store in "
        f"{storage['stages']} stages"
    )
    return Result({"url": url, **found}, text)


def _is_json_on_stdout() -> bool:
    """Return True if standard output is for the JSON of the command."""
    return click.get_current_context().params.get("json_file") == "-"


def _log(*, verbose: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(LogLine())
    log = logging.getLogger("fencepost.catalog")
    log.handlers[:] = [handler]
    log.setLevel(logging.DEBUG if verbose else logging.INFO)


add_token_commands(subcommand, "catalog", "/main")
