"""Threads of one node of streams, audited: no thread may lose what another published.

A swap is decided on the manifest that the node knows, and sent with an ETag. Where the ETag is that of a
later manifest, which another thread published, the store accepts it, and the change of the other is lost.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.streams import Node
from fencepost.sim.explore import ReducedSearch, Setting
from fencepost.sim.world import NO_FAULTS, World
from tests.impl.streams.nodes import NAME, TEXT, append, everything, node_of

BODY = b"added"


def node_of_two_threads(world: World) -> None:
    """One appends, the other changes the manifest in another way; then a new node reads."""
    world.configure(ticks=0)
    store = world.store()
    node_of(store, world.env).create(NAME, TEXT)

    def serve() -> None:
        node = node_of(store, world.env)
        node.own(node.stream(NAME))
        appends = threading.Thread(target=append, args=(node, BODY))
        appends.start()
        node.update(node.stream(NAME), lambda found: replace(found, stream_seq="x"))
        appends.join()
        reader = node_of(store, world.env)
        body = everything(reader)
        world.note("left", (body, reader.stream(NAME).manifest.stream_seq))

    world.spawn(serve, name="node")
    world.always("both changes stay", lambda view: all(left == (BODY, "x") for left in view.notes("left")))


def with_the_etag_of_now(update: Any) -> Callable[..., Any]:
    """The loss as it was: the condition names what the node knows when the swap is sent."""

    def broken(self: Any, stream: Any, change: Any, condition: Any = None) -> Any:
        def latest(_etag: str) -> Any:
            return given(stream.known.etag)

        given = condition or update.__defaults__[0]
        return update(self, stream, change, latest)

    return broken


def test_a_swap_with_the_etag_of_another_manifest_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is seen only by a search that looks at the objects of libraries, which the threads share."""
    monkeypatch.setattr(Node, "update", with_the_etag_of_now(Node.update))
    search = ReducedSearch(Setting(node_of_two_threads, NO_FAULTS))
    search.explore(lambda found: found.runs >= 1_000)
    assert [failure.violation.name for failure in search.failures] == ["both changes stay"]


@pytest.mark.slow
def test_no_order_of_two_threads_of_a_node_loses_a_change() -> None:
    search = ReducedSearch(Setting(node_of_two_threads, NO_FAULTS))
    search.explore(lambda found: found.runs >= 2_000)
    assert not search.failures
    assert not search.cut
