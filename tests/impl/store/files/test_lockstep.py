"""The directory store and the reference bucket, side by side: every answer must be the same."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.names import Names
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from tests.impl.store.files.broken import BySteps, NoXattrs

LONG = "\u00e9l" * 150
KEYS = [
    "a", "a/b", "a/b/c", "a.b", "a-b", "a0", "a/", "a//b", "/a", "%", "a%folder", "a%folder/b", "%empty",
    ".fencepost", ".fencepost/tmp/x", ".x/y", "...", " a ", "A", "A/b", "\u00e9", "e\u0301", "\U0001f41f/z",
    "\uffff", "tab\tnew\nline", "dot.", "x" * 241, LONG, LONG + "/" + LONG, LONG[:239], "y" * 240 + "/a",
]  # fmt: skip
PREFIXES = ["", "a", "a/", "a/b", "A", "%", "a%", ".", "../", "./", LONG[:200], LONG, "x" * 240, "zz", "/"]
BODIES = [b"", b"0", b"1", b"hello world"]

keys = st.sampled_from(KEYS[:6]) | st.sampled_from(KEYS)
whens = st.sampled_from(["absent", "anything", "matches", "other"])
parts = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(BODIES)), max_size=3)
steps = st.one_of(
    st.tuples(st.just("put"), keys, whens, st.sampled_from(BODIES), st.booleans()),
    st.tuples(st.just("put"), keys, whens, st.sampled_from(BODIES), st.booleans()),
    st.tuples(st.just("delete"), keys, whens),
    st.tuples(st.just("get"), keys, st.integers(0, 12), st.none() | st.integers(0, 12), whens, st.booleans()),
    st.tuples(st.just("head"), keys),
    st.tuples(
        st.just("list"),
        st.sampled_from(PREFIXES) | keys,
        st.sampled_from(["", "/", "/", "b", "/b", "%", "ab"]),
        st.just("") | keys,
        st.integers(1, 4),
    ),
    st.tuples(st.just("upload"), keys),
    st.tuples(st.just("part"), st.integers(0, 3), st.integers(1, 3), st.sampled_from(BODIES)),
    st.tuples(st.just("complete"), st.integers(0, 3), whens, st.lists(st.integers(1, 3), max_size=3)),
    st.tuples(st.just("abort"), st.integers(0, 3)),
    st.tuples(st.just("uploads"), st.sampled_from(PREFIXES), st.integers(1, 3)),
)


class Pair:
    """Sends the same to both, translating what each makes up for itself: upload ids and times."""

    def __init__(self, store):
        self.file, self.memory = store, MemoryStore(part_bytes_min=0)
        self.uploads = []
        self.parts = {}

    def both(self, request, twin=None):
        try:
            expected = self.memory.send(twin or request)
        except StoreError as error:
            with pytest.raises(type(error)):
                self.file.send(request)
            return None
        found = self.file.send(request)
        assert self.plain(found) == self.plain(expected), request
        return found

    def plain(self, reply):
        timeless = {}
        if getattr(reply, "info", None) is not None:
            timeless["info"] = replace(reply.info, modified_ns=0)
        if hasattr(reply, "objects"):
            timeless["objects"] = tuple(replace(info, modified_ns=0) for info in reply.objects)
        if isinstance(reply, ask.UploadReply):
            timeless["upload"] = ""
        return replace(reply, **timeless)

    def when(self, word, key):
        info = self.memory.head(key).info
        known = {"absent": ABSENT, "anything": ANYTHING, "other": Matches("0" * 32)}
        return known.get(word, Matches(info.etag if info else "1" * 32))

    def put(self, key, word, body, odd):
        extra = {"content_type": "text/plain", "metadata": ask.Metadata({"k": "v"})} if odd else {}
        self.both(ask.Put(key, body, self.when(word, key), **extra))

    def delete(self, key, word):
        self.both(ask.Delete(key, self.when(word, key)))

    def get(self, key, start, stop, word, unless):
        etag = getattr(self.when(word, key), "etag", None)
        self.both(ask.Get(key, start, stop, **{"unless" if unless else "only_if": etag}))
        self.both(ask.Get(key))

    def head(self, key):
        self.both(ask.Head(key))

    def list(self, prefix, delimiter, after, limit):
        token = ""
        for _ in range(100):
            page = self.both(ask.List(prefix, after, delimiter, limit, token))
            if page is None or not page.next:
                return
            token = page.next
        raise AssertionError("the listing never ends")

    def upload(self, key):
        twin = self.memory.create_upload(key).upload
        self.uploads.append((key, self.file.create_upload(key).upload, twin))

    def chosen(self, number):
        return self.uploads[number] if number < len(self.uploads) else ("a", "u" + "0" * 40, "none")

    def part(self, number, part, body):
        key, upload, twin = self.chosen(number)
        reply = self.both(ask.UploadPart(key, upload, part, body), ask.UploadPart(key, twin, part, body))
        if reply.done:
            self.parts[number, part] = reply.etag

    def complete(self, number, word, listed):
        key, upload, twin = self.chosen(number)
        named = tuple((part, self.parts.get((number, part), "0" * 32)) for part in listed)
        when = self.when(word, key)
        self.both(ask.CompleteUpload(key, upload, named, when), ask.CompleteUpload(key, twin, named, when))

    def abort(self, number):
        key, upload, twin = self.chosen(number)
        self.both(ask.AbortUpload(key, upload), ask.AbortUpload(key, twin))

    def list_uploads(self, prefix, limit):
        token, found = "", []
        names = {upload: twin for _, upload, twin in self.uploads}
        while True:
            page = self.file.list_uploads(prefix, limit=limit, token=token)
            found += [(info.key, names[info.upload]) for info in page.uploads]
            token = page.next
            if not token:
                break
        expected = self.memory.list_uploads(prefix).uploads
        assert found == [(info.key, info.upload) for info in expected]


def walk_together(store, sequence):
    pair = Pair(store)
    for name, *arguments in sequence:
        getattr(pair, {"uploads": "list_uploads"}.get(name, name))(*arguments)
    pair.list("", "", "", 1000)
    pair.list("", "/", "", 2)


@pytest.fixture(scope="module")
def place():
    """In memory where there is such a file system: these tests ask nothing of durability."""
    place = tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize("kind", ["natural", "by-steps", "side-files", "folded", "named-drafts"])
@given(sequence=st.lists(steps, min_size=8, max_size=30))
@settings(max_examples=120, deadline=None)
def test_every_answer_is_the_reference_s(kind, place, sequence):
    """If this fails, a protocol proved on the reference may behave differently on a directory."""
    root = tempfile.mkdtemp(dir=place)
    disk = {"side-files": NoXattrs, "by-steps": BySteps}.get(kind, Disk)()
    with FileStore(root, disk=disk) as store:
        if kind == "folded":
            write_format(root, "folded")
        if kind == "named-drafts":
            store.verify()
            store._session._internals.nameless_works = False
        walk_together(store, sequence)
    shutil.rmtree(root)


def write_format(root, names):
    internal = Path(root, ".fencepost")
    internal.mkdir()
    (internal / "format").write_text(f'{{"format": 1, "names": "{names}"}}\n')


@pytest.mark.parametrize("word", ["absent", "anything", "matches", "other"])
@pytest.mark.parametrize("before", [(), ("put",)])
@pytest.mark.parametrize("between", [(), ("put",), ("put", "delete"), ("delete",), ("delete", "put")])
def test_completing_looks_at_what_stood_when_the_upload_began(place, word, before, between):
    """If this fails, a conditional completion overwrites what came while the parts were on their way."""
    pair = Pair(FileStore(tempfile.mkdtemp(dir=place)))
    does = {
        "put": lambda: pair.put("a/k", "anything", b"1", True),
        "delete": lambda: pair.delete("a/k", "anything"),
    }
    for step in before:
        does[step]()
    pair.upload("a/k")
    for number, body in ((1, b"x"), (3, b"yz"), (1, b"again")):
        pair.part(0, number, body)
    for step in between:
        does[step]()
    pair.complete(0, word, [1, 3])
    pair.get("a/k", 0, None, "anything", False)
    pair.list_uploads("", 1)
    pair.complete(0, "anything", [3])
    pair.abort(0)
    pair.get("a/k", 0, None, "anything", False)
    pair.list_uploads("", 1)
    pair.list("", "", "", 10)


def test_the_same_bytes_written_again_are_still_another_write(tmp_path):
    """An ETag comes back with its content; the mark of a write does not."""
    store = FileStore(tmp_path)
    etag = store.put("k", b"same", when=ABSENT).etag
    upload = store.create_upload("k").upload
    part = store.upload_part("k", upload, 1, b"p").etag
    assert store.put("k", b"same", when=ANYTHING).etag == etag
    assert store.complete_upload("k", upload, [(1, part)], when=Matches(etag)).outcome is Outcome.CONFLICT
    assert store.get("k").body == b"same"


SEGMENTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), max_size=400)


@given(folded=st.booleans(), segment=SEGMENTS | st.sampled_from(["", ".", "..", ".fencepost", "x" * 700]))
@settings(max_examples=300, deadline=None)
def test_a_segment_s_name_leads_back_to_it(folded, segment):
    """If this fails, two keys can share a file, or a key cannot be listed."""
    names = Names(folded=folded)
    pieces = names.pieces(segment)
    assert names.text(pieces) == segment
    assert all(0 < len(piece.encode()) <= 240 and piece not in {".", "..", ".fencepost"} for piece in pieces)
    assert not any("/" in piece or "\0" in piece for piece in pieces)


@given(name=SEGMENTS)
@settings(max_examples=300, deadline=None)
def test_only_the_canonical_spelling_is_a_key(name):
    names = Names()
    text = names.text((name,))
    assert text is None or names.pieces(text) == (name,)
