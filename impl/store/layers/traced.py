"""Writes an event for every request and every reply, for replay and for incidents.

    store = Traced(open_store(url), sink=events.append, process="collector-1")

The request's event is written before it is sent. So a process that dies while it waits leaves a request
without a response, which is exactly what is known. The sink is called under a lock, one event at a time, and
should be quick. If it raises, so does the request: an unnoticed hole in a trace is worse than a failed
request.
"""

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.events import Event, TraceFields, arguments, results
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.requests import R, Reply, Request

REFUSED = "refused"
"""The outcome column of a request that raised a StoreError: certainly not applied."""


class Traced(Layer):
    """Reports requests, replies and notes to `sink` as events of one process."""

    def __init__(
        self,
        inner: Store,
        sink: Callable[[Event], object],
        *,
        process: str,
        run: str = "",
        incarnation: int = 0,
        trace_fields: TraceFields | None = None,
        next_op: Callable[[], int] | None = None,
    ) -> None:
        """`next_op` numbers the requests, where several stores write to one sink."""
        super().__init__(inner)
        self._sink = sink
        self._process = process
        self._run = run or inner.env.new_id()
        self._incarnation = incarnation
        self._trace_fields = trace_fields
        self._seq = itertools.count()
        self._next_op = next_op or itertools.count().__next__
        self._lock = threading.Lock()

    def send(self, request: Request[R]) -> R:
        op = self._begin(request)
        try:
            reply = self.inner.send(request)
        except StoreError as error:
            columns = {"kind": request.kind, "key": request.subject, "outcome": REFUSED, "note": str(error)}
            self._emit(op, "response", columns)
            raise
        self._end(op, request, reply)
        return reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        ops = [self._begin(request) for request in requests]
        try:
            replies = self.inner.send_all(requests)
        except StoreError as error:
            # Which of them were applied is not known here, so all but the step's failure stay open.
            self._emit(-1, "note", {"kind": "send-all", "key": "", "note": str(error)})
            raise
        for op, request, reply in zip(ops, requests, replies, strict=True):
            self._end(op, request, reply)
        return replies

    def note(self, text: str, key: str = "", trace_fields: str = "") -> None:
        """Remark something that no request shows, such as `accepted`.

        A refinement map reads the first word of `key`, and the fields.
        """
        self._emit(-1, "note", {"kind": "note", "key": key, "note": text, "trace_fields": trace_fields})

    def _begin(self, request: Request[Any]) -> int:
        op = self._next_op()
        self._emit(op, "request", arguments(request, self._trace_fields))
        return op

    def _end(self, op: int, request: Request[Any], reply: Reply) -> None:
        # An unknown outcome is a response that says nothing: replay follows every possibility.
        self._emit(op, "response", {**results(request, reply, self._trace_fields), "note": reply.detail})

    def _emit(self, op: int, phase: str, columns: dict[str, Any]) -> None:
        with self._lock:
            self._sink(
                Event(
                    run=self._run,
                    seq=next(self._seq),
                    t_ns=self.env.now_ns(),
                    process=self._process,
                    incarnation=self._incarnation,
                    op=op,
                    phase=phase,
                    **columns,
                )
            )
