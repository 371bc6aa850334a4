"""Threads of one node share what it knows of a stream: what one of them does between two steps of another."""

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Delete, Get, Put
from fencepost.impl.streams import Durability, Fenced, Node, Reaper
from fencepost.impl.streams.manifest import manifest_key

from . import nodes
from .nodes import NAME, TEXT, append, everything


class Between(Store):
    """A store at which something happens once, before or after a request for the manifest."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.before: tuple[type, Callable[[], Any]] | None = None
        self.after: tuple[type, Callable[[], Any]] | None = None

    def send(self, request: Any) -> Any:
        manifest = getattr(request, "key", "") == manifest_key(NAME)
        if self.before is not None and manifest and isinstance(request, self.before[0]):
            act, self.before = self.before[1], None
            act()
        reply = self.inner.send(request)
        if self.after is not None and manifest and isinstance(request, self.after[0]):
            act, self.after = self.after[1], None
            act()
        return reply


@pytest.fixture
def store() -> Between:
    return Between(MemoryStore(env=SeededEnvironment()))


def node_of(store: Store, **settings: Any) -> Node:
    return nodes.node_of(store, SeededEnvironment(), **settings)


def test_a_swap_is_conditional_on_the_manifest_that_it_was_decided_on(store) -> None:
    """Another thread swaps between the decision and the request: its segment must stay."""
    node = node_of(store)
    node.create(NAME, TEXT)
    others = [lambda: append(node, b"theirs")]

    def extend(found):
        if others:
            others.pop()()
        return replace(found, stream_seq="x")

    node.update(node.stream(NAME), extend)
    assert everything(node_of(store)) == b"theirs"
    assert node.stream(NAME).manifest.stream_seq == "x"


def test_an_old_reply_does_not_replace_a_newer_manifest(store) -> None:
    """A reader revalidates; while the reply is under way, an append is acknowledged."""
    node = node_of(store)
    node.create(NAME, TEXT)
    node.load(node.stream(NAME))
    append(node, b"a")
    other = node_of(store)
    other.load(other.stream(NAME))
    store.after = (Get, lambda: append(other, b"b"))
    assert other.load(other.stream(NAME)).tail == 2
    assert append(other, b"c").offset.endswith("3")
    assert everything(node_of(store)) == b"abc"


def test_a_missing_reply_does_not_hide_a_creation(store) -> None:
    node = node_of(store)
    store.after = (Get, lambda: node_of(store).create(NAME, TEXT) and node.load(node.stream(NAME)))
    assert node.load(node.stream(NAME)) is not None


def test_a_reap_deletes_the_tombstone_that_it_read(store) -> None:
    """Between its read and its delete, another thread loads what a creation wrote."""
    node, other = node_of(store), node_of(store)
    node.create(NAME, TEXT)
    append(node, b"old")
    node.delete(NAME)

    def recreate() -> None:
        other.create(NAME, TEXT)
        append(other, b"new")
        node.load(node.stream(NAME))

    store.before = (Delete, recreate)
    list(Reaper(node).sweep())
    assert everything(node_of(store)) == b"new"


def test_what_is_not_listed_is_not_acknowledged(store) -> None:
    """The record vanished from the buffer before the flush."""
    node = node_of(store)
    node.create(NAME, TEXT)
    flush, lost = node.appends.flush, [True]

    def forgetful(stream: Any, accepted: Any) -> None:
        if lost and lost.pop():
            stream.records = []
        flush(stream, accepted)

    node.appends.flush = forgetful  # type: ignore[method-assign]  # the fault of this test
    append(node, b"mine")
    assert everything(node_of(store)) == b"mine"


def test_a_segment_that_would_overlap_is_not_listed(store) -> None:
    node = node_of(store)
    node.create(NAME, TEXT)
    stream = node.stream(NAME)
    stale = stream.known
    append(node, b"first")
    stream.known = stale
    append(node, b"second")
    assert everything(node_of(store)) == b"firstsecond"


def test_a_repeated_close_is_answered_once_the_close_is_durable(store) -> None:
    node = node_of(store)
    node.create(NAME, TEXT)
    answers: list[Any] = []
    fail = RuntimeError("the process ends here")

    def end() -> None:
        thread = threading.Thread(target=lambda: answers.append(append(node, b"", close=True)), daemon=True)
        thread.start()
        thread.join(0.05)
        if answers:
            raise fail  # the answer came while this close was in flight

    store.before = (Put, end)
    node.own(node.stream(NAME))
    append(node, b"", close=True)
    assert store.inner.contents()


@pytest.mark.parametrize("body", [b"", b"last"])
def test_a_node_closes_what_another_one_appended(store, body) -> None:
    one, two = node_of(store), node_of(store)
    one.create(NAME, TEXT)
    append(one, b"first")
    assert append(two, body, close=True).closed
    assert append(one, b"", close=True).duplicate
    assert everything(one) == b"first" + body


def test_what_is_not_durable_is_not_at_the_tail(store) -> None:
    node = node_of(store)
    node.create(NAME, TEXT)
    node.own(node.stream(NAME))
    seen: list[int] = []

    def look() -> None:
        stream = node.visible(NAME)
        seen.append(node.tail_of(stream, stream.manifest))

    store.before = (Put, look)
    append(node, b"mine")
    assert seen == [0]


def test_only_one_thread_works_on_a_name(store) -> None:
    node = node_of(store)
    with node.exclusively(NAME, Fenced("busy")):
        with pytest.raises(Fenced), node.exclusively(NAME, Fenced("busy")):
            raise AssertionError
        assert NAME in node.busy
    assert NAME not in node.busy


@pytest.mark.parametrize("durability", [Durability.STORE, Durability.LOCAL])
def test_threads_lose_no_append(store, durability) -> None:
    """Four writers, two readers that revalidate at every read, and a second node that takes over."""
    nodes = [node_of(store, revalidate_s=0.0, durability=durability) for _ in range(1)]
    node = nodes[0]
    node.create(NAME, TEXT)
    rival = node_of(store, revalidate_s=0.0)
    answered: list[tuple[int, bytes]] = []
    ended = threading.Event()

    def write(writer: int, by: Node) -> None:
        for number in range(12):
            body = b"%d:%02d;" % (writer, number)
            try:
                done = append(by, body)
            except Fenced:
                continue
            answered.append((int(done.offset.split("_")[1]), body))

    def read() -> None:
        while not ended.is_set():
            everything(node)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        writers = [threading.Thread(target=write, args=(at, node)) for at in range(4)]
        if durability is Durability.STORE:
            writers.append(threading.Thread(target=write, args=(9, rival)))
        readers = [threading.Thread(target=read) for _ in range(2)]
        for thread in (*writers, *readers):
            thread.start()
        for thread in writers:
            thread.join(60)
        ended.set()
        for thread in readers:
            thread.join(60)
    finally:
        sys.setswitchinterval(switch)
        ended.set()
    node.flush(node.stream(NAME)) if durability is Durability.LOCAL else None
    found = everything(node_of(store))
    assert answered
    for end, body in answered:
        assert found[end - len(body) : end] == body
        assert found.count(body) == 1
