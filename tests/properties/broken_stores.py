"""Stores that are broken in one way each: what the lockstep machine and others must catch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Matches, Outcome

Next = Callable[[Any], Any]
PART_BYTES_MIN = 3


class Broken(MemoryStore):
    """Answers through `twist`, which may change the request, the reply, or both."""

    def __init__(self, *, versioned: bool = False) -> None:
        super().__init__(versioned=versioned, part_bytes_min=PART_BYTES_MIN)

    def send(self, request: Any) -> Any:
        return self.twist(request, super().send)

    def twist(self, request: Any, send: Next) -> Any:
        return send(request)


class IgnoresIfNoneMatch(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        create = isinstance(request, ask.Put) and isinstance(request.when, ask.Absent)
        return send(replace(request, when=ANYTHING) if create else request)


class IgnoresIfMatch(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        swap = isinstance(request, ask.Put) and isinstance(request.when, Matches)
        return send(replace(request, when=ANYTHING) if swap else request)


class IfMatchTakesTheEtagBefore(Broken):
    """Off by one: the object's last ETag passes as well."""

    def __init__(self) -> None:
        super().__init__()
        self.etags: dict[str, list[str]] = {}

    def twist(self, request: Any, send: Next) -> Any:
        if not isinstance(request, ask.Put):
            return send(request)
        before = self.etags.setdefault(request.key, [])
        if isinstance(request.when, Matches) and request.when.etag in before[-2:]:
            request = replace(request, when=Matches(before[-1]))
        reply = send(request)
        if reply.done:
            before.append(reply.etag)
        return reply


class DeletesWithoutLooking(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        return send(replace(request, when=ANYTHING) if isinstance(request, ask.Delete) else request)


class ListsThePast(Broken):
    """A listing shows the store as it was before the last write."""

    def __init__(self) -> None:
        super().__init__()
        self.past = MemoryStore(part_bytes_min=PART_BYTES_MIN)
        self.last: Any = None

    def twist(self, request: Any, send: Next) -> Any:
        if isinstance(request, ask.List):
            return self.past.send(request)
        if isinstance(request, ask.Put | ask.Delete):
            if self.last is not None:
                self.past.send(self.last)
            self.last = request
        return send(request)


class RangesAreOneTooLong(Broken):
    """Takes the end of a range as HTTP does, inclusive."""

    def twist(self, request: Any, send: Next) -> Any:
        if isinstance(request, ask.Get) and request.stop is not None:
            return send(replace(request, stop=request.stop + 1))
        return send(request)


class EtagsCountWrites(Broken):
    """An ETag of its own for every write, as some compatible stores have."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def twist(self, request: Any, send: Next) -> Any:
        reply = send(request)
        if isinstance(request, ask.Put) and reply.done:
            self.count += 1
            return replace(reply, etag=f"{self.count:032x}")
        return reply


class LosesMetadata(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        return send(replace(request, metadata=ask.NO_METADATA) if isinstance(request, ask.Put) else request)


class PagesSkipAnEntry(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        reply = send(request)
        if isinstance(request, ask.List) and reply.next:
            return replace(reply, next=reply.next + "0")
        return reply


class GroupsEndOneTooEarly(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        reply = send(request)
        if isinstance(request, ask.List):
            return replace(reply, prefixes=tuple(prefix[:-1] for prefix in reply.prefixes))
        return reply


class CompletesWhateverStandsThere(Broken):
    def twist(self, request: Any, send: Next) -> Any:
        complete = isinstance(request, ask.CompleteUpload)
        return send(replace(request, when=ANYTHING) if complete else request)


class ForgetsWhatStoodThereWhenTheUploadBegan(Broken):
    """Completing is judged by what stands there now: no conflict, but done."""

    def twist(self, request: Any, send: Next) -> Any:
        reply = send(request)
        if isinstance(request, ask.CompleteUpload) and reply.outcome is Outcome.CONFLICT:
            return send(replace(request, when=ANYTHING))
        return reply


class MarkersAreObjects(Broken):
    """RustFS once refused a create over a delete marker."""

    def __init__(self) -> None:
        super().__init__(versioned=True)

    def twist(self, request: Any, send: Next) -> Any:
        create = isinstance(request, ask.Put) and isinstance(request.when, ask.Absent)
        if create and any(row.key == request.key for row in send(ask.ListVersions(request.key)).versions):
            return request.ends(Outcome.EXISTS)
        return send(request)


ALL = (
    IgnoresIfNoneMatch,
    IgnoresIfMatch,
    IfMatchTakesTheEtagBefore,
    DeletesWithoutLooking,
    ListsThePast,
    RangesAreOneTooLong,
    EtagsCountWrites,
    LosesMetadata,
    PagesSkipAnEntry,
    GroupsEndOneTooEarly,
    CompletesWhateverStandsThere,
    ForgetsWhatStoodThereWhenTheUploadBegan,
    MarkersAreObjects,
)
