"""Latency, requests and serial hops of operations, by the operation's name.

An actor is one thread of control, whose steps a `Tally` counts. That is the critical path that
`impl.store.layers.Metered` finds in its graph of happens-before, counted instead of searched
(tests/sim/des/test_theory.py compares the two).
"""

from array import array
from collections import Counter

from fencepost.impl.store.layers.metered import Tally


class Operation(Tally):
    """One operation that is under way."""

    __slots__ = ("began_ns", "bytes_received", "bytes_sent", "name", "retries")

    def __init__(self, name: str, began_ns: int) -> None:
        super().__init__()
        self.name = name
        self.began_ns = began_ns
        self.bytes_sent = 0
        self.bytes_received = 0
        self.retries = 0


class Samples:
    """The finished operations of one name, in the order in which they ended."""

    __slots__ = ("bytes_received", "bytes_sent", "ended_ns", "hops", "latency_ns", "requests", "retries")

    def __init__(self) -> None:
        self.latency_ns = array("q")
        self.ended_ns = array("q")
        self.requests = array("q")
        self.hops = array("q")
        self.bytes_sent = 0
        self.bytes_received = 0
        self.retries = 0


class Meter:
    """All operations of a run. Names that ended badly are counted in `failed`, by name and why."""

    def __init__(self) -> None:
        self.samples: dict[str, Samples] = {}
        self.failed: Counter[tuple[str, str]] = Counter()
        self.begun = 0

    def done(self, operation: Operation, now_ns: int) -> None:
        samples = self.samples.get(operation.name)
        if samples is None:
            samples = self.samples[operation.name] = Samples()
        samples.latency_ns.append(now_ns - operation.began_ns)
        samples.ended_ns.append(now_ns)
        samples.requests.append(operation.requests)
        samples.hops.append(operation.hops)
        samples.bytes_sent += operation.bytes_sent
        samples.bytes_received += operation.bytes_received
        samples.retries += operation.retries
