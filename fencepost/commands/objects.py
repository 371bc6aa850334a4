"""`fencepost objects`: a directory as an S3 server."""

import contextlib
import functools
import logging
import os
import secrets as _secrets  # noqa: TID251  a token of the operator's, not of any protocol
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.objects_settings import (
    OPERATING,
    check_settings,
    exported,
    logged,
    settings_of_buckets,
)
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
from fencepost.commands.output_files import json_option
from fencepost.commands.recording import fields_option, http_recording, process_option, record_option
from fencepost.commands.serving import TLS, add_token_commands, check_tls, open_tokens
from fencepost.commands.values import Address, listen_option
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store.errors import Misuse, StoreError

ENV = SystemEnvironment()
ROOT_TOKEN, SHORT_ROOT_TOKEN = "FENCEPOST_OBJECTS_ROOT_TOKEN", "OBJECTS_ROOT_TOKEN"
KEYS = ("FENCEPOST_OBJECTS_ACCESS_KEY", "FENCEPOST_OBJECTS_SECRET_KEY")
DAY_NS = 86_400 * 10**9
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


FOREVER_S = 1e7
"""A drain without a limit: four months."""
TOKEN_FILE = click.option("--root-token-file", metavar="FILE", help="Holds the root token, and nothing else.")


DIRECTORY = click.argument("directory", metavar="DIR", envvar="OBJECTS_DATA_DIR")
SERVING: tuple[Parameter, ...] = (
    listen_option("127.0.0.1:9000"),
    click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes."),
    TOKEN_FILE,
    click.option("--domain", metavar="HOST", help="Buckets are also hosts below this one."),
    click.option("--tokens", metavar="FILE", help="Tokens of named keys; see `enrol`."),
    click.option(
        "--keep-log",
        "keep_log",
        metavar="DAYS",
        type=click.IntRange(1),
        help="Remove days of the change log at this age, if its readers have passed them.  [default: never]",
    ),
    click.option(
        "--access-log",
        "access_log",
        metavar="FILE",
        help="Append a line for each request, and for each deletion by a lifecycle elsewhere.",
    ),
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
        type=click.FloatRange(0),
        callback=lambda _context, _option, seconds: seconds or FOREVER_S,
        default=30.0,
        show_default=True,
        envvar="DRAIN_TIMEOUT_SECS",
        show_envvar=True,
        help="Time to finish the requests in flight on SIGTERM; 0 for no limit.",
    ),
    click.option(
        "--private",
        is_flag=True,
        help="Answer no request without a signature or a token, whatever buckets and objects say.",
    ),
    *OPERATING,
    record_option,
    fields_option,
    process_option,
)
TESTING: tuple[Parameter, ...] = (
    click.option("--memory", is_flag=True, help="Serve no DIR: for tests, in memory, gone at the end."),
    click.option("--bucket", "made", metavar="NAME", multiple=True, help="Make this bucket (--memory)."),
    click.option("--fault-script", metavar="FILE", help="Fail by this script, TOML or JSON (--memory)."),
    click.option("--fault-trace", metavar="FILE", help="Write the script that repeats what failed."),
    click.option(
        "--quirk", "quirks", metavar="NAME", multiple=True, help="Have this quirk of other stores (--memory)."
    ),
    click.option(
        "--as", "stores", metavar="STORE", multiple=True, help="Have the quirks of a store, as r2 (--memory)."
    ),
)
PASSED_ON = click.Command("", params=[])
for _option in reversed(SERVING):
    _option(PASSED_ON)


@subcommand(
    "serve",
    "Run the server.",
    click.argument("directory", metavar="DIR", required=False, envvar="OBJECTS_DATA_DIR"),
    *SERVING,
    *TESTING,
)
def serve(
    directory: str | None, listen: Address, workers: int, root_token_file: str | None, **options: Any
) -> Result:
    """Serve DIR, which is made if it is missing. SIGTERM or ctrl-C finishes what is in flight and ends.

    Clients use path-style addresses, region us-east-1, and the access key `root` or the name of a bucket;
    the secret key is what `fencepost objects token` prints. With --memory there is no DIR, and access key and
    secret key are `test`: a server for tests.
    """
    if options["memory"]:
        if directory is not None:
            raise BadRequest("--memory serves no directory; leave out either")
        with logged(options):
            return _serve_memory(listen, workers, root_token_file, options)
    for name in ("made", "fault_script", "fault_trace", "quirks", "stores"):
        if options[name]:
            raise BadRequest("--bucket, --fault-script, --fault-trace, --quirk and --as need --memory")
    if directory is None:
        raise BadRequest("name the directory to serve; or --memory, for tests")
    with logged(options):
        return _serve_directory(directory, listen, workers, root_token_file, options)


