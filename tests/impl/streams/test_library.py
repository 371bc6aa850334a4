"""The library of streams on a store in memory: appends, owners, forks of fate, retention."""

import threading

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.streams import (
    Configuration,
    Durability,
    Fenced,
    MemoryState,
    Node,
    Reaper,
    Record,
    Refusal,
    Refused,
    RetentionError,
    SqliteState,
    Trouble,
)
from fencepost.impl.streams.errors import Damaged
from fencepost.impl.streams.manifest import manifest_key, prefix_of
from fencepost.impl.streams.stream import Accepted

from .counting import Counting
from .nodes import NAME, TEXT, append, everything, node_of


def test_what_one_node_appends_another_reads(store, env) -> None:
    one, two = node_of(store, env), node_of(store, env)
    one.create(NAME, TEXT, b"first ")
    first = append(one, b"second ")
    append(one, b"third")
    assert everything(two) == b"first second third"
    assert everything(two, first.offset) == b"third"


def test_a_node_that_was_overtaken_takes_the_stream_back_and_loses_nothing(store, env) -> None:
    one, two = node_of(store, env), node_of(store, env)
    one.create(NAME, TEXT)
    append(one, b"a")
    append(two, b"b")
    append(one, b"c")
    assert everything(two) == b"abc"
    assert one.load(one.stream(NAME)).owner == 3


def test_a_producer_is_fenced_and_its_repetitions_are_answered(store, env) -> None:
    node = node_of(store, env)
    node.create(NAME, TEXT)
    append(node, b"a", producer=("p", 0, 0))
    assert append(node, b"a", producer=("p", 0, 0)).duplicate
    append(node, b"b", producer=("p", 1, 0))
    for producer, kind in ((("p", 0, 1), Refusal.STALE_EPOCH), (("p", 1, 2), Refusal.GAP)):
        with pytest.raises(Refused) as refused:
            append(node_of(store, env), b"x", producer=producer)
        assert refused.value.kind is kind
    assert everything(node) == b"ab"


def test_a_deleted_stream_leaves_nothing(store, env) -> None:
    node = node_of(store, env)
    node.create(NAME, TEXT, b"data")
    node.delete(NAME)
    with pytest.raises(Refused):
        node.read_from(NAME)
    assert list(Reaper(node).sweep()) == []
    assert store.contents() == {}
    assert node.state.flagged() == {}


def test_an_expired_stream_is_reaped_only_after_the_margin(store, env) -> None:
    node = node_of(store, env)
    node.create(NAME, Configuration("text/plain", ttl_s=100), b"data")
    env.sleep(101)
    with pytest.raises(Refused):
        node.read_from(NAME)
    assert list(Reaper(node).sweep()) == []
    assert store.contents() != {}
    env.sleep(12)  # a tenth of the TTL, and twice the skew
    assert list(Reaper(node_of(store, env)).sweep()) == []  # another node, which has no row: the scan
    assert store.contents() == {}


def test_a_young_tombstone_waits(store, env) -> None:
    node = node_of(store, env, landing_bound_s=60.0)
    node.create(NAME, TEXT, b"data")
    node.delete(NAME)
    with pytest.raises(RetentionError) as error:
        Reaper(node).reap(NAME, node.state.flagged()[NAME])
    assert error.value.kind is Trouble.YOUNG
    assert len(store.contents()) == 2
    env.sleep(61)
    assert list(Reaper(node).sweep()) == []
    assert store.contents() == {}


def test_a_recreated_stream_shows_no_old_byte_and_refuses_old_offsets(store, env) -> None:
    node, reader = node_of(store, env), node_of(store, env)
    node.create(NAME, TEXT, b"old")
    old = reader.read_from(NAME)
    node.delete(NAME)
    env.sleep(1)
    manifest, created = node.create(NAME, TEXT, b"new and longer")
    assert created
    assert everything(reader) == b"new and longer"
    with pytest.raises(Refused) as refused:
        reader.read_from(NAME, old.manifest.offset(3))
    assert refused.value.kind is Refusal.GONE
    assert all(manifest.incarnation in key or "manifest" in key for key in store.contents())


def test_the_scan_finds_data_that_a_fenced_node_uploaded_after_the_reap(store, env) -> None:
    node = node_of(store, env)
    manifest, _ = node.create(NAME, TEXT)
    node.delete(NAME)
    list(Reaper(node).sweep())
    store.put(manifest.segment_key(1, 0), b"late", when=ABSENT)
    fresh = node_of(store, env)
    assert list(Reaper(fresh).sweep()) == []
    assert store.contents() == {}


def test_the_scan_leaves_a_live_stream_alone(store, env) -> None:
    node = node_of(store, env)
    manifest, _ = node.create(NAME, TEXT, b"data")
    store.put(manifest.segment_key(1, 4), b"in flight", when=ABSENT)
    before = store.contents()
    list(Reaper(node_of(store, env)).sweep())
    assert store.contents() == before


def test_restoring_a_half_reaped_stream_looks_at_no_segment(store, env) -> None:
    node = node_of(store, env)
    node.create(NAME, TEXT, b"data")
    node.delete(NAME)
    for key in list(store.contents()):
        if "segments" in key:
            store.delete(key, when=Reaper(node).node.safeguards.two_node_reap(store.head(key).info.etag))
    fresh = node_of(store, env)
    assert list(Reaper(fresh).sweep()) == []
    assert store.contents() == {}


