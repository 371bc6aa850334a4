"""`fencepost lifecycle`: delete objects when the rules of their buckets have it."""

import contextlib
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.operating import (
    AGAIN,
    Act,
    Ending,
    ErrorContract,
    Parameter,
    Result,
    add_subcommand,
    format_table,
    print_error,
    user_name,
)
from fencepost.commands.output_files import json_option
from fencepost.commands.receiving import (
    Sources,
    events_options,
    read_token,
    receive_waiting,
    receiving,
    served,
    sources_of,
)
from fencepost.commands.recording import record_store_option, recorded_store
from fencepost.commands.values import Address, AddressType, FiniteNumber, WholeNumber
from fencepost.impl.cursor import CursorError
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle.blockers import StreamKind
from fencepost.impl.lifecycle.leases import LASTS_S, Leases
from fencepost.impl.lifecycle.log import ChangeLogReader, Log
from fencepost.impl.lifecycle.opening import Opened, open_lifecycle
from fencepost.impl.lifecycle.operate import Operator, Refused
from fencepost.impl.lifecycle.policies import (
    Refusal,
    format_configuration,
    parse_configuration,
    without_transitions,
)
from fencepost.impl.lifecycle.policy import (
    SECOND_NS,
    ActionKey,
    Degraded,
    Rule,
    Timing,
    decide_mode,
    rules_of,
)
from fencepost.impl.lifecycle.records import Cadence, Records
from fencepost.impl.lifecycle.remote import RemoteLog
from fencepost.impl.lifecycle.status import ActionStatus, Status, blocker_status, status_of
from fencepost.impl.lifecycle.target import Unavailable, Unworkable
from fencepost.impl.lifecycle.worker import CONCURRENCY, Handled, Worker
from fencepost.impl.notifications.messages import Closed
from fencepost.impl.record import RecordError
from fencepost.impl.store.errors import Misuse, StoreError
from fencepost.impl.store.interface import Store
from fencepost.results import to_json

ENV = SystemEnvironment()
RETRY_WAITS_S = 60
"""Seconds for which a retry waits for the worker that has the stream."""
EPILOG = """Exit codes: 0 done, 1 an operator has to look (something is blocked or lost), 2 the request makes
no sense, 3 not finished: run it again. STORE is the directory of an object server (`fencepost objects`),
whose change log drives everything, or s3://bucket?endpoint=..., which is walked. Example: fencepost lifecycle
put /var/lib/objects rules.xml --bucket logs, then fencepost lifecycle run /var/lib/objects."""


@click.group("lifecycle", short_help="Expire objects by the rules of their buckets.", epilog=EPILOG)
def command() -> None:
    """Delete objects when they are due by the rules of PutBucketLifecycleConfiguration: nothing early,
    nothing forgotten, whatever crashes. `run` works, any number of them; all other commands look at or change
    what the workers do, from anywhere.
    """


def _refusal(error: Refusal) -> str:
    bucket = error.details.get("bucket_name")
    return f"{error.code}: {error.message}{f' ({bucket})' if bucket else ''}"


ERRORS = ErrorContract(
    lambda: (
        Ending((Misuse, Refused, Closed), Exit.BAD_REQUEST),
        Ending(Refusal, Exit.BAD_REQUEST, _refusal),
        Ending(Unavailable, Exit.UNDECIDED, AGAIN),
        Ending((StoreError, RecordError, CursorError, Unworkable), Exit.VIOLATED),
    )
)


def _seconds(name: str, setting: str, default: float | None, text: str) -> Parameter:
    return click.option(
        name,
        setting,
        type=FiniteNumber(0, min_open=True),
        default=default,
        show_default=default is not None,
        metavar="SECONDS",
        help=text,
    )


STORE: tuple[Parameter, ...] = (
    click.argument("store", metavar="STORE"),
    click.option(
        "--state-store",
        "state",
        default="",
        metavar="URL",
        help="Where the state of s3://bucket lies, if not in it.",
    ),
    record_store_option,
)
TIMING: tuple[Parameter, ...] = (
    _seconds("--day", "day_s", 86_400.0, "Length of a day, for good. For tests: objects go as early."),
    _seconds("--near", "near_s", 60.0, "How far behind the clock changes of tags are looked at."),
    _seconds("--lookback", "lookback_s", 3600.0, "How much further than its delay the log must reach back."),
    _seconds("--retention", "retention_s", None, "For how long the log keeps events, if they are removed."),
    _seconds("--scan-every", "scan_s", None, "Between two walks of a bucket.  [default: by rule; a day]"),
)
BUCKET = click.option("--bucket", metavar="NAME", help="Only this bucket.")
REASON = click.option("--reason", required=True, metavar="TEXT", help="Kept, and shown by `status`.")
BLOCKER = click.argument("blocker", metavar="ID")


