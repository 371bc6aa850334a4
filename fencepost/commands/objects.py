"""`fencepost objects`: a directory as an S3 server."""

import contextlib
import os
import secrets as _secrets  # noqa: TID251  a token of the operator's, not of any protocol
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.operating import (
    Act,
    Ending,
    ErrorContract,
    Parameter,
    Result,
    add_subcommand,
    allow_connections,
    bind,
)
from fencepost.commands.recording import fields_option, http_recording, process_option, record_option
from fencepost.commands.serving import TLS, add_token_commands, check_tls, open_tokens
from fencepost.commands.values import Address, listen_option
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import StoreError

ENV = SystemEnvironment()
ROOT_TOKEN = "FENCEPOST_OBJECTS_ROOT_TOKEN"  # noqa: S105  the name of a variable
EPILOG = """Exit codes: 0 done, 1 the directory cannot be used, 2 the request makes no sense. Example:
fencepost objects serve /var/lib/objects --listen 127.0.0.1:9000 --workers 2."""


@click.group("objects", short_help="Serve a directory as an object store.", epilog=EPILOG)
def command() -> None:
    """An S3 server whose conditional writes are linearizable. Objects are files, acknowledged when durable.

    The root token comes from --root-token-file, or from the environment (FENCEPOST_OBJECTS_ROOT_TOKEN), or
    is generated and printed once. `token` prints what a client of one bucket needs.
    """


ERRORS = ErrorContract(lambda: (Ending(StoreError, Exit.VIOLATED),), "objects", "the server needs more")


def subcommand(name: str, summary: str, *parameters: Parameter) -> Callable[[Act], click.Command]:
    return add_subcommand(command, name, summary, parameters, ERRORS)


TOKEN_FILE = click.option("--root-token-file", metavar="FILE", help="Holds the root token, and nothing else.")


SERVING: tuple[Parameter, ...] = (
    click.argument("directory", metavar="DIR"),
    listen_option("127.0.0.1:9000"),
    click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."),
    TOKEN_FILE,
    click.option("--domain", metavar="HOST", help="Buckets are also hosts below this one."),
    click.option("--tokens", metavar="FILE", help="Tokens for the REST interface below /v1; see `enrol`."),
    *TLS,
    click.option(
        "--connections",
        type=click.IntRange(1),
        default=2000,
        show_default=True,
        help="Maximum number of open connections.",
    ),
    click.option(
        "--requests",
        type=click.IntRange(1),
        default=256,
        show_default=True,
        help="Maximum number of requests in flight, in each process.",
    ),
    click.option(
        "--drain-timeout",
        "drain_s",
        metavar="SECONDS",
        type=click.FloatRange(0, min_open=True),
        default=30.0,
        show_default=True,
        help="Time to finish the requests in flight on SIGTERM.",
    ),
    record_option,
    fields_option,
    process_option,
)
PASSED_ON = click.Command("", params=[])
for _option in reversed(SERVING):
    _option(PASSED_ON)


@subcommand("serve", "Run the server.", *SERVING)
def serve(
    directory: str, listen: Address, workers: int, root_token_file: str | None, **options: Any
) -> Result:
    """Serve DIR, which is made if it is missing. SIGTERM or ctrl-C finishes what is in flight and ends.

    Clients use path-style addresses, region us-east-1, and the access key `root` or the name of a bucket;
    the secret key is what `fencepost objects token` prints.
    """
    from fencepost.impl.http.shared_metrics import shared
    from fencepost.impl.http.workers import Workers
    from fencepost.impl.objects.buckets import Buckets
    from fencepost.impl.objects.credentials import Credentials
    from fencepost.impl.objects.handoff import VARIABLE
    from fencepost.impl.objects.owner import Owner

    credentials = Credentials(_checked_token(root_token_file, options))
    allow_connections(options["connections"])
    buckets, owner = Buckets(directory), Owner(directory)
    supervised = os.environ.pop(VARIABLE, "")
    metrics = shared(Path(directory, ".objects", "metrics")) if workers > 1 else contextlib.nullcontext()
    if supervised:
        with metrics:
            _serve_supervised(buckets, credentials, owner, supervised, workers, options)
        return Result({})
    with contextlib.closing(bind(listen)) as bound:
        _make(Path(directory))
        owner.acquire()
        buckets.verify()
        if workers == 1:
            _serve(buckets, credentials, bound, options)
        else:
            with metrics:
                Workers(
                    lambda number: _serve(buckets, credentials, bound, options, quiet=number > 0),
                    workers,
                    ENV,
                    grace_s=options["drain_s"] + 5,
                ).run()
    return Result({})


