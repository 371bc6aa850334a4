"""The HTTP server beside a worker: a page, the status for programs, Prometheus metrics, acts of operators.

    GET /               a page of all buckets, actions, cursors and blockers
    GET /status.json    the same as `fencepost lifecycle status --json`
    GET /metrics        what the worker did, and how far each stream is
    POST /act           ?do=run, pause, resume with bucket=NAME and reason=TEXT; do=retry with blocker=ID

Answers have the end of the last round in the header `LastTick`. `/act` needs a bearer token, and is refused
where the server has none. There is also what `fencepost.impl.http.service` adds. The status is read from the
store, at most every few seconds.
"""

import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from html import escape
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.metrics import Family
from fencepost.impl.http.refusals import Refusal
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.lifecycle.operate import Operator, Refused
from fencepost.impl.lifecycle.policy import SECOND_NS
from fencepost.impl.lifecycle.status import ActionStatus, BucketStatus, Status, status_of
from fencepost.impl.lifecycle.target import Unavailable
from fencepost.impl.lifecycle.worker import Worker
from fencepost.impl.store.errors import StoreError

FRESH_S = 5.0
_PREFIX = "fencepost_lifecycle_"


class LifecycleServer(Service):
    def __init__(self, worker: Worker, store: str, limits: Limits | None = None, token: str = "") -> None:
        """`token`: the bearer token of `/act`, which is refused if this is empty."""
        super().__init__(
            "lifecycle",
            {
                "/": {"GET": self._page},
                "/status.json": {"GET": self._status},
                "/act": {"POST": self._act},
            },
            verify=worker.context.store.verify,
            openapi=dict,
            limits=limits,
            unavailable=(StoreError, Unavailable),
        )
        self._worker = worker
        self._store = store
        self._token = token
        self._reading = Lock()
        self._known: tuple[int, Status] | None = None
        self.metrics.families(lambda: families(worker, self.status))
        text = "How long an attempt to delete took."
        worker.expirer.counters.on_delete = self.metrics.histogram(f"{_PREFIX}delete_seconds", text).observe

    def status(self) -> Status:
        with self._reading:
            now_ns = self._worker.context.env.monotonic_ns()
            if self._known is None or now_ns - self._known[0] > FRESH_S * SECOND_NS:
                self._known = now_ns, status_of(self._worker, self._store)
            return self._known[1]

    async def _page(self, request: Request) -> Response:
        shown = page(await self.in_thread(self.status), acts=bool(self._token))
        return HTMLResponse(shown, headers={"cache-control": "no-store", **self._last_tick()})

    async def _status(self, request: Request) -> Response:
        return json_response(asdict(await self.in_thread(self.status)), headers=self._last_tick())

    def _last_tick(self) -> dict[str, str]:
        ns = self._worker.expirer.counters.last_tick_ns
        return {} if ns is None else {"LastTick": _moment(ns)}

    async def _act(self, request: Request) -> Response:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        is_known = hmac.compare_digest(given.strip().encode(), self._token.encode())
        if not self._token or scheme.lower() != "bearer" or not is_known:
            raise Refusal("unauthenticated", "send the token of this server: Authorization: Bearer <token>")
        wanted = dict(request.query_params)
        try:
            done = await self.in_thread(lambda: self._perform(wanted))
        except Refused as error:
            raise Refusal("bad_request", str(error)) from None
        self._known = None
        return json_response({"done": done})

    def _perform(self, wanted: Mapping[str, str]) -> str:
        operator, bucket = Operator(self._worker), wanted.get("bucket") or None
        match wanted.get("do"):
            case "run":
                return f"walks {', '.join(operator.run_now(bucket))}"
            case "pause":
                operator.pause(wanted.get("reason", ""), bucket)
                return "paused"
            case "resume":
                return "it goes on" if operator.unpause(bucket) else "it was not paused"
            case "retry":
                operator.ask_for_retry(wanted.get("blocker", ""))
                return "it is tried in the next round"
            case other:
                raise Refused(f"{other!r} is none of run, pause, resume, retry")


# Metrics.


