"""Stores that lie, each in one way: `fencepost probe` has to find every one of them.

All are `MemoryStore`s (so that everything else about them is right) and most lie as a real store once
did, which the docstring names. The pauses stand where the real ones do work between check and write.
"""

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from botocore.exceptions import ClientError

from fencepost.impl.store import requests as ask
from fencepost.impl.store.bucket import Bucket
from fencepost.impl.store.errors import Misuse, Unsupported
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Absent, Matches, Outcome

BETWEEN_S = 0.001
"""Between check and write: long enough for every rival that was released at the same moment."""
WRITES = ask.Put | ask.CompleteUpload


def conditional(request: Any, kind: type) -> bool:
    return isinstance(getattr(request, "when", None), kind)


class IgnoresIfNoneMatch(MemoryStore):
    """Create-only writes overwrite (Garage, Wasabi, rclone serve s3; lance#6595)."""

    def send(self, request: Any) -> Any:
        return super().send(replace(request, when=ANYTHING) if conditional(request, Absent) else request)


class IgnoresIfMatch(MemoryStore):
    """If-match writes and deletes happen whatever stands there."""

    def send(self, request: Any) -> Any:
        return super().send(replace(request, when=ANYTHING) if conditional(request, Matches) else request)


class IgnoresIfMatchOnDelete(MemoryStore):
    """Only deletes ignore their condition (RustFS discussion 2602)."""

    def send(self, request: Any) -> Any:
        blind = isinstance(request, ask.Delete) and not request.version
        return super().send(replace(request, when=ANYTHING) if blind else request)


class ChecksThenActs(MemoryStore):
    """Looks whether the key is free, and writes a moment later (seaweedfs#8800, rustfs#1659)."""

    def send(self, request: Any) -> Any:
        if not (isinstance(request, ask.Put) and conditional(request, Absent)):
            return super().send(request)
        if super().send(ask.Head(request.key)).done:
            return request.ends(Outcome.EXISTS)
        time.sleep(BETWEEN_S)
        return super().send(replace(request, when=ANYTHING))


class LosesUpdates(MemoryStore):
    """Compares the ETag, and writes a moment later."""

    def send(self, request: Any) -> Any:
        if not (isinstance(request, ask.Put) and conditional(request, Matches)):
            return super().send(request)
        head = super().send(ask.Head(request.key))
        if not head.done:
            return request.ends(Outcome.MISSING)
        if head.info.etag != request.when.etag:
            return request.ends(Outcome.CHANGED)
        time.sleep(BETWEEN_S)
        return super().send(replace(request, when=ANYTHING))


class DeletesLate(MemoryStore):
    """An if-match delete compares the ETag, and deletes a moment later."""

    def send(self, request: Any) -> Any:
        if not (isinstance(request, ask.Delete) and conditional(request, Matches)):
            return super().send(request)
        head = super().send(ask.Head(request.key))
        if not head.done or head.info.etag != request.when.etag:
            return request.ends(Outcome.CHANGED if head.done else Outcome.MISSING)
        time.sleep(BETWEEN_S)
        return super().send(replace(request, when=ANYTHING))


class CompletesNotAtomically(MemoryStore):
    """Conditional completion of an upload checks, and completes a moment later (SeaweedFS 4.48)."""

    def send(self, request: Any) -> Any:
        if not isinstance(request, ask.CompleteUpload) or conditional(request, ask.Anything):
            return super().send(request)
        head = super().send(ask.Head(request.key))
        if isinstance(request.when, Absent) and head.done:
            return request.ends(Outcome.EXISTS)
        if isinstance(request.when, Matches) and not (head.done and head.info.etag == request.when.etag):
            return request.ends(Outcome.CHANGED)
        time.sleep(BETWEEN_S)
        return super().send(replace(request, when=ANYTHING))


class InvertsTheCondition(MemoryStore):
    """Creates where something is, refuses where nothing is (ceph#69991)."""

    def send(self, request: Any) -> Any:
        if not conditional(request, Absent):
            return super().send(request)
        if super().send(ask.Head(request.key)).done:
            return super().send(replace(request, when=ANYTHING))
        return request.ends(Outcome.EXISTS)


