"""A store as one process sees it, with faults by the number of the request that they hit.

Such a fault can be drawn, shrunk and pasted. A callable one runs anything between two requests: another
writer, garbage collection, a long sleep.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fencepost.impl.store.interface import Layer, Store, settle
from fencepost.impl.store.requests import Absent, CompleteUpload, Delete, Matches, Outcome, Put, R, Request

Fault = str | Callable[[Request[Any]], None]
FAULTS = ("crash", "crash-after", "reply_lost", "request_lost", "late", "conflict", "throttled")
WRITES = (Put, Delete, CompleteUpload)


class Crashed(BaseException):
    """The process ended. Only the code that started the process may catch this."""


class FaultyStore(Layer):
    def __init__(
        self,
        inner: Store,
        faults: Mapping[int, Fault],
        landed: Callable[[Request[Any], Any], None],
        late: list[Request[Any]],
    ) -> None:
        """`late` takes the requests that land at another time; `landed` is called with all others."""
        super().__init__(inner)
        self.faults = dict(faults)
        self.late = late
        self.count = 0
        self._landed = landed

    def send(self, request: Request[R]) -> R:
        number, self.count = self.count, self.count + 1
        fault = self.faults.get(number, "")
        if callable(fault):
            fault(request)
            fault = ""
        if fault == "crash":
            raise Crashed
        if fault == "late" and isinstance(request, WRITES):
            self.late.append(request)
        if fault == "throttled":
            return request.ends(Outcome.THROTTLED)
        if fault == "conflict" and isinstance(getattr(request, "when", None), Absent | Matches):
            return request.ends(Outcome.CONFLICT)
        if fault in ("late", "request_lost"):
            return request.ends(Outcome.UNKNOWN)
        reply = self.inner.send(request)
        self._landed(request, reply)
        if fault == "crash-after":
            raise Crashed
        return request.ends(Outcome.UNKNOWN) if fault == "reply_lost" else reply

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        return settle(self.send, requests)