def families(worker: Worker, status: Callable[[], Status]) -> Iterator[Family]:
    """Yield the metrics of this process; if the store answers, those of the lifecycle as well."""
    counters = worker.expirer.counters
    yield _family("evaluated_total", "Versions looked at.", ("bucket", "rule_hash"), counters.evaluated)
    labels: tuple[str, ...] = ("bucket", "rule_hash", "action")
    yield _family("expired_total", "Versions and uploads deleted.", labels, counters.expired)
    labels = ("bucket", "rule_hash")
    yield _family("skipped_object_lock_total", "Deletions that an object lock kept.", labels, counters.locked)
    yield _family(
        "delete_concurrency", "Objects that can be worked on at a time.", (), {(): worker.concurrency}
    )
    yield _family("delete_concurrency_in_use", "Objects that are worked on now.", (), {(): counters.busy})
    if counters.last_tick_ns is not None:
        text = "The end of the last round, in seconds since 1970."
        yield _family("last_tick_seconds", text, (), {(): counters.last_tick_ns // SECOND_NS})
    yield _family("errors_total", "Attempts that failed.", ("bucket", "kind"), counters.errors)
    try:
        shown = status()
    except (StoreError, Unavailable):
        return
    yield from _of_status(shown)


def _family(name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, int]) -> Family:
    return Family(_PREFIX + name, text, labels, {key: float(count) for key, count in values.items()})


def _of_status(shown: Status) -> Iterator[Family]:
    blocked = Counter((one.stream, one.bucket) for one in shown.blockers)
    labels = ("stream_kind", "bucket")
    yield _family("blocked_streams", "Streams that wait for an operator.", labels, blocked)
    yield _family("quarantined_total", "Items that operators gave up.", (), {(): shown.quarantined})
    sweeps = [one for one in shown.cursors if one.stream == "original"]
    original: dict[tuple[str, ...], float] = {(f"{one.delay_s:g}", one.shard): one.lag_s for one in sweeps}
    near: dict[tuple[str, ...], float] = {
        (one.shard,): one.lag_s for one in shown.cursors if one.stream == "predicate"
    }
    labels = ("delay_group", "shard")
    yield Family(f"{_PREFIX}watermark_lag_seconds", "How far a sweep is behind.", labels, original)
    text = "How far the sweep close behind the clock is behind."
    yield Family(f"{_PREFIX}predicate_lag_seconds", text, ("shard",), near)
    actions = [(bucket, action) for bucket in shown.buckets for action in bucket.actions]
    reasons = Counter((bucket.name, action.reason) for bucket, action in actions)
    for name, reason, text in (
        ("lost_log", "LOST_LOG", "Actions that are left to scans because the log lost events."),
        ("pending_full", "PENDING_FULL", "Actions that are left to scans because too many versions wait."),
    ):
        found = {(bucket,): count for (bucket, why), count in reasons.items() if why == reason}
        yield _family(name, text, ("bucket",), found)
    degraded = Counter((bucket.name,) for bucket, action in actions if action.reason != "NONE")
    yield _family(
        "degraded", "Actions that are not, or may soon not be, driven by events.", ("bucket",), degraded
    )
    yield _of_actions("pending_size", "Versions that wait.", actions, "", lambda one: ("", one.pending))
    yield _of_actions("rule_mode", "The mode of each action.", actions, "mode", lambda one: (one.mode, 1))
    text = "Why an action is not, or may soon not be, driven by events."
    yield _of_actions("rule_degraded", text, actions, "reason", lambda one: (one.reason, 1))


def _of_actions(
    name: str,
    text: str,
    actions: Iterable[tuple[BucketStatus, ActionStatus]],
    label: str,
    read: Callable[[ActionStatus], tuple[str, float]],
) -> Family:
    values: dict[tuple[str, ...], float] = {}
    for bucket, action in actions:
        rule, _, kind = action.action.partition("/")
        value, number = read(action)
        values[bucket.name, rule, kind, *((value,) if label else ())] = number
    labels = ("bucket", "rule_hash", "action", *((label,) if label else ()))
    return Family(_PREFIX + name, text, labels, values)


# The page.


STYLE = """body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse; margin: 0.5em 0 1.5em }
th, td { text-align: left; padding: 0.2em 1em 0.2em 0; border-bottom: 1px solid #ccc }
code { font-size: 0.9em } .warn { color: #a40000 }"""


ACTS = """<p><label>Token <input id="token" type="password" autocomplete="off"></label>
<output id="done"></output></p><script>
for (const button of document.querySelectorAll("button[data-act]")) button.onclick = async () => {
  let query = button.dataset.act
  if (query.startsWith("do=pause")) query += "&reason=" + encodeURIComponent(prompt("Why?") || "")
  const headers = {authorization: "Bearer " + document.getElementById("token").value}
  const answer = await fetch("/act?" + query, {method: "POST", headers})
  document.getElementById("done").textContent = await answer.text()
}
</script>"""


def _buttons(acts: Mapping[str, str], **about: str) -> str:
    """Of acts by their labels, about a bucket or a blocker."""
    found = [
        f'<button data-act="{escape(urlencode({"do": act, **about}))}">{escape(label)}</button>'
        for label, act in acts.items()
    ]
    return f"<p>{' '.join(found)}</p>"


def page(shown: Status, *, acts: bool = False) -> str:
    parts = [f"<h1>Lifecycle of {escape(shown.store)}</h1><p>At {_moment(shown.now_ns)}.</p>"]
    if shown.paused_for:
        parts.append(f'<p class="warn">Everything is paused: {escape(shown.paused_for)}.</p>')
    if not shown.has_log:
        parts.append("<p>The store shows no log: all work is left to walks.</p>")
    elif shown.log_begins_ns is not None:
        parts.append(f"<p>The log begins at {_moment(shown.log_begins_ns)}.</p>")
    for bucket in shown.buckets:
        parts += _bucket(bucket)
        if acts:
            parts.append(
                _buttons({"walk now": "run", "pause": "pause", "resume": "resume"}, bucket=bucket.name)
            )
    rows = [
        (
            one.stream,
            f"{one.delay_s:g} s",
            one.shard,
            _moment(one.position_ns),
            f"{one.lag_s:.0f} s",
            one.blocker,
        )
        for one in shown.cursors
    ]
    parts += _table("Cursors", ("stream", "delay", "shard", "resolved up to", "lag", "blocked by"), rows)
    blocked = [
        (one.id, one.stream, f"{one.bucket}/{one.object}", one.reason, str(one.tries), _moment(one.last_ns))
        for one in shown.blockers
    ]
    parts += _table("Blocked", ("id", "stream", "object", "reason", "tries", "last"), blocked)
    if acts:
        parts += [_buttons({f"retry {one.id}": "retry"}, blocker=one.id) for one in shown.blockers]
        parts += [_buttons({"pause everything": "pause", "end the pause": "resume"}), ACTS]
    parts.append(f"<p>Items that operators gave up: {shown.quarantined}.</p>")
    title = f"Lifecycle of {escape(shown.store)}"
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = "".join(parts)
    return (
        f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{body}</body></html>'
    )


def _bucket(bucket: BucketStatus) -> Iterator[str]:
    walked = "never" if bucket.walked_ns is None else f"at {_moment(bucket.walked_ns)}"
    under_way = ""
    if bucket.walk is not None:
        after = f"<code>{escape(bucket.walk.after)}</code>"
        under_way = f", and since {_moment(bucket.walk.began_ns)} up to {after}"
    rows = [
        (
            one.rule,
            one.action,
            one.mode if one.is_complete or one.mode == "disabled" else f"{one.mode}, begins",
            one.reason if one.paused_for is None else f"{one.reason}: {one.paused_for}",
            f"{one.lag_s:.0f} s",
            str(one.pending),
        )
        for one in bucket.actions
    ]
    yield from _table(bucket.name, ("rule", "action", "mode", "reason", "lag", "pending"), rows)
    yield f"<p>Walked {walked}{under_way}.</p>"


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>"
    if not rows:
        yield "<p>None.</p>"
        return
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lines = ("".join(f"<td>{escape(cell or '')}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    yield f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _moment(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns // SECOND_NS, UTC):%Y-%m-%d %H:%M:%S}Z"
