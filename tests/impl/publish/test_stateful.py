"""Random writers, crashes, lost and late requests, recovery, cleanup compared with the oracle of whole plans.

After every step the whole chain is walked: each manifest must show exactly what the oracle makes of the one
before and the one plan that it names. An acknowledged plan is in it once; a refused plan never is.
"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from fencepost.impl.publish import (
    Catalog,
    HeadAhead,
    Published,
    PublishError,
    Unknown,
    tables,
)
from fencepost.impl.store.layers import Effect, Fault, Faulty

from .oracle import Refused, Step, Tables, after, orphans
from .scripted import PERSON, Crashed, Scripted, graph, without

STEPS = st.lists(
    st.builds(
        Step,
        verb=st.sampled_from(["append", "upsert", "upsert", "overwrite", "delete"]),
        table=st.sampled_from(["person", "place", "knows"]),
        key=st.integers(1, 3),
        a=st.integers(0, 3),
        b=st.integers(0, 3),
    ),
    min_size=1,
    max_size=3,
)
FAMILIES = ["recovery/", "table/", "branch/main/manifest/", "data/"]
CRASHES = ["crash-before", "crash-after", "crash-amid"]
MEETINGS = ["takeover", "visit", "collected"]
FAULTS = st.sampled_from(
    ["none", "none", *CRASHES, "reply_lost", "late", "request_lost", "rival", "rival", *MEETINGS]
)
WRITERS_MAX = 3


@pytest.fixture(autouse=True)
def _runs_merged_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histories are short here, and they shall include merged runs."""
    monkeypatch.setattr(tables, "FAN_IN", 2)


class Writer:
    """One handle, and the faults that can be injected into it."""

    def __init__(self, inner: Any, mode: str, name: str) -> None:
        self.faults: list[Fault] = []
        self.faulty = Faulty(inner, ())
        self.script = Scripted(self.faulty)
        self.catalog = Catalog.open(self.script, mode=mode, author=name)

    def arm(self, effect: Effect, family: str) -> None:
        self.faulty.inject([Fault(effect, kinds={"put"}, prefix=family, times=1, delay=10**6)])