def subcommand(name: str, summary: str, *parameters: Parameter) -> Callable[[Act], click.Command]:
    return add_subcommand(command, name, summary, (*STORE, *parameters, json_option), ERRORS)


def _set(log: Log, day_s: float, near_s: float, lookback_s: float, **more: float | None) -> Timing:
    day_ns, scan_s, retention_s = round(day_s * SECOND_NS), more["scan_s"], more["retention_s"]
    if retention_s is not None and isinstance(log, ChangeLogReader | RemoteLog):
        log.retention_ns = round(retention_s * SECOND_NS)
    scan_ns = None if scan_s is None else round(scan_s * SECOND_NS)
    if scan_ns is None and not log.shards():
        scan_ns = day_ns  # nothing else looks for what is due
    return Timing(day_ns, round(near_s * SECOND_NS), round(lookback_s * SECOND_NS), scan_ns)


@contextlib.contextmanager
def _opened(store: str, state: str, events: tuple[str, ...] = ()) -> Iterator[Opened]:
    def layer(inner: Store) -> Store:
        return recorded_store(inner, store, "lifecycle")

    with open_lifecycle(store, ENV, state, layer, events) as found:
        yield found


@contextlib.contextmanager
def _worker(
    store: str, state: str, events: tuple[str, ...] = (), /, **timing: Any
) -> Iterator[tuple[Opened, Worker]]:
    """One that does nothing by itself."""
    with _opened(store, state, events) as found:
        how = _set(found.log, **timing) if timing else Timing()
        yield found, Worker(found.context, found.target, found.log, how)


def _bucket(found: Opened, bucket: str | None) -> str:
    if found.bucket and bucket not in (None, found.bucket):
        raise BadRequest(f"{found.name} is the bucket {found.bucket}, not {bucket}")
    name = bucket or found.bucket
    if not name:
        raise BadRequest(f"{found.name} has several buckets; name one: --bucket NAME")
    return name


# Rules.


@subcommand(
    "put",
    "Give a bucket its rules.",
    click.argument("file", required=False),
    BUCKET,
    click.option("--own", is_flag=True, help="Take the rules that the bucket of an endpoint has itself."),
    click.option("--remove", is_flag=True, help="Remove the rules; nothing expires any more."),
)
def put(store: str, state: str, file: str | None, bucket: str | None, own: bool, remove: bool) -> Result:
    """Replace the rules of a bucket by those in FILE (- is standard input): XML or JSON, as S3 has them.

    They are validated as S3 validates them. It costs the same for a bucket of any size: what is due
    by then is found by the workers, which look at once.
    """
    if (file is not None) + own + remove != 1:
        raise BadRequest("name a FILE with rules, or give --own or --remove")
    with _worker(store, state) as (found, worker):
        name = _bucket(found, bucket)
        rules = [] if file is None else parse_configuration(_read(file))
        if own:
            rules = found.own_rules()
            if not rules:
                raise BadRequest(f"{name} has no rules of its own")
        rules, unsupported = without_transitions(rules)
        for one in unsupported:
            print_error(f"{one} is not supported, as there is one storage class; it is left out")
        if unsupported and not rules:
            raise BadRequest("no rule deletes anything")
        found.policies.put(name, rules)
        worker.records.wake()
        kept = rules_of(found.policies.get(name))
        left = _left_to_walks(found.log, kept)
    for one in left:
        print_error(f"{one}: the log keeps events for less time than it needs; walks find what is due")
    actions = [str(key) for rule in kept for key in rule.actions()]
    result = {"bucket": name, "rules": len(kept), "actions": actions, "unsupported": unsupported}
    result["left_to_walks"] = left
    return Result(result, f"{name}: {len(kept)} rules, {len(actions)} actions")


