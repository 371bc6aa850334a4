"""Indexes keep a manifest short: what they list is read, kept by scans and reaped like other data."""

from fencepost.impl.store import ABSENT
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Outcome, Put
from fencepost.impl.streams import Manifest, Node, Reaper
from fencepost.impl.streams.manifest import Segment, parse_key
from fencepost.impl.streams.stream import Accepted
from fencepost.properties.streams.checks import StreamState

from . import nodes
from .nodes import NAME, SETTINGS, TEXT, append


def node_of(store, env, **settings) -> Node:
    return nodes.node_of(store, env, **{"index_width": 2, "cache_bytes": 0, **settings})


def filled(store, env, count: int = 20, owners: int = 2) -> tuple[Node, bytes]:
    """A stream of so many appends, by turns of four."""
    nodes = [node_of(store, env, index_width=2 + number) for number in range(owners)]
    nodes[0].create(NAME, TEXT)
    bodies = [b"<%d>" % number for number in range(count)]
    for number, body in enumerate(bodies):
        append(nodes[number // 4 % owners], body)
    return nodes[0], b"".join(bodies)


def test_a_reader_finds_every_offset_through_indexes(store, env) -> None:
    _, body = filled(store, env)
    manifest = node_of(store, env).load(node_of(store, env).stream(NAME))
    reader = node_of(store, env)
    assert manifest is not None
    assert sum(one.count for one in manifest.segments) == 20
    assert {one.count for one in manifest.segments} > {1}
    for at in range(len(body) + 1):
        assert reader.read_from(NAME, manifest.offset(at)).body == body[at:]


def test_a_manifest_stays_short(store, env) -> None:
    node, _ = filled(store, env, count=200, owners=1)
    manifest = node.stream(NAME).manifest
    assert manifest is not None
    assert len(manifest.segments) < 4 * 7
    assert all(one.count == 1 for one in manifest.segments[-2:])


def test_a_scan_keeps_what_indexes_list_and_deletes_what_none_lists(store, env) -> None:
    """Of owners that are over; nodes that did not know that they were have left indexes and segments."""
    node, body = filled(store, env, count=40)
    fresh = node_of(store, env)
    manifest = fresh.own(fresh.stream(NAME))
    for orphan in (manifest.segment_key(1, 4), manifest.segment_key(1, 0, 4096)):
        store.put(orphan, b"unlisted", when=ABSENT)
    assert list(Reaper(node_of(store, env)).sweep()) == []
    state = StreamState(store.contents(), NAME, SETTINGS)
    listed = {manifest.key_of(one) for one in state.entries(manifest.segments)}
    assert set(store.contents()) == {*listed, manifest.key}
    assert node.read_from(NAME).body == body


def test_a_reap_deletes_indexes(store, env) -> None:
    node, _ = filled(store, env)
    assert any(key.endswith(".idx") for key in store.contents())
    node.delete(NAME)
    assert list(Reaper(node).sweep()) == []
    assert store.contents() == {}


def test_an_append_whose_segment_an_index_lists_is_acknowledged(store, env) -> None:
    """While it waited, so many others came that the manifest does not list it itself any more."""
    node, _ = filled(store, env, owners=1)
    manifest = node.stream(NAME).manifest
    assert manifest is not None
    for owner, end, durable in ((1, 3, True), (1, 12, True), (2, 3, False), (1, 10**6, False)):
        accepted = Accepted(manifest.incarnation, owner, end)
        assert accepted.is_durable(manifest, node.segments_after) is durable


class Hidden(Layer):
    """Applies the next swap, loses its reply, and lets others append before it is read again."""

    def __init__(self, inner: MemoryStore, then) -> None:
        super().__init__(inner)
        self.then = then

    def send(self, request):
        reply = self.inner.send(request)
        if self.then is not None and isinstance(request, Put) and b'"tail":4,' in request.body:
            then, self.then = self.then, None
            then()
            return request.ends(Outcome.UNKNOWN)
        return reply


def test_an_append_whose_reply_was_lost_is_found_behind_an_index(store, env) -> None:
    other = node_of(store, env)
    other.create(NAME, TEXT)
    node = node_of(Hidden(store, lambda: [append(other, b"x") for _ in range(6)]), env)
    assert append(node, b"mine").offset.endswith("_0000000000000004")
    assert other.read_from(NAME).body == b"minexxxxxx"


def test_a_key_says_what_it_is() -> None:
    manifest = Manifest(NAME, "i", 1, TEXT.content_type, 0)
    for segment in (Segment(1, 2, 3, ""), Segment(4, 5, 6, "", 128)):
        place = parse_key(manifest.key_of(segment))
        assert place is not None
        found = (place.incarnation, place.owner, place.start, place.count)
        assert found == ("i", segment.owner, segment.start, segment.count)