def test_records_of_a_local_commit_survive_a_restart(store, env, tmp_path) -> None:
    def started() -> Node:
        return node_of(store, env, state=SqliteState(tmp_path), durability=Durability.LOCAL)

    node = started()
    node.create(NAME, TEXT)
    append(node, b"kept")
    assert everything(node) == b"kept"
    assert not any("segments" in key for key in store.contents())
    node.close()
    again = started()
    append(again, b" and more")
    again.flush(again.stream(NAME))
    assert everything(node_of(store, env)) == b"kept and more"
    assert again.state.waiting() == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_state_keeps_rows_and_records(kind, tmp_path) -> None:
    state = MemoryState() if kind == "memory" else SqliteState(tmp_path)
    state.add("n", "i", 1, [Record(0, b"ab"), Record(2, b"c", "p", 1, 2, "s")])
    state.flag("n", "i")
    assert state.records("n", "i") == (1, [Record(0, b"ab"), Record(2, b"c", "p", 1, 2, "s")])
    state.trim("n", "i", 2)
    assert state.records("n", "i")[1] == [Record(2, b"c", "p", 1, 2, "s")]
    assert state.waiting() == ["n"]
    state.drop("n", "other")
    assert state.flagged() == {"n": "i"}
    state.drop("n", "i")
    assert (state.flagged(), state.waiting()) == ({}, [])
    state.close()


def test_names_share_no_prefix() -> None:
    assert prefix_of("/a") != prefix_of("/b")


def waiting(node: Node, body: bytes):
    """Of an append that waits for its flush: what it accepted."""
    stream = node.stream(NAME)
    node.own(stream)
    with stream.lock:
        node.appends.accept(stream, body, "text/plain", None, None, close=False)
        return stream, Accepted(*stream.held, stream.tail)


def test_an_append_that_another_one_dropped_is_not_acknowledged(store, env) -> None:
    """One append finds another owner, whose bytes stand where those of the waiting append did."""
    one, two = node_of(store, env), node_of(store, env)
    one.create(NAME, TEXT)
    stream, accepted = waiting(one, b"lost")
    append(two, b"them")
    append(one, b"next")
    assert everything(two) == b"themnext"
    with pytest.raises(Fenced):
        one.flush(stream, accepted)


def test_an_append_that_another_one_listed_is_acknowledged_once(store, env) -> None:
    one, two = node_of(store, env), node_of(store, env)
    one.create(NAME, TEXT)
    stream, accepted = waiting(one, b"mine")
    append(one, b"next")
    append(two, b"them")
    stream.let_go()
    one.load(stream)  # as an append does that was overtaken
    one.flush(stream, accepted)
    append(one, b"last")
    one.flush(stream, accepted)
    assert everything(two) == b"minenextthemlast"


class Released:
    """A lock after whose first release another append comes at once."""

    def __init__(self, then) -> None:
        self.lock, self.then, self.releases = threading.Lock(), then, 0

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_) -> None:
        self.lock.release()
        self.releases += 1
        if self.releases == 1:
            self.then()


def test_an_append_is_answered_with_its_own_offset(store, env) -> None:
    one = node_of(store, env)
    one.create(NAME, TEXT)
    one.stream(NAME).lock = Released(lambda: append(one, b"later"))
    assert append(one, b"mine").offset.endswith("_0000000000000004")
    assert everything(one) == b"minelater"


def test_a_node_that_reaps_an_earlier_life_does_not_deny_the_stream(store, env) -> None:
    """404 for a live stream ends its client; `Fenced` is waited for, or answered 503."""
    ann, bob = node_of(store, env), node_of(store, env)
    ann.create(NAME, TEXT)
    bob.busy.add(NAME)
    for act in (bob.visible, bob.read_from):
        with pytest.raises(Fenced):
            act(NAME)
    ann.delete(NAME)
    with pytest.raises(Refused) as refused:
        bob.visible(NAME)
    assert refused.value.kind is Refusal.MISSING


@pytest.mark.parametrize("disk", [False, True])
def test_a_row_of_an_earlier_life_refuses_no_append(store, env, tmp_path, disk: bool) -> None:
    """A row outlives the recreation by another node until this one has reaped it: minutes."""
    state = SqliteState(tmp_path) if disk else MemoryState()
    ann, bob = node_of(store, env), node_of(store, env, state=state)
    old, _ = ann.create(NAME, TEXT)
    state.flag(NAME, old.incarnation)
    ann.delete(NAME)
    ann.create(NAME, TEXT)
    append(bob, b"new")
    assert everything(ann) == b"new"
    bob.close()


def test_names_that_do_not_exist_take_no_memory(store, env) -> None:
    node = node_of(store, env)
    for number in range(10):
        with pytest.raises(Refused):
            node.read_from(f"/none/{number}")
    assert node.known() == []


def test_one_damaged_manifest_stops_no_scan(store, env) -> None:
    """What another program wrote under one name would otherwise keep every doomed stream for ever."""
    node = node_of(store, env)
    for name in ("/a", "/b", "/c"):
        node.create(name, TEXT, b"x")
    names = sorted(("/a", "/b", "/c"), key=manifest_key)
    store.put(manifest_key(names[0]), b"{", when=ANYTHING)
    for name in names[1:]:
        node.delete(name)
    other = node_of(store, env)
    failures = dict(Reaper(other).sweep())
    assert list(failures) == ["streams/"]
    assert not [key for key in store.contents() if not key.startswith(prefix_of(names[0]))]


def test_a_scan_asks_for_no_segment_that_its_listing_shows(env) -> None:
    """A stream has thousands of segments; a live one without a listed segment is still reported."""
    store = Counting(MemoryStore(env=env))
    node = node_of(store, env)
    node.create(NAME, TEXT)
    append(node, b"1")
    append(node, b"2")
    Reaper(node).scan()
    assert store.sent["head"] == 0
    manifest = node.load(node.stream(NAME))
    last = manifest.segments[-1]
    store.delete(manifest.key_of(last), when=ANYTHING)
    with pytest.raises(Damaged, match="is missing"):
        Reaper(node).scan()
    assert store.sent["head"] == 1