def _left_to_walks(log: Log, rules: Sequence[Rule]) -> list[str]:
    """Return the actions that the log of the store keeps events for too little time for."""
    if not log.shards():
        return []  # of a store without a log, all are
    return [
        str(key)
        for rule in rules
        for key in rule.actions()
        if decide_mode(rule, key.kind, retention_ns=log.retention_ns)[1] is not Degraded.NONE
    ]


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadRequest(f"cannot read {file}: {error.strerror}") from None


@subcommand("get", "Print the rules of a bucket.", BUCKET)
def get(store: str, state: str, bucket: str | None) -> Result:
    """Print the rules in JSON, as `put` takes them."""
    with _opened(store, state) as found:
        name = _bucket(found, bucket)
        rules = format_configuration(found.policies.get(name))
    return Result({"bucket": name, **rules}, json.dumps(rules, indent=2))


# Working.


@subcommand(
    "run",
    "Work, until interrupted.",
    *TIMING,
    click.option("--once", is_flag=True, help="End after one pass of everything that is due."),
    _seconds("--every", "every_s", 60.0, "Between two passes."),
    click.option(
        "--concurrency",
        type=WholeNumber(1),
        default=CONCURRENCY,
        show_default=True,
        metavar="N",
        help="Objects that are looked at, and deleted, at a time.",
    ),
    click.option(
        "--walkers",
        type=WholeNumber(1),
        default=1,
        show_default=True,
        metavar="N",
        help="Walks at a time. Several share the walk of a large bucket, as workers elsewhere do.",
    ),
    _seconds("--lease", "lease_s", LASTS_S, "After which others take over what a killed worker had."),
    click.option(
        "--listen",
        type=AddressType(),
        metavar="HOST:PORT",
        help="Serve a status page and metrics here; port 0 takes a free one.",
    ),
    *events_options(),
    click.option(
        "--act-token",
        "token_file",
        metavar="FILE",
        help="Who sends the token of FILE may walk, pause, resume and retry by the page.",
    ),
    click.option(
        "--walk-hours", metavar="FROM-TO", help="Hours of the day, in UTC, for walks. Example: 22-6."
    ),
)
def run(
    store: str,
    state: str,
    once: bool,
    every_s: float,
    concurrency: int,
    walkers: int,
    lease_s: float,
    listen: Address | None,
    events: tuple[str, ...],
    receive: Address | None,
    receive_token_file: str | None,
    token_file: str | None,
    walk_hours: str | None,
    **timing: float,
) -> Result:
    """Walk, follow the log, and delete what is due. SIGTERM or ctrl-C ends it between two objects.

    Any number of these may work on one store: of each stream one has the lease.
    """
    token, hours = read_token(token_file), _hours(walk_hours)
    from fencepost.impl.lifecycle.service import AT_ONCE, Part, Service, run_together

    sources, _ = sources_of(events, receive, receive_token_file)
    with (
        _worker(store, state, tuple(sources), **timing) as (found, worker),
        _working(worker, concurrency, lease_s) as stopping,
        _receiving(found, sources, receive, receive_token_file, once=once),
    ):
        _warn(found)

        def service_of(one: Worker, *parts: Part) -> Service:
            known: dict[str, str] = {}
            return Service(
                one,
                every_s=every_s,
                parts=parts or tuple(Part),
                hours=hours,
                on_round=lambda done: _report_failures(done, known),
                changed=found.policies.revision,
            )

        if not once:
            kinds = [Part.READ, Part.DRAIN, *(Part.BOOTSTRAP for _ in range(walkers))]
            services = [service_of(worker.beside(_leases(found, lease_s)), part) for part in kinds]
            with _page(worker, found, listen, token):
                run_together(services, stopping.is_set)
            return _counted(worker)
        service = service_of(worker)
        done = service.round()
        while any(one in AT_ONCE for one in done.handled.values()) and not stopping.is_set():
            done = service.round()
        _report_failures(done, {})
        result = _counted(worker)
    return result._replace(code=Exit.UNDECIDED) if done.failed else result