def _serve_directory(
    directory: str, listen: Address, workers: int, root_token_file: str | None, options: dict[str, Any]
) -> Result:
    from fencepost.impl.http.shared_metrics import shared
    from fencepost.impl.http.workers import Workers
    from fencepost.impl.objects.buckets import Buckets
    from fencepost.impl.objects.credentials import Credentials
    from fencepost.impl.objects.handoff import VARIABLE
    from fencepost.impl.objects.owner import Owner

    credentials = Credentials(_checked_token(root_token_file, options))
    allow_connections(options["connections"])
    settings = settings_of_buckets(directory, options)
    buckets, owner = Buckets(directory, **settings), Owner(directory)
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
        _keep_log(buckets, options)
        _suspect_index(directory)
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


def _serve_memory(
    listen: Address, workers: int, root_token_file: str | None, options: dict[str, Any]
) -> Result:
    """Serve an empty folder that nothing flushes, and that goes away."""
    from fencepost.commands.serving import is_local
    from fencepost.impl.objects import temporary
    from fencepost.impl.objects.buckets import Buckets
    from fencepost.impl.objects.credentials import Credentials
    from fencepost.impl.objects.quirks import named_quirks
    from fencepost.impl.objects.unreliable import UnreliableServer, script_of
    from fencepost.impl.store.faults import Injector, Script

    if options["index_dir"] is not None:
        raise BadRequest("--memory keeps its index with the rest; leave out --index-dir")
    if workers != 1:
        raise BadRequest("--memory has one worker, which counts the requests; leave out --workers")
    token, local = _root_token(root_token_file), is_local(listen.host)
    if not token and not local:
        raise BadRequest(f"{listen.host} can be reached by others: set {ROOT_TOKEN}, or listen on 127.0.0.1")
    keys = [os.environ.get(name, "") for name in KEYS]
    if any(keys) != all(keys):
        raise BadRequest(f"{KEYS[0]} and {KEYS[1]} come together")
    if not any(keys) and local and not token:
        keys = [temporary.ACCESS_KEY, temporary.SECRET_KEY]
        options["known_keys"] = keys
    try:
        quirks = named_quirks([*options["quirks"]], [*options["stores"]])
        script = script_of(_text_of(options["fault_script"])) if options["fault_script"] else Script()
    except ValueError as error:
        raise BadRequest(str(error)) from None
    except Misuse as error:
        raise BadRequest(f"{options['fault_script']}: {error}") from None
    token = _checked_token(None, options, token or temporary.ROOT_TOKEN)
    credentials = Credentials(token)
    if any(keys):
        credentials = temporary.KnownCredentials(token, *keys)
    with (
        temporary.temporary_folder() as folder,
        _fault_trace(options["fault_trace"], script.seed) as on_strike,
        contextlib.closing(bind(listen)) as bound,
    ):
        allow_connections(options["connections"])
        settings = settings_of_buckets(str(folder), options)
        buckets = Buckets(str(folder), disk=temporary.Unflushed(), **settings)
        buckets.verify()
        for name in options["made"]:
            _make_bucket(buckets, name)
        make = functools.partial(
            UnreliableServer, injector=Injector(script), quirks=quirks, on_strike=on_strike
        )
        _serve(buckets, credentials, bound, options, make=make)
    return Result({})


def _make_bucket(buckets: Any, name: str) -> None:
    from fencepost.impl.objects.wire.errors import S3Error

    try:
        buckets.create(name)
    except S3Error as error:
        raise BadRequest(f"--bucket {name}: {error.message}") from None