class Publishing(RuleBasedStateMachine):
    """See the top of this module."""

    @initialize()
    def found(self) -> None:
        self.store = graph()
        self.writers: list[Writer] = []
        self.lost: list[Writer] = []
        """Writers that died: their late requests may still land."""
        self.drafts: dict[str, list[Step]] = {}
        self.acknowledged: set[str] = set()
        self.refused: set[str] = set()
        self.undone: set[str] = set()
        self.seen: dict[str, int] = {}
        self.expected: Tables = {"person": {row["id"]: row for row in PERSON}, "place": {}, "knows": {}}
        self.reader = Catalog.open(self.store, mode="read")
        self.walked = self.reader.manifest.id

    # The chain against the oracle.

    @invariant()
    def chain_is_a_sequence_of_whole_plans(self) -> None:
        if not hasattr(self, "reader"):
            return
        latest = self.reader.refresh()
        for number in range(self.walked + 1, latest.id + 1):
            manifest = self.reader.snapshot(number).manifest
            steps = self.drafts.get(manifest.message) if manifest.kind == "publish" else None
            if steps is not None:
                assert manifest.message not in self.seen, "published twice"
                self.seen[manifest.message] = number
                self.expected = after(self.expected, steps)
        self.walked = latest.id
        found = {
            name: {row["id"]: row for row in rows} for name, rows in self.reader.snapshot().load().items()
        }
        assert found == self.expected
        assert not orphans(found)
        assert self.acknowledged <= self.seen.keys(), "acknowledged and not there"
        assert not self.refused & self.seen.keys(), "refused and yet there"

    # The rules.

    @rule(mode=st.sampled_from(["claim", "join", "join"]))
    def open_writer(self, mode: str) -> None:
        if len(self.writers) < WRITERS_MAX:
            self.writers.append(Writer(self.store, mode, f"w{len(self.writers)}"))

    @precondition(lambda self: self.writers)
    @rule(
        at=st.integers(0, 9),
        steps=STEPS,
        fault=FAULTS,
        family=st.sampled_from(FAMILIES),
        rival=STEPS,
        fresh=st.booleans(),
    )
    def publish(
        self, at: int, steps: list[Step], fault: str, family: str, rival: list[Step], fresh: bool
    ) -> None:
        writer = self.writers[at % len(self.writers)]
        others = [other for other in self.writers if other is not writer]
        match fault:
            case "crash-before":
                writer.script.crash_before("put", family)
            case "crash-after":
                writer.script.crash_after("put", family)
            case "crash-amid":
                writer.script.crash_amid("put", family)
            case "rival" if others:
                writer.script.before("put", family, lambda: self._publish(others[0], rival, fresh=True))
            case "takeover":
                writer.script.before("put", family, lambda: self.open_writer("claim"))
            case "visit":  # another process opens before the heads, and the writer crashes after them
                writer.script.before("put", "table/", lambda: self.open_writer("join"))
                writer.script.crash_before("put", "branch/main/manifest/")
            case "collected" if others:
                writer.script.before("put", family, lambda: self._overtake(others[0], rival))
            case "reply_lost" | "late" | "request_lost":
                writer.arm(Effect(fault), family)
        try:
            self._publish(writer, steps, fresh)
        except Crashed:
            self.writers.remove(writer)
            self.lost.append(writer)
        writer.script._hooks.clear()

    def _publish(self, writer: Writer, steps: list[Step], fresh: bool) -> None:
        name = f"plan {len(self.drafts)}"
        self.drafts[name] = steps
        catalog = writer.catalog
        fenced = Catalog.open(self.store, mode="read").manifest.epoch > catalog.epoch
        try:
            if fresh:
                catalog.refresh()
            draft = catalog.draft(name)
            for step in steps:
                step.onto(draft)
            result = catalog.publish(draft)
        except HeadAhead:
            raise  # no run with all safeguards raises this
        except PublishError:
            self.refused.add(name)
        else:
            if isinstance(result, Published):
                assert not fenced, "a writer went on after a claim that it could see"
                self.acknowledged.add(name)
            else:
                assert isinstance(result, Unknown)

    def _overtake(self, writer: Writer, steps: list[Step]) -> None:
        """Others commit, and the ids that the stalled writer is after are cleaned up."""
        for _ in range(2):
            self._publish(writer, steps, fresh=True)
        self.chain_is_a_sequence_of_whole_plans()
        with suppress(PublishError):
            writer.catalog.cleanup(1)

    @precondition(lambda self: self.writers)
    @rule(at=st.integers(0, 9), fault=st.sampled_from(CRASHES), family=st.sampled_from(FAMILIES[1:3]))
    def die_between_tables(self, at: int, fault: str, family: str) -> None:
        """Two tables are touched, and the process crashes between them."""
        steps = [Step("upsert", "person", 1, 5, len(self.drafts)), Step("upsert", "place", 1, 5, 5)]
        self.publish(at, steps, fault, family, [], True)

    @precondition(lambda self: self.writers)
    @rule(at=st.integers(0, 9), steps=STEPS)
    def publish_calmly(self, at: int, steps: list[Step]) -> None:
        self.publish(at, steps, "none", "", [], True)

    @precondition(lambda self: self.writers)
    @rule(at=st.integers(0, 9))
    def recover(self, at: int) -> None:
        self._maintenance(at, lambda catalog: catalog.recover())

    @precondition(lambda self: self.writers)
    @rule(at=st.integers(0, 9), keep=st.integers(1, 4))
    def cleanup(self, at: int, keep: int) -> None:
        self._maintenance(at, lambda catalog: catalog.cleanup(keep))

    @precondition(lambda self: self.writers)
    @rule(at=st.integers(0, 9), table=st.sampled_from(["person", "place", "knows"]))
    def compact(self, at: int, table: str) -> None:
        self._maintenance(at, lambda catalog: catalog.compact(table))

    def _maintenance(self, at: int, act: Any) -> None:
        try:
            act(self.writers[at % len(self.writers)].catalog)
        except HeadAhead:
            raise
        except PublishError:
            pass

    @rule()
    def let_time_pass(self) -> None:
        self.store.env.sleep(100)

    @rule()
    def late_requests_land(self) -> None:
        for writer in [*self.writers, *self.lost]:
            writer.faulty.land_all()

    def teardown(self) -> None:
        """In every final state a new writer can write every table without a restart of the others."""
        if not hasattr(self, "store"):
            return
        self.late_requests_land()
        healer = Catalog.open(self.store, mode="claim", author="healer")
        assert all(notice.done != "left" for notice in healer.notices)
        self.late_requests_land()
        row, edge = {"id": 9, "name": "9"}, {"id": 9, "a": 9, "b": 9}
        with healer.transaction("heal") as txn:
            txn.upsert("person", [row])
            txn.upsert("place", [row])
            txn.upsert("knows", [edge])
        self.reader.refresh()
        tables = self.reader.snapshot().load()
        assert row in tables["person"]
        assert row in tables["place"]
        assert edge in tables["knows"]


def test_the_oracle_refuses_orphans() -> None:
    """The oracle can fail: a chain with an orphan edge cannot pass."""
    try:
        after({"person": {}, "place": {}, "knows": {}}, [Step("append", "knows", 1, 1, 0)])
    except Refused:
        return
    raise AssertionError("the oracle accepted an edge to a missing row")


CAUGHT = [
    "create-only-manifest",
    "sidecar-before-heads",
    "whole-plan-in-sidecar",
    "epoch-check",
    "inbound-check-on-removal",
    "read-back-on-unknown",
    "late-head",
]
"""Mutants that random runs find soon. The others need three processes: test_safeguards.py scripts them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT)
def test_the_machine_catches_mutants(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that passes for mutants would test nothing."""
    original = Catalog.open

    def mutated(store: Any, **options: Any) -> Catalog:
        return original(store, **{"safeguards": without(name), **options})

    monkeypatch.setattr(Catalog, "open", staticmethod(mutated))
    found = settings(max_examples=2000, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises((AssertionError, Refused, PublishError)):
        run_state_machine_as_test(Publishing, settings=found)


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=50, stateful_step_count=30)