@contextlib.contextmanager
def _receiving(
    found: Opened,
    sources: Sources,
    address: Address | None,
    token_file: str | None,
    *,
    once: bool,
) -> Iterator[None]:
    """Receive notifications until the end of the block; `once`, what the queues have now."""
    if not sources:
        yield
        return
    from fencepost.impl.lifecycle.journal import Journals
    from fencepost.impl.lifecycle.receiving import Receiver

    journals, details = found.log, found.details
    assert isinstance(journals, Journals), "opened with sources"
    assert details is not None, "of an endpoint"
    receivers = {name: Receiver(journals, name, found.bucket, details.tags) for name in sources}
    log = logging.getLogger("fencepost.lifecycle")
    if once:
        receive_waiting(sources, receivers, log)
        yield
        return
    with receiving(sources, receivers, log, found.context.store.verify, address, token_file):
        yield


@subcommand("close-events", "End a source of events for good.", click.argument("source"))
def close_events(store: str, state: str, source: str) -> Result:
    """Have SOURCE of `run --events` get no more notifications. It vanishes once all that it had is resolved;
    its name cannot be used before that.
    """
    from fencepost.impl.lifecycle.journal import Journals

    with _opened(store, state) as found:
        journals = found.log
        if not isinstance(journals, Journals) or source not in journals.shards():
            raise BadRequest(f"{found.name} has no source of events called {source}")
        journals.close(source)
        Records(found.context).wake()
    return Result({"source": source, "closed": True}, f"{source} is closed; what it had is still worked on")


def _hours(text: str | None) -> tuple[int, ...]:
    """The hours of `22-6`: from 22:00 to before 6:00."""
    if text is None:
        return ()
    first, _, end = text.partition("-")
    if not (first.isdecimal() and end.isdecimal() and int(first) < 24 and int(end) <= 24) or first == end:
        raise BadRequest(f"{text!r} are no hours; give them as 22-6")
    return tuple(hour % 24 for hour in range(int(first), int(end) + (24 if int(end) <= int(first) else 0)))


def _report_failures(done: Any, reported: dict[str, str]) -> None:
    """Of the streams of a round, each once for a reason."""
    for stream, reason in done.failed.items():
        if reported.get(stream) != reason:
            print_error(f"{stream}: {reason}; the next round goes on")
    reported.clear()
    reported.update(done.failed)


@contextlib.contextmanager
def _page(worker: Worker, found: Opened, listen: Address | None, token: str) -> Iterator[None]:
    """Serve the status page in a thread, until the end of the block."""
    if listen is None:
        yield
        return
    from fencepost.impl.lifecycle.app import LifecycleServer

    with served(LifecycleServer(worker, found.name, token=token), listen, "listening on"):
        yield


@subcommand("scan", "Walk a bucket now.", BUCKET, *TIMING)
def scan(store: str, state: str, bucket: str | None, **timing: float) -> Result:
    """Have the buckets walked, whenever the last walk was, and wait for its end. Workers that run walk too:
    of a bucket that one of them has, this says so and ends with 3.
    """
    from fencepost.impl.lifecycle.walk import Walks

    with _worker(store, state, **timing) as (found, worker), _working(worker, CONCURRENCY):
        _warn(found)
        buckets = Operator(worker).run_now(bucket or found.bucket or None)
        wanted = {name: worker.records.bucket(name).wanted_ns for name in buckets}
        walks = Walks(worker)
        prepared = walks.prepare()
        for name in buckets:
            walks.walk(name, prepared)
        left = [name for name, ns in wanted.items() if (worker.records.bucket(name).walked_ns or 0) < ns]
        result = _counted(worker)
    if not left:
        return result
    text = (
        f"{result.text}; not to its end: {', '.join(left)} (see `status`: paused, blocked, or another has it)"
    )
    return Result({**result.found, "unfinished": left}, text, Exit.UNDECIDED)


def _warn(found: Opened) -> None:
    if not found.evaluates_if_match():
        print_error(
            f"{found.name} evaluates no If-Match of deletions: an object that is overwritten in the moment "
            "of its deletion is deleted with its new content"
        )