@subcommand("supervise", "Run the server so that it can be replaced.", *SERVING)
def supervise(
    directory: str, listen: Address, workers: int, root_token_file: str | None, **options: Any
) -> Result:
    """Serve DIR like `serve`, by a process that `handoff` replaces without refusing a connection.

    The supervisor owns the listening socket and starts the server again whenever it has ended.
    """
    from fencepost.impl.http.server import address
    from fencepost.impl.objects.handoff import BACKLOG, VARIABLE, Supervisor
    from fencepost.impl.objects.owner import Owner

    token = _checked_token(root_token_file, options)
    arguments = ["--workers", str(workers)]
    for parameter in PASSED_ON.params:
        value = options.get(parameter.name or "")
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        for one in values:
            arguments += [parameter.opts[0], str(one)]

    def start(inherited: tuple[int, int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  this program
            [sys.executable, "-m", "fencepost", "objects", "serve", directory, *arguments],
            pass_fds=inherited,
            env={**os.environ, ROOT_TOKEN: token, VARIABLE: "{},{}".format(*inherited)},
        )

    with contextlib.closing(bind(listen)) as bound:
        _make(Path(directory, ".objects"))
        owner = Owner(directory)
        owner.acquire()  # says who serves, in one line, before servers are started again and again
        owner.release()
        bound.listen(BACKLOG)
        say(f"listening on {address(bound, secure=options['certificate'] is not None)}")
        Supervisor(directory, start, bound, ENV, drain_s=options["drain_s"]).run()
    return Result({})


@subcommand("handoff", "Replace the running server.", click.argument("directory", metavar="DIR"))
def handoff(directory: str) -> Result:
    """Have the supervisor of DIR replace its server by a new one, for example of another release.

    No connection is refused meanwhile. If the new server does not begin to serve, the old one goes on.
    """
    from fencepost.impl.objects.handoff import request_handoff

    try:
        answer = request_handoff(directory)
    except OSError as error:
        raise BadRequest(
            f"{directory} has no supervisor ({error.strerror}); start one with: fencepost objects supervise"
        ) from None
    outcome, _, text = answer.partition(" ")
    if outcome != "done":
        return Result({"replaced": False, "reason": text}, f"the old server goes on: {text}", Exit.VIOLATED)
    return Result({"replaced": True, "process": int(text)}, f"process {text} serves now")


def _checked_token(root_token_file: str | None, options: dict[str, Any]) -> str:
    """The root token, once it and the files of TLS are found usable: before anything is bound or forked."""
    from fencepost.impl.objects.credentials import Credentials

    check_tls(options["certificate"], options["key"])
    open_tokens(options["tokens"], "objects")
    token = _root_token(root_token_file) or _generated()
    try:
        Credentials(token)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    return token


def _serve_supervised(
    buckets: Any, credentials: Any, owner: Any, inherited: str, workers: int, options: dict[str, Any]
) -> None:
    """As one of the servers that a supervisor replaces by each other."""
    import fencepost.impl.objects.app  # noqa: F401  workers begin sooner with what they need imported
    from fencepost.impl.http.workers import Workers
    from fencepost.impl.objects.handoff import Line, Member

    listening, control = (socket.socket(fileno=int(number)) for number in inherited.split(","))

    def work(_: int) -> None:
        control.close()
        _serve(buckets, credentials, listening, options, quiet=True, on_listening=team.announce)

    team = Workers(work, workers, ENV, grace_s=options["drain_s"] + 5)
    Member(Line(control), owner, team, ENV, options["drain_s"]).run()


def _serve(
    buckets: Any,
    credentials: Any,
    bound: socket.socket,
    options: dict[str, Any],
    *,
    quiet: bool = False,
    on_listening: Callable[[], None] = lambda: None,
) -> None:
    from fencepost.impl.http.server import Server
    from fencepost.impl.objects.app import ObjectServer
    from fencepost.impl.objects.calls import Calls
    from fencepost.impl.objects.maintenance import Maintenance

    domain = options["domain"] or ""
    tokens = open_tokens(options["tokens"], "objects")
    recording = http_recording(options, "objects", domain)
    if recording is not None:
        buckets.calls = Calls(recording.recorder)
    service = ObjectServer(
        buckets,
        credentials,
        domain=domain,
        limits=limits_of(options),
        tokens=tokens,
        recording=recording,
    )
    maintenance = Maintenance(buckets, refresh=service.metrics.refresh)

    def listening(url: str) -> None:
        if not quiet:
            say(f"listening on {url}")
        on_listening()

    server = Server(
        service,
        on_listening=listening,
        certificate=options["certificate"],
        key=options["key"],
    )
    try:
        server.run([bound])
    finally:
        service.close()
        maintenance.close()
        buckets.close()
        if recording is not None:
            recording.close()


def limits_of(options: dict[str, Any]) -> Any:
    """Of the requests in flight one client may have all but an eighth, which is left to the others."""
    from fencepost.impl.http.limits import Limits

    requests = options["requests"]
    return Limits(
        connections=options["connections"],
        requests=requests,
        client_requests=max(1, requests - max(1, requests // 8)),
        drain_s=options["drain_s"],
    )


def _root_token(file: str | None) -> str:
    if file is None:
        return os.environ.get(ROOT_TOKEN, "")
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {file}: {getattr(error, 'strerror', error)}") from None


def _generated() -> str:
    """A token of this start, printed once; only where somebody can see it."""
    if not sys.stderr.isatty():
        raise BadRequest(f"there is no root token: set {ROOT_TOKEN} or give --root-token-file")
    token = _secrets.token_urlsafe(32)
    say(f"root token of this start: {token}", err=True)
    return token


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"cannot make {folder}: {error.strerror}; name another directory") from None


@subcommand("reconcile", "Bring the listing index in line.", click.argument("directory", metavar="DIR"))
def reconcile(directory: str) -> Result:
    """Compare the listing index of DIR with its files and correct it, also while it is served.

    Every start of a server does the same. It is needed when files were added or removed beside the server.
    """
    from fencepost.impl.objects.buckets import Buckets
    from fencepost.impl.objects.reconcile import reconcile as compare

    if not Path(directory).is_dir():
        raise BadRequest(f"{directory} is no directory")
    with contextlib.closing(Buckets(directory)) as buckets:
        found = compare(buckets)
    assert found is not None, "only a server leaves it to another"
    text = f"compared {found.buckets} buckets; {found.differences} keys differed and were recorded"
    return Result({"buckets": found.buckets, "differences": found.differences}, text)


@subcommand("token", "Print a secret key.", click.argument("access_key"), TOKEN_FILE)
def token(access_key: str, root_token_file: str | None) -> Result:
    """Print the secret key of ACCESS_KEY, which is `root` or the name of a bucket."""
    from fencepost.impl.objects.credentials import Credentials

    root = _root_token(root_token_file)
    if not root:
        raise BadRequest(f"there is no root token: set {ROOT_TOKEN} or give --root-token-file")
    try:
        return Result({}, Credentials(root).secret(access_key) or "")
    except ValueError as error:
        raise BadRequest(str(error)) from None


add_token_commands(subcommand, "objects", "/bucket/folder")
