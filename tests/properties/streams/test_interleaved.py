"""Threads of one node share its memory: no order of them loses an append that was acknowledged."""

import pytest

from fencepost.impl.streams.appends import Appends
from fencepost.impl.streams.stream import Accepted, Stream
from tests.properties.streams.interleaved import SITUATIONS, Clients, SharedNode
from tests.properties.streams.interleaving import Deadlock, Lock, Order, Threads, every_order


class ByLength(Appends):
    """Appends whose flush takes a stream that is long enough for one that lists what it accepted."""

    def flush(self, stream: Stream, accepted: Accepted | None = None) -> None:
        with stream.flushing:
            manifest = stream.manifest
            if accepted is not None and manifest is not None and manifest.tail >= accepted.end:
                return
        super().flush(stream, accepted)


class BrokenNode(SharedNode):
    def __post_init__(self) -> None:
        super().__post_init__()
        appends = ByLength(self)
        self.append, self.own, self.flush = appends.append, appends.own, appends.flush


def explored(situation: str, kind: type[SharedNode] = SharedNode, **bound: int) -> tuple[int, list[str]]:
    """The most appends that were acknowledged in one order, and what the first bad order shows."""
    most = 0
    for order in every_order(**bound):
        clients = Clients.run(order, SITUATIONS[situation], kind)
        if found := clients.findings():
            return most, found
        most = max(most, len(clients.acknowledged))
    return most, []


ACKNOWLEDGED = {"appends": 3, "resends": 2, "closing": 3, "creations": 2, "deletion": 2}
"""At most, in one order: of two appends with one number one is a duplicate, and one name is created once."""


@pytest.mark.parametrize("situation", SITUATIONS)
def test_no_order_with_one_switch_loses_an_append(situation) -> None:
    assert explored(situation, switches=1) == (ACKNOWLEDGED[situation], [])


def test_an_append_that_is_acknowledged_by_the_length_of_the_stream_is_found() -> None:
    _, found = explored("appends", BrokenNode, switches=1)
    assert any(text.startswith("append_once") for text in found)


def test_threads_that_wait_for_each_other_are_found() -> None:
    def take(first: Lock, second: Lock) -> None:
        with first, second:
            pass

    def run(order: Order) -> str:
        threads = Threads(order)
        one, two = threads.lock(), threads.lock()
        threads.start(take, one, two)
        threads.start(take, two, one)
        try:
            threads.run()
        except Deadlock as error:
            return str(error)
        return ""

    assert {run(order) for order in every_order(switches=1)} == {"", "2 threads wait for each other"}


@pytest.mark.slow
@pytest.mark.parametrize("bound", [{"switches": 2}, {"switches": 1, "lost": 1}])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_no_order_with_two_switches_or_a_lost_reply_loses_an_append(situation, bound) -> None:
    assert explored(situation, **bound)[1] == []