@contextlib.contextmanager
def _working(worker: Worker, concurrency: int, lease_s: float = LASTS_S) -> Iterator[threading.Event]:
    """A worker with leases and threads, until a signal sets the event."""
    day_ns = worker.records.day_ns(worker.timing.day_ns)
    if day_ns != worker.timing.day_ns:
        ours, theirs = (f"{ns / SECOND_NS:g}" for ns in (worker.timing.day_ns, day_ns))
        raise BadRequest(f"a day has {theirs} seconds here, not {ours}; give --day {theirs}")
    stopping = threading.Event()

    def stop(*_: object) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    worker.proceed = lambda: not stopping.is_set()
    worker.leases = Leases(worker.context, f"{socket.gethostname()} {ENV.new_id()}", lease_s)
    with ThreadPoolExecutor(concurrency, thread_name_prefix="lifecycle") as pool:
        worker.pool = pool
        try:
            yield stopping
        finally:
            worker.leases.release()
            for number, handler in before.items():
                signal.signal(number, handler)


def _leases(found: Opened, lease_s: float) -> Leases:
    """Of one more worker of this process."""
    return Leases(found.context, f"{socket.gethostname()} {ENV.new_id()}", lease_s)


def _counted(worker: Worker) -> Result:
    counters = worker.expirer.counters
    expired: dict[str, int] = {}
    for (_, _, kind), count in counters.expired.items():
        expired[kind] = expired.get(kind, 0) + count
    blockers = [one.id for one in worker.blockers.every()]
    found = {
        "evaluated": counters.evaluated.total(),
        "expired": expired,
        "locked": counters.locked.total(),
        "errors": counters.errors.total(),
        "blockers": blockers,
    }
    text = f"evaluated {found['evaluated']}, deleted {sum(expired.values())}, locked {found['locked']}"
    text += f", failed {found['errors']}" if found["errors"] else ""
    text += f"; blocked: {', '.join(blockers)}" if blockers else ""
    return Result(found, text, Exit.VIOLATED if blockers else Exit.HOLDS)


# Looking.


@subcommand("status", "Show each bucket, action and cursor.", BUCKET, *TIMING)
def status(store: str, state: str, bucket: str | None, **timing: float) -> Result:
    """Show the mode of each action and why, its lag, what is pending and blocked, and the walks.

    It ends with 1 while something is blocked or cannot be read, or events were lost.
    """
    with _worker(store, state, **timing) as (found, worker):
        shown = status_of(worker, found.name, bucket)
    is_lost = any(one.reason == "LOST_LOG" for each in shown.buckets for one in each.actions)
    is_unreadable = any(each.unreadable is not None for each in shown.buckets)
    code = Exit.VIOLATED if shown.blockers or is_lost or is_unreadable else Exit.HOLDS
    return Result(to_json(shown), _status_text(shown), code)


def _status_text(shown: Status) -> str:
    parts = []
    if shown.paused_for:
        parts.append(f"everything is paused: {shown.paused_for}\n")
    for bucket in shown.buckets:
        walked = "never" if bucket.walked_ns is None else _moment(bucket.walked_ns)
        if bucket.unreadable is not None:
            parts.append(f"{bucket.name}: cannot be read: {bucket.unreadable}")
            continue
        parts.append(f"{bucket.name}: {bucket.rules} rules, walked {walked}")
        if bucket.walk is not None:
            parts.append(f"  walking since {_moment(bucket.walk.began_ns)}, done up to {bucket.walk.after!r}")
        cells = [
            [
                f"  {one.rule or '-'}",
                one.action,
                one.mode if one.is_complete or one.mode == "disabled" else "begins",
                one.reason if one.paused_for is None else f"{one.reason}: {one.paused_for}",
                f"{one.lag_s:.0f} s",
                str(one.pending),
            ]
            for one in bucket.actions
        ]
        if cells:
            parts.append(
                format_table(("  rule", "action", "mode", "reason", "lag", "pending"), cells).rstrip()
            )
        parts += [
            f"  {one.rule or '-'}: {one.action} is walked {chosen}"
            for one in bucket.actions
            if (chosen := _chosen_cadence(one))
        ]
    parts += [f"blocked: {one.id} {one.bucket}/{one.object}: {one.reason}" for one in shown.blockers]
    parts += [
        f"tried again: {one.bucket}/{one.object}: {one.reason} ({one.tries} times)" for one in shown.retried
    ]
    return "\n".join(parts) or f"{shown.store} has no bucket"


