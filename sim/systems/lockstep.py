"""Lockstep: the model follows a run of the real code, and an event that it does not allow is a failure.

A system gives its refinement, its trace fields and what its notes mean. One automaton serves all runs of a
kind, so a step that some run has taken is a look-up. See docs/guides/write-a-refinement-map.md.
"""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any, Generic, TypeVar

from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.requests import Outcome
from fencepost.properties.refinement import Automaton, Driven, EventRow, Follower, Reader, Refinement, Verdict
from fencepost.sim.world import World
from fencepost.sim.world.declaring import Declaring

FIELDS_MAX = 50_000
"""Bodies whose trace fields are cached: an audit writes the same few many thousand times."""
KINDS = ("put", "delete", "complete-upload")
"""Requests that a map can read an action from."""

ONE_RUN = "run"

K = TypeVar("K", bound=Hashable)
Fields = Callable[[str, bytes], str]
Note = Callable[[str, Any], tuple[str, str, str] | None]
"""Outcome, fields and run of what a process noted under a topic; None for notes of no meaning."""
RunOf = Callable[[str, str], str]
"""The run that an event belongs to, by its key and fields; empty for none."""


class Readers(Generic[K]):
    """The event readers of each kind of run, and the transitions that they drove so far."""

    def __init__(self, refinement: Callable[[K], Refinement], covering: Callable[[], Refinement]) -> None:
        """`covering` returns the map into the observed machine at the bound at which coverage is counted."""
        self._refinement = refinement
        self._covering = covering
        self._readers: dict[K, Reader] = {}

    def of(self, kind: K) -> Reader:
        if kind not in self._readers:
            self._readers[kind] = Reader(Automaton(self._refinement(kind)))
        return self._readers[kind]

    def kinds(self) -> tuple[K, ...]:
        """The kinds of runs that were followed, in the order of their first run."""
        return tuple(self._readers)

    def driven(self) -> dict[str, Any]:
        """The share of the observed machine's transitions that runs of this process drove so far."""
        driven = Driven(Automaton(self._covering()))
        for reader in self._readers.values():
            for run in reader.runs():
                driven.drive(run)
        return {"model": driven.share()} if driven.runs else {}


class Lockstep:
    """Follows one run of a world, or several that share it. `findings` takes what the model has no room
    for."""

    def __init__(
        self,
        reader: Reader,
        findings: list[str],
        fields: Fields,
        note: Note,
        *,
        run_of: RunOf | None = None,
        deletes_all_versions: bool = False,
    ) -> None:
        """Without `run_of` all events are one run. With `deletes_all_versions` a delete that names no version
        leaves none, and its fields show that.
        """
        self.findings = findings
        self.followers: dict[str, Follower] = {}
        self._reader = reader
        self._fields = fields
        self._note = note
        self._run_of = run_of or (lambda _key, _fields: ONE_RUN)
        self._deletes_all_versions = deletes_all_versions
        if run_of is None:
            self.follower(ONE_RUN)

    def follower(self, run: str) -> Follower:
        if run not in self.followers:
            self.followers[run] = Follower(self._reader)
        return self.followers[run]

    def before(self, key: str, body: bytes) -> None:
        """An object that was there before the run."""
        self._landed("before", 0, "put", key, "absent", Outcome.DONE.value, self._fields(key, body))

    def landed(self, process: str, incarnation: int, request: Any, reply: Any) -> str | None:
        outcome = getattr(reply, "outcome", None)
        if request.kind not in KINDS or not isinstance(outcome, Outcome):
            return None
        condition = type(request.when).__name__.lower()
        fields = self._fields(request.key, request.body) if request.kind == "put" else ""
        if self._deletes_all_versions and request.kind == "delete" and not request.version:
            fields = "what=everything"
        return self._landed(process, incarnation, request.kind, request.key, condition, outcome.value, fields)

    def noted(self, process: str, incarnation: int, topic: str, value: Any) -> str | None:
        note = self._note(topic, value)
        if note is None:
            return None
        outcome, fields, run = note
        return self.see(topic, outcome, fields, run, process, incarnation)

    def see(
        self,
        topic: str,
        outcome: str,
        fields: str,
        run: str = ONE_RUN,
        process: str = "",
        incarnation: int = 0,
    ) -> str | None:
        """Something that the map reads as a note."""
        return self._see(run, ("note", "note", topic, "", outcome, fields), process, incarnation)

    def state(self) -> Any:
        return tuple((run, one.state()) for run, one in sorted(self.followers.items()))

    def _landed(
        self, process: str, incarnation: int, kind: str, key: str, condition: str, outcome: str, fields: str
    ) -> str | None:
        run = self._run_of(key, fields)
        row = ("landed", kind, key, condition, outcome, fields)
        return self._see(run, row, process, incarnation) if run else None

    def _see(self, run: str, row: EventRow, process: str, incarnation: int) -> str | None:
        return _violation(self.follower(run).see(row, process, incarnation), self.findings)


def _violation(verdict: Verdict | None, findings: list[str]) -> str | None:
    if verdict is None:
        return None
    if verdict.verdict != "violated":
        findings.append(f"lockstep: {verdict.reason}, so the run was not followed to its end")
        return None
    assert verdict.explanation is not None
    return "\n".join([f"the model does not allow this. {verdict.reason}", *verdict.explanation.lines()])


def cached(fields: Fields) -> Fields:
    """The trace fields of a body, computed once."""
    return lru_cache(FIELDS_MAX)(fields)


def prepare_world(
    world: Declaring, fields: Fields, readers: Readers[Any], *, lockstep: str, coverage: str
) -> bool:
    """Have traces and coverage written as the parameters say; whether the model follows the runs."""
    if {lockstep, coverage} - {"on", "off"}:
        raise Misuse("lockstep is on or off, and so is coverage")
    if isinstance(world, World):
        world.show_bodies(fields)  # so that a trace that is written can be replayed
        if coverage == "on":
            world.report(readers.driven)
    return lockstep == "on"