def _text_of(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {file}: {getattr(error, 'strerror', error)}") from None


@contextlib.contextmanager
def _fault_trace(file: str | None, seed: int) -> Iterator[Callable[[Any], None]]:
    """Yield what writes a strike to the file, which is a script at any time."""
    from fencepost.impl.store.faults import as_toml

    with contextlib.ExitStack() as held:
        if file is None:
            yield lambda _: None
            return
        try:
            trace = held.enter_context(Path(file).open("w"))
        except OSError as error:
            raise BadRequest(f"cannot write {file}: {error.strerror}") from None
        trace.write(f"seed = {seed}\n")
        trace.flush()

        def write(strike: Any) -> None:
            if strike.number == 1:  # perhaps of another script, whose counts have begun at 0
                trace.seek(0)
                trace.truncate()
                trace.write(f"seed = {seed}\n")
            trace.write(as_toml(strike.alone()))
            trace.flush()

        yield write


@subcommand("supervise", "Run the server so that it can be replaced.", DIRECTORY, *SERVING)
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
            if isinstance(one, bool):
                arguments += (parameter.opts if one else parameter.secondary_opts)[:1]
            else:
                arguments += [parameter.opts[0], str(one)]

    def start(inherited: tuple[int, int]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603  this program
            [sys.executable, "-m", "fencepost", "objects", "serve", directory, *arguments],
            pass_fds=inherited,
            env={**os.environ, ROOT_TOKEN: token, VARIABLE: "{},{}".format(*inherited)},
        )

    with logged(options), contextlib.closing(bind(listen)) as bound:
        _make(Path(directory, ".objects"))
        owner = Owner(directory)
        owner.acquire()  # says who serves, in one line, before servers are started again and again
        settings_of_buckets(directory, options)
        _suspect_index(directory)
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


def _suspect_index(directory: str) -> None:
    """Take no listing from the index before it was compared: files may have changed before this start."""
    from fencepost.impl.objects.buckets import Buckets

    with contextlib.closing(Buckets(directory)) as buckets:  # another one: processes share no connection
        buckets.index.suspect()


def _checked_token(root_token_file: str | None, options: dict[str, Any], known: str = "") -> str:
    """The root token, perhaps a known one, once it, the files of TLS and the systems are found usable: before
    anything is bound or forked.
    """
    try:
        import fencepost.sim.systems  # noqa: F401  refused here if it cannot be loaded, and not by every worker
    except Misuse as error:
        raise BadRequest(str(error)) from None
    from fencepost.impl.objects.credentials import Credentials

    check_tls(options["certificate"], options["key"])
    check_settings(options)
    open_tokens(options["tokens"], "objects")
    token = known or _root_token(root_token_file) or _generated()
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

    _keep_log(buckets, options)
    listening, control = (socket.socket(fileno=int(number)) for number in inherited.split(","))

    def work(_: int) -> None:
        control.close()
        _serve(buckets, credentials, listening, options, quiet=True, on_listening=team.announce)

    team = Workers(work, workers, ENV, grace_s=options["drain_s"] + 5)
    Member(Line(control), owner, team, ENV, options["drain_s"]).run()


def extensions_of(buckets: Any) -> list[Any]:
    """Make the extensions of all systems, which their workers on other machines call."""
    from fencepost.sim.systems import SYSTEMS, load

    return [load(system.extension)(buckets) for system in SYSTEMS.values() if system.extension]


def _serve(
    buckets: Any,
    credentials: Any,
    bound: socket.socket,
    options: dict[str, Any],
    *,
    quiet: bool = False,
    on_listening: Callable[[], None] = lambda: None,
    make: Callable[..., Any] | None = None,
) -> None:
    from fencepost.impl.http.server import Server
    from fencepost.impl.objects.app import ObjectServer
    from fencepost.impl.objects.calls import Calls
    from fencepost.impl.objects.maintenance import Maintenance

    domain = options["domain"] or ""
    access = _access_log(options["access_log"])
    tokens = open_tokens(options["tokens"], "objects")
    recording = http_recording(options, "objects", domain)
    if recording is not None:
        buckets.calls = Calls(recording.recorder)
    service = (make or ObjectServer)(
        buckets,
        credentials,
        domain=domain,
        limits=limits_of(options),
        tokens=tokens,
        recording=recording,
        extensions=lambda: extensions_of(buckets),
        answers_unsigned=not options["private"],
    )
    maintenance = Maintenance(buckets, refresh=service.metrics.refresh, upload_age_s=options["upload_age_s"])

    def listening(url: str) -> None:
        if not quiet:
            say(f"listening on {url}")
        if options.get("known_keys"):
            access_key, secret_key = options["known_keys"]
            say(
                f"export AWS_ENDPOINT_URL={url} AWS_ACCESS_KEY_ID={access_key} "
                f"AWS_SECRET_ACCESS_KEY={secret_key} AWS_DEFAULT_REGION=us-east-1"
            )
        on_listening()

    server = Server(
        service,
        on_listening=listening,
        certificate=options["certificate"],
        key=options["key"],
    )
    try:
        with exported(service, options, ENV):
            server.run([bound])
    finally:
        service.close()
        maintenance.close()
        buckets.close()
        access()
        if recording is not None:
            recording.close()


def _access_log(file: str | None) -> Callable[[], None]:
    """Have requests logged to a file; returns what ends that."""
    if file is None:
        return lambda: None
    try:
        handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise BadRequest(f"cannot write {file}: {error.strerror}") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("fencepost.objects.access")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)

    def end() -> None:
        logger.removeHandler(handler)
        handler.close()

    return end