def _moment(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // SECOND_NS, UTC):%Y-%m-%d %H:%M:%S}Z"


@subcommand(
    "blockers",
    "List what waits for an operator.",
    BUCKET,
    click.option(
        "--stream",
        type=click.Choice([one.value for one in StreamKind]),
        help="Only of this kind of stream: the log by age or near the clock, a walk, a pending list.",
    ),
    click.option("--shard", metavar="NAME", help="Only of this shard of the log."),
)
def blockers(store: str, state: str, bucket: str | None, stream: str | None, shard: str | None) -> Result:
    """List the items that cannot be worked on. Each holds up its own stream and nothing else, until `retry`
    succeeds, or `resume` or `quarantine` is given its ID.
    """
    with _worker(store, state) as (_, worker):
        kind = None if stream is None else StreamKind(stream)
        found = [blocker_status(one) for one in Operator(worker).blockers(kind, shard, bucket)]
    cells = [[one.id, one.stream, f"{one.bucket}/{one.object}", str(one.tries), one.reason] for one in found]
    names = ("id", "stream", "object", "tries", "reason")
    text = format_table(names, cells) if cells else "nothing is blocked"
    shown = [to_json(one) for one in found]
    return Result({"blockers": shown}, text, Exit.VIOLATED if found else Exit.HOLDS)


@subcommand("pending", "List versions that wait until they are due.", BUCKET)
def pending(store: str, state: str, bucket: str | None) -> Result:
    """List the versions that began to match late, by a change of their tags, and are not due yet."""
    with _worker(store, state) as (_, worker):
        found = [
            {"action": one.action, "object": one.key, "version": one.version_id}
            for one in Operator(worker).pending(bucket)
        ]
    cells = [[one["action"], one["object"], one["version"]] for one in found]
    text = format_table(("action", "object", "version"), cells) if cells else "nothing is pending"
    return Result({"pending": found}, text)


# Operating.


@subcommand("retry", "Work on a blocked item now.", BLOCKER, *TIMING)
def retry(store: str, state: str, blocker: str, **timing: float) -> Result:
    """Try the item of blocker ID; if that succeeds the blocker goes. Ends with 1 if it fails again.

    A worker that runs and has the stream does it in place of this command, which waits for that.
    """
    with _worker(store, state, **timing) as (_, worker), _working(worker, 1) as stopping:
        operator = Operator(worker)
        handled = operator.retry(blocker)
        if handled is Handled.ELSEWHERE:
            before, until_ns = operator.ask_for_retry(blocker), ENV.monotonic_ns() + RETRY_WAITS_S * SECOND_NS
            while ENV.monotonic_ns() < until_ns and not stopping.is_set():
                ENV.sleep(0.5)
                if (found := operator.outcome_of_retry(before)) is not None:
                    handled = found
                    break
    codes = {Handled.RESOLVED: Exit.HOLDS, Handled.ELSEWHERE: Exit.UNDECIDED}
    text = "resolved" if handled is Handled.RESOLVED else f"still blocked: {handled.value}"
    return Result({"blocker": blocker, "outcome": handled.value}, text, codes.get(handled, Exit.VIOLATED))


@subcommand(
    "resume",
    "Have something go on.",
    click.argument("blocker", metavar="[ID]", required=False),
    BUCKET,
    click.option("--action", metavar="HASH/KIND", help="Only this action of the bucket."),
)
def resume(store: str, state: str, blocker: str | None, bucket: str | None, action: str | None) -> Result:
    """Clear blocker ID, whose item is tried again with a new count; or end a pause, of everything, of a
    bucket or of one action.
    """
    if blocker is not None and (bucket or action):
        raise BadRequest("name a blocker, or what was paused")
    with _worker(store, state) as (_, worker):
        operator = Operator(worker)
        if blocker is not None:
            operator.resume(blocker)
            return Result({"blocker": blocker, "resumed": True}, f"{blocker} is cleared")
        was_paused = operator.unpause(bucket, _action(bucket, action))
    return Result({"resumed": was_paused}, "it goes on" if was_paused else "it was not paused")


@subcommand(
    "pause",
    "Stop working.",
    REASON,
    BUCKET,
    click.option("--action", metavar="HASH/KIND", help="Only this action of the bucket."),
)
def pause(store: str, state: str, reason: str, bucket: str | None, action: str | None) -> Result:
    """Have all workers do nothing more: for everything, for a bucket, or for one action, until `resume`."""
    with _worker(store, state) as (_, worker):
        Operator(worker).pause(reason, bucket, _action(bucket, action))
    return Result({"paused": True, "reason": reason}, f"paused: {reason}")


@subcommand(
    "cadence",
    "Choose when walks begin.",
    BUCKET,
    click.option("--action", metavar="HASH/KIND", help="Only for this action of the bucket."),
    click.option(
        "--every",
        "every_s",
        type=FiniteNumber(0, min_open=True),
        metavar="SECONDS",
        help="Between two walks.",
    ),
    click.option("--hours", metavar="FROM-TO", help="Hours of the day, in UTC, in which they begin."),
)
def cadence(
    store: str, state: str, bucket: str | None, action: str | None, every_s: float | None, hours: str | None
) -> Result:
    """Choose when walks begin that nothing but time makes necessary, for a bucket or one of its actions.

    Without --every and --hours it is the default again. The first walk of a rule, one at a date or after a
    loss, and one by `scan` begin at once.
    """
    wanted = Cadence(None if every_s is None else round(every_s * SECOND_NS), _hours(hours))
    with _worker(store, state) as (found, worker):
        name = bucket or found.bucket
        if not name:
            raise BadRequest("name the bucket: --bucket NAME")
        changed = Operator(worker).set_cadence(name, _action(name, action), wanted)
    shown = "by default" if wanted == Cadence() else _cadence_text(every_s, hours)
    result = {"bucket": name, "action": action, "every_s": every_s, "hours": list(wanted.hours)}
    return Result({**result, "changed": changed}, f"walks of {name} begin {shown}")


def _cadence_text(every_s: float | None, hours: str | None) -> str:
    parts = ["as often as by default" if every_s is None else f"every {every_s:g} s"]
    return ", ".join([*parts, *([f"in the hours {hours}, UTC"] if hours else [])])


def _chosen_cadence(action: ActionStatus) -> str:
    """Return when the action is walked, if an operator chose it."""
    if not action.is_cadence_chosen:
        return ""
    hours = " ".join(map(str, action.walk_hours))
    return f"every {action.walk_every_s:g} s" + (f", in the hours {hours}, UTC" if hours else "")


def _action(bucket: str | None, action: str | None) -> ActionKey | None:
    if action is None:
        return None
    if bucket is None:
        raise BadRequest("--action needs --bucket")
    rule, _, kind = action.partition("/")
    try:
        key = ActionKey(bytes.fromhex(rule), kind)
        _ = key.kind
    except ValueError:
        raise BadRequest(f"{action!r} is no action; `status` lists them") from None
    return key


@subcommand("quarantine", "Give up a blocked item.", BLOCKER, REASON)
def quarantine(store: str, state: str, blocker: str, reason: str) -> Result:
    """Give up the item of blocker ID for good: the only way past it without working on it. The decision, its
    author and its reason are kept.
    """
    with _worker(store, state) as (_, worker):
        found = Operator(worker).quarantine(blocker, reason, user_name())
    text = f"{found.item.bucket}/{found.item.key} is given up"
    return Result({"blocker": blocker, "object": found.item.key, "reason": reason}, text)


@subcommand(
    "reseed",
    "Have events drive actions again.",
    BUCKET,
    click.option("--delay", "delay_days", type=WholeNumber(0), metavar="DAYS", help="Only of this delay."),
    click.option("--ack-lost-log", is_flag=True, help="Accept that the log lost events; needs --reason."),
    click.option("--reason", default="", metavar="TEXT", help="Kept with the decision."),
    *TIMING,
)
def reseed(
    store: str,
    state: str,
    bucket: str | None,
    delay_days: int | None,
    ack_lost_log: bool,
    reason: str,
    **timing: float,
) -> Result:
    """Return actions that were left to scans to events, by a walk that moves their cursors back. The other
    actions of the same delay look again at what they have passed.
    """
    with _worker(store, state, **timing) as (_, worker):
        delay_ns = None if delay_days is None else delay_days * worker.timing.day_ns
        done = Operator(worker).reseed(
            delay_ns=delay_ns,
            bucket=bucket,
            is_lost_accepted=ack_lost_log,
            reason=reason,
            author=user_name(),
        )
    shown = [{"bucket": one.bucket, "action": one.action, "reason": one.reason.value} for one in done]
    lines = [f"{one.bucket}/{one.action}: {one.reason.value}, begins with the next walk" for one in done]
    return Result({"reseeded": shown}, "\n".join(lines))
