"""A write path that is only described: its steps, and how they grow with the history behind it.

A *counter* is something that grows with every operation and that maintenance takes away again: versions of a
table, fragments of a file, objects that wait to be reconciled. A step says how many requests it sends, as
arithmetic over counters and parameters, and whether they wait for one another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.impl.store.requests import Outcome, Reply
from fencepost.sim.des.expressions import Expression

READS = frozenset({"get", "head", "list", "list-versions", "list-uploads"})
WRITES = frozenset({"put", "delete", "create-upload", "upload-part", "complete-upload", "abort-upload"})


@dataclass(frozen=True, slots=True)
class Nominal:
    """A request of a described path: it takes time and capacity, and every store answers `done`.

    It has the interface of a `Request` and is none, so that no protocol code can send it.
    """

    kind: str
    key: str
    size: int
    """Bytes in its body: sent by a write, received by a read."""
    reads: bool

    @property
    def subject(self) -> str:
        return self.key

    def ends(self, outcome: Outcome, detail: str = "") -> Reply:
        return Reply(outcome, detail)


def nominal(kind: str, key: str, size: int = 0) -> Nominal:
    return Nominal(kind, key, size, kind in READS)


@dataclass(frozen=True, slots=True)
class Contended(Nominal):
    """A request to a key that all writers share, of which the store knows the version.

    `versions` is the store's: how often each key was written. A read notes the version that it found where it
    landed, in `known`, the writer's own. A conditional write is done if that is still the version when it
    lands; otherwise it is refused.
    """

    when: str = ""
    versions: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)

    def land(self) -> Reply:
        version = self.versions.get(self.key, 0)
        if self.reads:
            self.known[self.key] = version
            return Reply(Outcome.DONE)
        if self.when and self.known.get(self.key) != version:
            return Reply(Outcome.EXISTS if self.when == "absent" else Outcome.CHANGED)
        self.versions[self.key] = version + 1
        return Reply(Outcome.DONE)


NAMES = frozenset({"depth", "batch", "history"})
"""Names in expressions besides counters and parameters: operations before the run began; operations that
are committed together; operations that ended so far, those before the run included."""


ONE = Expression("1")
DEPTH = Expression("depth")


@dataclass(frozen=True, slots=True)
class Step:
    """So many requests of one kind, and what is computed before them."""

    name: str
    kind: str = "get"
    count: Expression = ONE
    parallel: bool = False
    """At once, instead of one after another."""
    repeat: Expression = ONE
    """The whole step so often, one time after the other."""
    beside: bool = False
    """Together with the parallel step before it."""
    size: int = 0
    compute_ns: int = 0
    parts: tuple[str, ...] = ()
    """Names under which its requests are counted; its own name when there are none."""
    prefix: str = ""
    """Where its keys are, for limits by prefix."""
    key: str = ""
    """A key that all writers share: reads note its version, conditional writes contend for it."""
    when: str = ""
    """Of a write: `absent` creates the next key of a sequence, `match` replaces what was read."""

    @property
    def counted(self) -> tuple[str, ...]:
        return self.parts or (self.name,)


@dataclass(frozen=True, slots=True)
class Counter:
    """Something that grows."""

    starts: Expression = DEPTH
    grows: Expression = ONE
    """With every operation that succeeded."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Work beside the operations, every so many of them or every so often."""

    steps: tuple[Step, ...] = ()
    takes: dict[str, Expression] = field(default_factory=dict)
    """Amount that it takes off each counter: computed when it begins, subtracted when it has ended."""
    every: int | None = None
    """Operations between two runs."""
    every_ns: int | None = None
    """Or time: from the beginning of one run to that of the next, which waits for the end of the last."""


@dataclass(frozen=True, slots=True)
class Path:
    """A described write path."""

    name: str
    operation: str = "write"
    parameters: dict[str, float] = field(default_factory=dict)
    counters: dict[str, Counter] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    others: dict[str, tuple[Step, ...]] = field(default_factory=dict)
    """Steps of further operations, by name."""
    origins: dict[str, str] = field(default_factory=dict)
    """Where the number of a parameter comes from, by the parameter's name."""
    maintenance: dict[str, Maintenance] = field(default_factory=dict)
    compute_per_request_ns: int = 0
    attempts: int = 1000
    """Of an operation whose conditional writes are refused; it begins again from its first step."""
    pause_ns: int = 0
    """Before it begins again: a random time up to twice this."""

    def values(
        self, depth: int, parameters: Mapping[str, float], counters: Mapping[str, float]
    ) -> dict[str, float]:
        """Return what the names in expressions stand for as a run begins."""
        found = {
            **self.parameters,
            **parameters,
            "depth": float(depth),
            "history": float(depth),
            "batch": 1.0,
        }
        for name, counter in self.counters.items():
            given = counters.get(name)
            found[name] = counter.starts.value(found) if given is None else given
        return found

    def steps_of(self, operation: str) -> tuple[Step, ...]:
        """Return the steps of the operation of this name."""
        return self.others.get(operation, self.steps)