class NeverMatches(MemoryStore):
    """If-match answers 412 to the right ETag, for ever (slatedb#1816)."""

    def send(self, request: Any) -> Any:
        return request.ends(Outcome.CHANGED) if conditional(request, Matches) else super().send(request)


class CreatesOnIfMatch(MemoryStore):
    """If-match on a missing key creates it (minio#21526)."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, WRITES) and conditional(request, Matches) and reply.outcome is Outcome.MISSING:
            return super().send(replace(request, when=ANYTHING))
        return reply


class TakesMarkersForObjects(MemoryStore):
    """Create-only over a delete marker is refused: what was deleted can never be created (rustfs#1610)."""

    def __init__(self) -> None:
        super().__init__(versioned=True)

    def send(self, request: Any) -> Any:
        if conditional(request, Absent):
            versions = super().send(ask.ListVersions(request.key)).versions
            if any(entry.key == request.key for entry in versions):
                return request.ends(Outcome.EXISTS)
        return super().send(request)


class IgnoresIfNoneMatchWhenVersioned(IgnoresIfNoneMatch):
    """Right without versions, blind with them (Ceph 16, lance#6595)."""

    def __init__(self) -> None:
        super().__init__(versioned=True)


class SkipsAConditionNowAndThen(MemoryStore):
    """Every so often a condition is not looked at, as when a quorum is missing (minio#21603)."""

    EVERY = 7

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count(1)

    def send(self, request: Any) -> Any:
        is_put = isinstance(request, ask.Put) and not conditional(request, ask.Anything)
        if is_put and next(self._count) % self.EVERY == 0:
            return super().send(replace(request, when=ANYTHING))
        return super().send(request)


class AnswersConflictThoughApplied(MemoryStore):
    """409 must mean that nothing was written; here it was."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count(1)

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        conditional_put = isinstance(request, ask.Put) and not conditional(request, ask.Anything)
        if conditional_put and reply.done and next(self._count) % 3 == 0:
            return request.ends(Outcome.CONFLICT)
        return reply


class RefusesAndWrites(MemoryStore):
    """Says no, and writes all the same."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, WRITES | ask.Delete) and reply.outcome in (Outcome.EXISTS, Outcome.CHANGED):
            super().send(replace(request, when=ANYTHING))
        return reply


class RefusesEveryRival(MemoryStore):
    """Tells all rivals of a create that somebody else won, when nobody did."""

    def __init__(self) -> None:
        super().__init__()
        self._gate = threading.Lock()
        self._at: dict[str, int] = {}

    def send(self, request: Any) -> Any:
        if not (isinstance(request, ask.Put) and conditional(request, Absent)):
            return super().send(request)
        with self._gate:
            self._at[request.key] = self._at.get(request.key, 0) + 1
        time.sleep(BETWEEN_S)
        return request.ends(Outcome.EXISTS) if self._at[request.key] > 1 else super().send(request)


class AcknowledgesAndForgets(MemoryStore):
    """A create is done, says the store; every so often it is gone again."""

    def __init__(self) -> None:
        super().__init__()
        self._count = itertools.count(1)

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, ask.Put) and reply.done and next(self._count) % 7 == 0:
            super().send(ask.Delete(request.key, ANYTHING))
        return reply


class Behind(MemoryStore):
    """Some requests are answered from a copy that is always one write behind."""

    stale: Any = ()

    def __init__(self) -> None:
        super().__init__()
        self._copy = Bucket()
        self._waiting: list[Any] = []
        self._copying = threading.Lock()

    def send(self, request: Any) -> Any:
        if isinstance(request, self.stale):
            with self._copying:
                return self._copy.answer(request, self.env.now_ns())
        reply = super().send(request)
        if isinstance(request, ask.Put | ask.Delete) and reply.done:
            with self._copying:
                for written in self._waiting:
                    self._copy.answer(written, self.env.now_ns())
                self._waiting = [replace(request, when=ANYTHING)]
        return reply


class ListsStale(Behind):
    """Listings lag behind (S3 itself until 2020, and many a cache)."""

    stale = ask.List


