"""The numbered history of requests and replies, which a finding shows as evidence.

    1. w2  put create-00007 if absent 'w2.7'      done            0.0 .. 4.1 ms
    2. w5  put create-00007 if absent 'w5.7'      done            0.1 .. 4.4 ms
    3. we  get create-00007                       done 'w5.7'     5.0 .. 6.2 ms

Bodies are shown by their token: every body the probe writes is one line of text naming who wrote it
when, repeated up to the size wanted, so that a body of two writes mixed is seen as such.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import R, Reply, Request

STEPS_MAX = 60
"""Steps a finding carries: more would not be read. The last ones are kept, the violation is the last."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One request and its reply; times count from the start of the history."""

    number: int
    worker: str
    request: str
    outcome: str
    started_ms: float
    ended_ms: float


@dataclass(frozen=True, slots=True)
class _Entry:
    started_ns: int
    ended_ns: int
    worker: str
    request: str
    outcome: str


class History:
    """Filled by any thread, read when a check failed."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._entries: deque[_Entry] = deque(maxlen=4 * STEPS_MAX)
        self._lock = threading.Lock()
        self.requests = 0
        self.now_ns = SystemEnvironment().monotonic_ns
        """Real time, comparable with that of racing processes, whatever environment the store has."""

    def begin(self, since_ns: int | None = None) -> None:
        """Begin the next case: forget all requests, or those sent before `since_ns`."""
        with self._lock:
            kept = [] if since_ns is None else [one for one in self._entries if one.started_ns >= since_ns]
            self._entries.clear()
            self._entries.extend(kept)

    def add(
        self, worker: str, request: Request[Any], reply: Reply | Exception, started_ns: int, ended_ns: int
    ) -> None:
        entry = _Entry(
            started_ns, ended_ns, worker, asked(request, self._prefix), answered(reply, self._prefix)
        )
        with self._lock:
            self.requests += 1
            self._entries.append(entry)

    def steps(self) -> tuple[HistoryStep, ...]:
        """In the order they were issued."""
        with self._lock:
            entries = sorted(self._entries, key=lambda entry: (entry.started_ns, entry.ended_ns))
        entries = entries[-STEPS_MAX:]
        start = entries[0].started_ns if entries else 0
        return tuple(
            HistoryStep(
                number,
                entry.worker,
                entry.request,
                entry.outcome,
                round((entry.started_ns - start) / 1e6, 2),
                round((entry.ended_ns - start) / 1e6, 2),
            )
            for number, entry in enumerate(entries, 1)
        )


class Recorded(Store):
    """A store whose requests are written down as those of one worker."""

    def __init__(
        self,
        inner: Store,
        worker: str,
        history: History,
        before: Callable[[Request[Any]], None],
        after: Callable[[Request[Any], Reply], None],
    ) -> None:
        self.url = inner.url
        self.env = inner.env
        self.inner = inner
        self.worker = worker
        self._history = history
        self._before = before
        self._after = after

    def send(self, request: Request[R]) -> R:
        self._before(request)
        started_ns = self._history.now_ns()
        try:
            reply = self.inner.send(request)
        except StoreError as error:
            self._history.add(self.worker, request, error, started_ns, self._history.now_ns())
            raise
        self._history.add(self.worker, request, reply, started_ns, self._history.now_ns())
        self._after(request, reply)
        return reply

    def versioned(self) -> bool:
        return self.inner.versioned()

    def verify(self) -> None:
        self.inner.verify()


def body_of(token: str, size: int = 0) -> bytes:
    """A body that says who wrote it: `token` and a line break, over and over."""
    line = f"{token}\n".encode()
    return line if size <= len(line) else (line * (size // len(line) + 1))[:size]


def token_of(body: bytes) -> str:
    """Return the writer of this body, or `torn(...)` if it is not one writer's body from end to end."""
    token = body.split(b"\n", 1)[0].decode(errors="replace")
    if not body:
        return ""
    return token if body == body_of(token, len(body)) else f"torn({token[:20]}..., {len(body)} bytes)"


def asked(request: Request[Any], prefix: str) -> str:
    """Return a request as one line for people."""
    subject = request.subject.removeprefix(prefix) or "everything"
    return " ".join([request.kind, subject, *_conditions(request), *_arguments(request)])


def answered(reply: Reply | Exception, prefix: str = "") -> str:
    """One line for people: what came back."""
    if isinstance(reply, Exception):
        return f"refused: {reply}".replace(prefix, "")
    parts = [reply.outcome.value]
    if isinstance(reply, ask.GetReply) and reply.done:
        parts.append(repr(token_of(reply.body)))
    if isinstance(reply, ask.ListReply) and reply.done:
        parts.append(f"{len(reply.objects)} keys" + (", more" if reply.next else ""))
    etag = getattr(reply, "etag", "") or getattr(getattr(reply, "info", None), "etag", "")
    if etag:
        parts.append(f"etag {short(etag)}")
    return " ".join(parts)


def short(etag: str) -> str:
    """Enough of an ETag to tell two apart by eye."""
    return etag if len(etag) <= 12 else f"{etag[:8]}~{etag[-2:]}"


def _conditions(request: Request[Any]) -> list[str]:
    when = getattr(request, "when", None)
    if isinstance(when, ask.Absent):
        return ["if absent"]
    if isinstance(when, ask.Matches):
        return [f"if match {short(when.etag)}"]
    only_if, unless = getattr(request, "only_if", None), getattr(request, "unless", None)
    if only_if is not None:
        return [f"only if {short(only_if)}"]
    return [] if unless is None else [f"unless {short(unless)}"]


def _arguments(request: Request[Any]) -> list[str]:
    words = []
    if isinstance(request, ask.Put | ask.UploadPart):
        words.append(repr(token_of(request.body)))
    if isinstance(request, ask.Get) and (request.start or request.stop is not None):
        words.append(f"bytes {request.start}..{'' if request.stop is None else request.stop}")
    if isinstance(request, ask.List) and request.after:
        words.append(f"after ...{request.after[-12:]}")
    version, upload = getattr(request, "version", ""), getattr(request, "upload", "")
    if version:
        words.append(f"version {short(version)}")
    if upload:
        words.append(f"upload ..{upload[-6:]}")
    return words