def _keep_log(buckets: Any, options: dict[str, Any]) -> None:
    days = options["keep_log"]
    buckets.log.keep(None if days is None else days * DAY_NS)


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
        return os.environ.get(ROOT_TOKEN) or os.environ.get(SHORT_ROOT_TOKEN, "")
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


# The change log.


@command.group("log", short_help="Look at the change log, and remove old days of it.")
def log_command() -> None:
    """Look at the change log of a directory, and remove old days of it."""


def _log_subcommand(name: str, summary: str, *parameters: Parameter) -> Callable[[Act], click.Command]:
    return add_subcommand(log_command, name, summary, (*parameters, json_option), ERRORS)


@contextlib.contextmanager
def _change_log(directory: str) -> Iterator[Any]:
    from fencepost.impl.objects.change_log import ChangeLog

    if not Path(directory, ".objects").is_dir():
        raise BadRequest(f"{directory} is no directory of objects")
    yield ChangeLog(str(Path(directory).absolute()), ENV)


@_log_subcommand(
    "show", "Show what the log has, and who reads it.", click.argument("directory", metavar="DIR")
)
def log_show(directory: str) -> Result:
    """Show since when the log has every change, how long it is kept, and which days its readers need."""
    with _change_log(directory) as log:
        days, begins_ns, keeps_ns = log.days(), log.begins_ns(), log.keeps_ns
        readers = {name: _day(ns) for name, ns in sorted(log.readers().items())}
    found = {"days": days, "begins_ns": begins_ns, "keeps_ns": keeps_ns, "readers": readers}
    lines = [
        f"begins: {_day(begins_ns) if begins_ns else 'it has every change that ever happened'}",
        f"days: {len(days)}" + (f", {days[0]} to {days[-1]}" if days else ""),
        f"kept: {'without end' if keeps_ns is None else f'{keeps_ns // DAY_NS} days'}",
        *(f"reader {name} needs {day} and later days" for name, day in readers.items()),
    ]
    return Result(found, "\n".join(lines))


@_log_subcommand(
    "prune",
    "Remove old days of the log.",
    click.argument("directory", metavar="DIR"),
    click.option("--before", "day", metavar="DAY", help="Remove the days before this one (2026-11-19)."),
    click.option(
        "--older-than", "age", metavar="DAYS", type=click.IntRange(1), help="Remove the days of this age."
    ),
    click.option("--force", is_flag=True, help="Also days that a reader has not passed: it loses events."),
)
def log_prune(directory: str, day: str | None, age: int | None, force: bool) -> Result:
    """Remove old days of the change log of DIR, also while it is served. Days that a reader has not passed
    are kept. A reader that loses events nevertheless notices; a lifecycle goes on by scans.
    """
    if (day is None) == (age is None):
        raise BadRequest("give either --before DAY or --older-than DAYS")
    with _change_log(directory) as log:
        wanted = day if day is not None else _day(ENV.now_ns() - (age or 0) * DAY_NS)
        try:
            pruned = log.prune(wanted, force=force)
        except Misuse as error:
            raise BadRequest(str(error)) from None
    found = {"removed_days": pruned.days, "begins": pruned.begins, "held_by": pruned.held_by or None}
    text = f"removed {pruned.days} days; the days before {pruned.begins} are gone"
    if pruned.held_by:
        text += f"; more are kept for the reader {pruned.held_by} (--force removes them)"
    return Result(found, text)


@_log_subcommand(
    "forget",
    "Keep nothing for a reader that is gone.",
    click.argument("directory", metavar="DIR"),
    click.argument("reader"),
)
def log_forget(directory: str, reader: str) -> Result:
    """Keep no day of the log of DIR for READER any more. If it reads again, days are kept for it again."""
    with _change_log(directory) as log:
        if reader not in log.readers():
            raise BadRequest(f"the log has no reader {reader}; `show` lists them")
        log.hold(reader, None)
    return Result({"reader": reader}, f"nothing is kept for {reader} any more")


def _day(ns: int) -> str:
    return f"{datetime.fromtimestamp(max(ns, 0) // 10**9, UTC):%Y-%m-%d}"


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