class ReadsStale(Behind):
    """Reads lag behind."""

    stale = ask.Get | ask.Head


class ReadsStaleElsewhere(MemoryStore):
    """Whoever wrote sees it at once; a reader elsewhere sees what a cache still holds."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {}

    def reader(self) -> "MemoryStore":
        store, cache = self, self.cache

        class Reader(MemoryStore):
            def send(self, request: Any) -> Any:
                if not isinstance(request, ask.Get):
                    return store.send(request)
                return cache.setdefault(request.key, store.send(request))

        return Reader()


class TearsWrites(MemoryStore):
    """Writes in two halves that a reader can come between."""

    def send(self, request: Any) -> Any:
        if not (isinstance(request, ask.Put) and len(request.body) > 4096):
            return super().send(request)
        old = super().send(ask.Get(request.key)).body
        half = len(request.body) // 2
        first = super().send(replace(request, body=request.body[:half] + old[half:]))
        if not first.done:
            return first
        time.sleep(5 * BETWEEN_S)
        return super().send(replace(request, when=ANYTHING))


class CoarseEtags(MemoryStore):
    """The ETag tells only the size (mountx#20 built it from inode, size and time)."""

    def send(self, request: Any) -> Any:
        if conditional(request, Matches):
            head = super().send(ask.Head(request.key))
            if head.done and self._coarse(head.info.size) == request.when.etag:
                request = replace(request, when=Matches(head.info.etag))
        reply = super().send(request)
        if isinstance(request, ask.Put) and reply.done:
            return replace(reply, etag=self._coarse(len(request.body)))
        if getattr(reply, "info", None) is not None:
            return replace(reply, info=replace(reply.info, etag=self._coarse(reply.info.size)))
        if isinstance(request, ask.List):
            objects = (replace(entry, etag=self._coarse(entry.size)) for entry in reply.objects)
            return replace(reply, objects=tuple(objects))
        return reply

    @staticmethod
    def _coarse(size: int) -> str:
        return f"size-{size}"


class SkipsAKeyBetweenPages(MemoryStore):
    """The next page starts one key too late."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, ask.List) and request.token:
            return replace(reply, objects=reply.objects[1:])
        return reply


class RepeatsAKeyBetweenPages(MemoryStore):
    """The next page starts with the last key of this one."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, ask.List) and request.token:
            last = super().send(ask.Head(request.token))
            return replace(reply, objects=(last.info, *reply.objects)) if last.done else reply
        return reply


class ShiftsPagesUnderWrites(MemoryStore):
    """Tokens count keys, so that whatever is written between two pages shifts the second."""

    def send(self, request: Any) -> Any:
        if not isinstance(request, ask.List):
            return super().send(request)
        entries: list[Any] = []
        token = ""
        while True:
            page = super().send(replace(request, token=token, limit=1000))
            entries += page.objects
            token = page.next
            if not token:
                break
        start = int(request.token or 0)
        stop = start + request.limit
        return replace(
            page, objects=tuple(entries[start:stop]), next=str(stop) if stop < len(entries) else ""
        )


class MergesKeys(MemoryStore):
    """Upper and lower case are one, as on some file systems."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Keyed):
            return super().send(replace(request, key=request.key.lower()))
        return super().send(request)


class MergesKeysQuietly(MemoryStore):
    """Reads ignore case, listings do not."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, ask.Put) and reply.done and request.key != request.key.lower():
            super().send(replace(request, key=request.key.lower()))
        return reply


class CompletesAborted(MemoryStore):
    """Forgets that an upload was aborted."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.AbortUpload):
            return ask.Reply(Outcome.DONE)
        return super().send(request)


class CutsRanges(MemoryStore):
    """The last byte of a range is missing: an inclusive end taken for an exclusive one."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Get) and request.stop is not None and request.stop - request.start > 1:
            return super().send(replace(request, stop=request.stop - 1))
        return super().send(request)


class NeverNews(MemoryStore):
    """Every conditional read is answered as unchanged."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Get) and request.unless is not None:
            return request.ends(Outcome.UNCHANGED)
        return super().send(request)


class ComparesLoosely(MemoryStore):
    """Takes an ETag for the object's own when a part of it is, or what is made of both."""

    like: Callable[[str, str], bool]
    operation: type = ask.Put | ask.CompleteUpload | ask.Delete  # type: ignore[assignment]  # a union

    def send(self, request: Any) -> Any:
        if isinstance(request, self.operation) and conditional(request, Matches):
            head = super().send(ask.Head(request.key))
            if head.done and type(self).like(head.info.etag, request.when.etag):
                request = replace(request, when=Matches(head.info.etag))
        return super().send(request)


def _loose(name: str, like: Callable[[str, str], bool], operation: Any = None) -> type[ComparesLoosely]:
    members: dict[str, Any] = {"like": staticmethod(like)}
    return type(name, (ComparesLoosely,), members | ({"operation": operation} if operation else {}))


LOOSE = {
    "six characters": lambda own, given: own[:6] == given[:6],
    "all but the last": lambda own, given: own[:-1] == given[:-1],
    "all but the first": lambda own, given: own[1:] == given[1:],
    "all but one in the middle": lambda own, given: (
        len(own) == len(given) and own[:12] + own[20:] == given[:12] + given[20:]
    ),
    "a prefix of its own": lambda own, given: own.startswith(given),
    "its own as a prefix": lambda own, given: given.startswith(own),
    "its own as a suffix": lambda own, given: given.endswith(own),
    "any case": lambda own, given: own.lower() == given.lower(),
    "any order": lambda own, given: sorted(own) == sorted(given),
}
"""Comparisons of ETags that are not equality."""
LOOSE_LIARS = {
    _loose(f"Compares {name} of {row}", like, operation): row
    for name, like in LOOSE.items()
    for row, operation in {
        "if-match-put": ask.Put,
        "if-match-delete": ask.Delete,
        "if-match-complete": ask.CompleteUpload,
    }.items()
}
"""Each, with the row that must catch it."""


class ReadsConditions(MemoryStore):
    """Reads conditions as text, as a store behind HTTP does; with quotes and without, as S3."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, Any] = {}

    def address(self, key: str) -> dict[str, str]:
        return {"Bucket": "b", "Key": key}

    def client(self) -> Any:
        return self

    def condition(self, text: str) -> ask.Condition:
        """Return the condition that a text means; raise `Unsupported` to refuse it."""
        if text.startswith("W/") or "," in text or text == "*":
            raise Unsupported("501 NotImplemented")
        return Matches(text.strip('"'))

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfMatch: str) -> None:  # noqa: N803 - as the SDK
        self._write(lambda when: ask.Put(Key, Body, when), Key, IfMatch)

    def delete_object(self, *, Bucket: str, Key: str, IfMatch: str) -> None:  # noqa: N803 - as the SDK
        self._write(lambda when: ask.Delete(Key, when), Key, IfMatch)

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, str]:  # noqa: N803 - as the SDK
        return {"ETag": f'"{self.send(ask.Head(Key)).info.etag}"'}

    def complete_multipart_upload(self, **given: Any) -> None:
        parts = tuple((one["PartNumber"], one["ETag"]) for one in given["MultipartUpload"]["Parts"])
        key, upload = given["Key"], given["UploadId"]
        self._write(lambda when: ask.CompleteUpload(key, upload, parts, when), key, given["IfMatch"])

    def _write(self, request: Callable[[Any], Any], key: str, text: str) -> None:
        try:
            reply = self.send(request(self.condition(text)))
        except Unsupported:
            _refuse(501)
        if not reply.done:
            _refuse(412)


def _refuse(status: int) -> NoReturn:
    raise ClientError({"ResponseMetadata": {"HTTPStatusCode": status}}, "Put")  # type: ignore[typeddict-item]  # enough


class DropsWeak(ReadsConditions):
    """Does not read a weak ETag, and drops the condition."""

    def condition(self, text: str) -> ask.Condition:
        return ANYTHING if text.startswith("W/") else super().condition(text)


class DropsLists(ReadsConditions):
    """Does not read a list, and drops the condition."""

    def condition(self, text: str) -> ask.Condition:
        return ANYTHING if "," in text else super().condition(text)


class DropsWithoutQuotes(ReadsConditions):
    """Does not read an ETag without quotes, and drops the condition."""

    def condition(self, text: str) -> ask.Condition:
        return super().condition(text) if text[-1] == '"' else ANYTHING


class DropsQuoted(ReadsConditions):
    """Does not read an ETag with quotes, and drops the condition."""

    def condition(self, text: str) -> ask.Condition:
        return ANYTHING if text[0] == '"' and "," not in text else super().condition(text)


class CreatesOnAny(ReadsConditions):
    """Takes `*` for no condition."""

    def condition(self, text: str) -> ask.Condition:
        return ANYTHING if text == "*" else super().condition(text)


LIARS_OF_FORMS = (DropsWeak, DropsLists, DropsWithoutQuotes, DropsQuoted, CreatesOnAny)


class WithQuotesOnly(ReadsConditions):
    """Refuses an ETag without quotes (Cloudflare R2)."""

    def condition(self, text: str) -> ask.Condition:
        return super().condition(text) if text[-1] == '"' else Matches("never")


class WithoutQuotesOnly(ReadsConditions):
    """Compares an ETag with the quotes that it was sent with (Ceph)."""

    def condition(self, text: str) -> ask.Condition:
        return Matches("never") if text[0] == '"' and "," not in text else super().condition(text)


class ReadsLists(ReadsConditions):
    """Reads a list, as HTTP allows."""

    def condition(self, text: str) -> ask.Condition:
        return super().condition(text.split(",")[-1].strip())


FORMS_OF = {
    ReadsConditions: "quoted, unquoted",
    WithQuotesOnly: "quoted",
    WithoutQuotesOnly: "unquoted",
    ReadsLists: "quoted, unquoted, list",
}
"""Honest stores, with the forms that they accept."""


LIARS: dict[Callable[[], MemoryStore], set[str]] = {
    IgnoresIfNoneMatch: {
        "create-only-put",
        "create-only-complete",
        "racing-creates-threads",
        "racing-completes",
    },
    IgnoresIfMatch: {"if-match-put", "if-match-delete", "if-match-complete", "counter-threads"},
    IgnoresIfMatchOnDelete: {"if-match-delete", "puts-against-deletes"},
    ChecksThenActs: {"racing-creates-threads", "puts-against-completes", "linearizability"},
    LosesUpdates: {"counter-threads", "puts-against-deletes", "linearizability"},
    DeletesLate: {"puts-against-deletes"},
    CompletesNotAtomically: {"racing-completes", "racing-completes-if-match", "puts-against-completes"},
    InvertsTheCondition: {"create-only-put", "create-only-complete"},
    NeverMatches: {"if-match-put", "if-match-delete", "if-match-complete"},
    CreatesOnIfMatch: {"if-match-put", "if-match-complete"},
    TakesMarkersForObjects: {"create-only-put", "versioned-bucket"},
    IgnoresIfNoneMatchWhenVersioned: {"create-only-put", "versioned-bucket"},
    SkipsAConditionNowAndThen: {"racing-creates-threads", "counter-threads"},
    AnswersConflictThoughApplied: {"create-only-put", "counter-threads"},
    RefusesAndWrites: {"create-only-put", "if-match-put", "if-match-delete", "create-only-complete"},
    RefusesEveryRival: {"racing-creates-threads"},
    AcknowledgesAndForgets: {"read-after-write", "list-after-write", "racing-creates-threads"},
    ListsStale: {"list-after-write", "list-after-delete"},
    ReadsStale: {"read-after-write", "linearizability"},
    TearsWrites: {"whole-objects"},
    CoarseEtags: {"etags", "if-match-put"},
    SkipsAKeyBetweenPages: {"paging"},
    RepeatsAKeyBetweenPages: {"paging"},
    ShiftsPagesUnderWrites: {"paging-under-writes"},
    MergesKeys: {"distinct-keys"},
    MergesKeysQuietly: {"distinct-keys"},
    CompletesAborted: {"multipart"},
    CutsRanges: {"ranges"},
    NeverNews: {"conditional-get"},
}
"""Every liar, and features that must each catch it (others may as well)."""


# Not liars: they refuse openly, or deviate without harm. A probe must not call these unsafe.


class RefusesIfMatch(MemoryStore):
    """Answers 501 to every if-match (Backblaze B2)."""

    def send(self, request: Any) -> Any:
        if conditional(request, Matches):
            raise Unsupported("501 NotImplemented: If-Match")
        return super().send(request)


class RefusesIfMatchOnDelete(MemoryStore):
    """Answers 501 to if-match on a delete, and only there (LocalStack 4.14)."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Delete) and conditional(request, Matches):
            raise Unsupported("501 NotImplemented: If-Match")
        return super().send(request)


class HasNoUploads(MemoryStore):
    """No multipart at all."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.CreateUpload | ask.ListUploads):
            raise Unsupported("no multipart uploads")
        return super().send(request)


class ForgivingCompletes(MemoryStore):
    """Completions look only at what stands now, and may be repeated (moto, SeaweedFS); 412 for missing."""

    def __init__(self) -> None:
        super().__init__()
        self._completed: dict[str, Any] = {}

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.CompleteUpload):
            return self._complete(request)
        reply = super().send(request)
        if conditional(request, Matches) and reply.outcome is Outcome.MISSING:
            return request.ends(Outcome.CHANGED)
        return reply

    def _complete(self, request: Any) -> Any:
        if request.upload in self._completed:
            return self._completed[request.upload]
        reply = super().send(request)
        if reply.outcome is Outcome.CONFLICT:
            reply = super().send(replace(request, when=ANYTHING))
        if reply.outcome is Outcome.MISSING:
            reply = request.ends(Outcome.CHANGED)
        if reply.done:
            self._completed[request.upload] = reply
        return reply


class ListsLikeATree(MemoryStore):
    """Folders in name order among files: not byte order, and complete (SeaweedFS)."""

    def send(self, request: Any) -> Any:
        if not isinstance(request, ask.List):
            return super().send(request)
        entries = [*super().send(ask.List(request.prefix)).objects]
        entries.sort(key=lambda entry: entry.key.split("/"))
        keys = [entry.key for entry in entries]
        after = request.token or request.after
        start = keys.index(after) + 1 if after in keys else 0
        stop = start + request.limit
        page = tuple(entries[start:stop])
        return ask.ListReply(Outcome.DONE, objects=page, next=page[-1].key if stop < len(entries) else "")


class LosersConflict(MemoryStore):
    """The losers of a race are answered 409 (CoreWeave), and sometimes nobody wins at first."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if conditional(request, Matches) and reply.outcome is Outcome.CHANGED and len(request.body) > 4096:
            return request.ends(Outcome.CONFLICT)
        return reply


class RefusesOddKeys(MemoryStore):
    """Refuses what it cannot keep, openly."""

    def send(self, request: Any) -> Any:
        if isinstance(request, ask.Put) and ("//" in request.key or "\\" in request.key):
            raise Misuse("400 InvalidRequest: the key")
        return super().send(request)


class LivesInThePast(MemoryStore):
    """Its clock is an hour behind."""

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if isinstance(request, ask.Head) and reply.done:
            info = replace(reply.info, modified_ns=reply.info.modified_ns - 3600 * 1_000_000_000)
            return replace(reply, info=info)
        return reply


HONEST: dict[Callable[[], MemoryStore], dict[str, str]] = {
    MemoryStore: {},
    RefusesIfMatchOnDelete: {"if-match-delete": "unsupported", "puts-against-deletes": "unsupported"},
    HasNoUploads: {"multipart": "unsupported", "racing-completes": "unsupported"},
    ForgivingCompletes: {"multipart": "safe", "if-match-complete": "safe", "create-only-complete": "safe"},
    ListsLikeATree: {"listing-order": "unsupported", "paging": "safe"},
    RefusesOddKeys: {"distinct-keys": "safe"},
    LivesInThePast: {"clock-skew": "unsupported"},
}
"""Odd, but honest: safe as a whole, with these rows."""
