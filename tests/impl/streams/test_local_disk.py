"""Durability `local`: what a node has committed to its disk is uploaded, whatever happened in between."""

import asyncio

import pytest

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.metrics import Metrics
from fencepost.impl.store import Unusable
from fencepost.impl.streams import Durability, MemoryState, Node, Record, SqliteState
from fencepost.impl.streams.app import StreamServer
from fencepost.impl.streams.background import Background
from tests.fuzzing.connection import Wire

from .nodes import NAME, TEXT, node_of


def local_node(store, env, state) -> Node:
    return node_of(store, env, state, durability=Durability.LOCAL, sweep_s=0.0)


def test_records_that_an_earlier_owner_accepted_do_not_hide_later_ones(store, env, tmp_path) -> None:
    """What another node's takeover left on the disk has gone when the next append is committed there."""
    for state in (MemoryState(), SqliteState(tmp_path)):
        name = f"/{type(state).__name__}"
        one, two = local_node(store, env, state), node_of(store, env)
        one.create(name, TEXT)
        for body in (b"aaa", b"bbb", b"ccc"):
            one.append(name, body, content_type="text/plain")
        two.append(name, b"them", content_type="text/plain")
        one.load(one.stream(name))
        one.append(name, b"kept", content_type="text/plain")
        again = local_node(store, env, state)
        again.own(again.stream(name))
        again.flush(again.stream(name))
        found = two.read_from(name)
        assert found.body == b"themkept"
        assert again.state.waiting() == []
        state.close()


def test_a_full_disk_is_one_error_and_leaves_no_transaction_behind(store, env, tmp_path) -> None:
    """The transaction stayed open, so that every later append failed, even once there was room again."""
    state = SqliteState(tmp_path)
    node = local_node(store, env, state)
    node.create(NAME, TEXT)
    ((pages,),) = state._base.execute("pragma page_count").fetchall()
    state._base.execute(f"pragma max_page_count = {pages}")
    for _ in range(3):
        with pytest.raises(Unusable, match=r"database or disk is full.*check its disk"):
            state.add(NAME, "one", 1, [Record(0, b"x" * 100_000)])
    assert state.records(NAME, "one") == (0, [])
    state._base.execute("pragma max_page_count = 1000000")
    node.append(NAME, b"kept", content_type="text/plain")
    again = local_node(store, env, state)
    again.own(again.stream(NAME))
    again.flush(again.stream(NAME))
    assert again.read_from(NAME).body == b"kept"
    state.close()


def test_a_full_disk_is_answered_503_with_one_line_in_the_log(store, env, tmp_path, caplog) -> None:
    state = SqliteState(tmp_path)
    node = local_node(store, env, state)
    node.create(NAME, TEXT)
    ((pages,),) = state._base.execute("pragma page_count").fetchall()
    state._base.execute(f"pragma max_page_count = {pages}")
    server = StreamServer(node, limits=Limits())
    body = b"x" * 100_000
    head = b"POST %s HTTP/1.1\r\nhost: h\r\ncontent-type: text/plain\r\n" % NAME.encode()
    sent = head + b"content-length: %d\r\n\r\n" % len(body) + body
    answer = asyncio.run(Wire(server).send(sent, b"POST"))
    assert answer.status == 503
    assert answer.header("retry-after")
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert line.exc_info is None
    assert "disk is full" in line.getMessage()
    server.close()
    state.close()


def test_records_survive_an_owner_that_published_nothing(store, env) -> None:
    state = MemoryState()
    node, other = local_node(store, env, state), node_of(store, env)
    node.create(NAME, TEXT)
    node.append(NAME, b"kept", content_type="text/plain")
    other.own(other.stream(NAME))
    again = local_node(store, env, state)
    again.own(again.stream(NAME))
    again.flush(again.stream(NAME))
    assert other.read_from(NAME).body == b"kept"


@pytest.mark.parametrize("durability", Durability)
def test_a_server_uploads_what_an_earlier_run_committed(store, env, durability) -> None:
    """Without an append of that stream, and also after an upload that failed."""
    state = MemoryState()
    before = local_node(store, env, state)
    before.create(NAME, TEXT)
    before.append(NAME, b"kept", content_type="text/plain")
    after = node_of(store, env, state, durability=durability, sweep_s=0.0)
    Background(after, Metrics()).close()
    assert node_of(store, env).read_from(NAME).body == b"kept"
    assert state.waiting() == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_commit_forgets_what_another_owner_or_incarnation_accepted(kind, tmp_path) -> None:
    state = MemoryState() if kind == "memory" else SqliteState(tmp_path)
    state.add("n", "i", 1, [Record(0, b"a"), Record(1, b"b")])
    state.add("other", "i", 1, [Record(0, b"a")])
    state.add("n", "i", 2, [Record(1, b"c")])
    assert state.records("n", "i") == (2, [Record(1, b"c")])
    state.add("n", "j", 1, [Record(0, b"d")])
    assert (state.records("n", "i"), state.records("n", "j")) == ((0, []), (1, [Record(0, b"d")]))
    assert state.waiting() == ["n", "other"]
    state.close()
