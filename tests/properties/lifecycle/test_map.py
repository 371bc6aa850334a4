"""The map of lifecycles: it allows every run of a worker, and refuses steps that no worker takes."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Put, R, Request
from fencepost.properties import refinement
from fencepost.properties.lifecycle.refinement import LifecycleRefinement
from fencepost.properties.refinement import Automaton
from tests.impl.lifecycle.history import Faults, History
from tests.properties.ingest.shown_events import follow

AUTOMATON = Automaton(LifecycleRefinement(streams=20, items=6, whole=1))
ANY_PART = Automaton(LifecycleRefinement(streams=20, items=6))
FOLDER = "lifecycle/v1/"
Row = tuple[str, str, str, str, str, str]


class Shown(MemoryStore):
    """A store that keeps what a trace shows of its changes."""

    def __init__(self) -> None:
        super().__init__(env=SeededEnvironment(1))
        self.rows: list[Row] = []

    def send(self, request: Request[R]) -> R:
        reply = super().send(request)
        if request.kind in ("put", "delete"):
            fields = trace_fields(request.key, request.body) if isinstance(request, Put) else ""
            condition = type(request.when).__name__.lower()
            self.rows.append(("landed", request.kind, request.key, condition, reply.outcome.value, fields))
        return reply


@pytest.mark.parametrize("options", [{}, {"pending_max": 0}, {"losses": True}])
def test_every_random_history_is_allowed(options: dict[str, Any]) -> None:
    """With crashes at any request, users, races; with what is lost, and where nothing may be pending."""
    for seed in range(2):
        history = History(seed, Faults(crash=0.01, fail=0.01, act=0.005, race=0.3), **options)
        history.store = store = Shown()
        history.run(15)
        assert follow(AUTOMATON, store.rows) is None, seed
        assert len(store.rows) > 30
        for start in range(1, len(store.rows), len(store.rows) // 4):
            assert follow(ANY_PART, store.rows[start:]) is None, (seed, start)


def cursor(condition: str = "matches", **fields: Any) -> Row:
    """A write of a cursor; without a condition in `fields` it is the first save of what `NAMED` created."""
    shown = {
        "serves": 1,
        "names": "a",
        "position": "0007",
        "reach": 7,
        "generation": 1,
        "epoch": 0,
        "leased": 0,
        "stream": "cursor-x",
        "revision": 2,
        **fields,
    }
    return put("cursors/near/x.json", condition, **shown)


def bucket(condition: str = "matches", **fields: Any) -> Row:
    """A write of a record; without fields it is the end of the walk `WALK`, which leaves nothing driven."""
    shown = {"walk": 0, "beginning": 0, "driven": 0, "drives": "", "epoch": 0, "revision": 2, **fields}
    return put("buckets/b.json", condition, **shown)


def walk(condition: str = "matches", **fields: Any) -> Row:
    shown = {"walk": 1, "beginning": 1, "begins": "a", "began": 5, "left": "9", **fields}
    return bucket(condition, **shown)


def retry(condition: str = "matches", **fields: Any) -> Row:
    return put("retries/cursor-x.json", condition, **{"tries": 1, "failing": "0008", "revision": 1, **fields})


def blocker(**fields: Any) -> Row:
    return put("blockers/cursor-x.json", "absent", **{"blocked": "0008", **fields})


def put(key: str, condition: str, **fields: Any) -> Row:
    shown = " ".join(f"{name}={value}" for name, value in fields.items() if value != "")
    return "landed", "put", FOLDER + key, condition, "done", shown


def delete(key: str) -> Row:
    return "landed", "delete", FOLDER + key, "anything", "done", ""


WALK = walk("absent", revision=1)
NAMED = cursor("absent", position="0004", reach=4, revision=1)
BEGUN = (WALK, NAMED, bucket(driven=1, drives="a"))
SAVED = cursor()
FAILED = (retry("absent"), retry(tries=2, revision=2))
BLOCKED = (*FAILED, blocker(), delete("retries/cursor-x.json"))

ALLOWED: dict[str, tuple[Row, ...]] = {
    "it begins, is saved, and forgets": (
        *BEGUN,
        SAVED,
        cursor(serves=0, names="", generation=2, revision=3),
    ),
    "a walk goes on, and ends": (WALK, walk(left="09", revision=2), walk(left="08", revision=3), NAMED),
    "a walk begins anew": (WALK, walk(left="09", revision=2), walk(began=6, revision=3)),
    "another action begins, and the cursor is moved back": (
        *BEGUN,
        SAVED,
        walk(begins="b", began=8, driven=1, drives="a", revision=3),
        cursor(serves=2, names="ab", position="0006", reach=6, generation=2, revision=3),
        bucket(driven=2, drives="ab", revision=4),
    ),
    "a worker of a higher epoch takes the cursor over": (
        *BEGUN,
        cursor(position="0004", reach=4, generation=2, epoch=3, leased=1),
        cursor(generation=2, epoch=3, leased=1, revision=3),
    ),
    "a cursor is removed, and its shard returns": (
        *BEGUN,
        delete("cursors/near/x.json"),
        cursor("absent", revision=1, generation=1, reach=9),
    ),
    "an item fails, is blocked, given up, and passed": (
        *BEGUN,
        SAVED,
        *BLOCKED,
        put("quarantine/cursor-x/0008.json", "absent", revision=1),
        delete("blockers/cursor-x.json"),
        cursor(position="0008", revision=3),
    ),
    "an operator retries a blocked item, with success": (
        *BEGUN,
        SAVED,
        *BLOCKED,
        cursor(position="0008", revision=3),
        delete("blockers/cursor-x.json"),
    ),
    "another item fails": (*FAILED, retry(failing="0009", revision=3)),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_what_workers_do_is_allowed(what: str) -> None:
    assert follow(AUTOMATON, ALLOWED[what]) is None
    for start in range(len(ALLOWED[what])):
        assert follow(ANY_PART, ALLOWED[what][start:]) is None, start


REFUSED: dict[str, tuple[Row, ...]] = {
    "a cursor names an action that no walk begins": (NAMED,),
    "an action is driven by events before a cursor was moved back": (WALK, bucket(driven=1, drives="a")),
    "more actions are driven by events than began": (WALK, NAMED, bucket(driven=2, drives="ab")),
    "an action is driven by events again without a walk": (
        *BEGUN,
        bucket(revision=3),
        bucket(driven=1, drives="a", revision=4),
    ),
    "another action is driven by events without a walk": (*BEGUN, bucket(driven=1, drives="b", revision=3)),
    "a name is added within a generation": (*BEGUN, cursor(serves=2, names="ab")),
    "a name is lost within a generation": (*BEGUN, cursor(serves=0, names="")),
    "a name is replaced within a generation": (*BEGUN, cursor(names="b")),
    "a cursor is overwritten": (*BEGUN, cursor("anything")),
    "a cursor is created over itself": (*BEGUN, NAMED),
    "a generation is skipped": (
        *BEGUN,
        cursor(position="0004", generation=2, epoch=3, leased=1),
        cursor(position="0004", generation=2, epoch=3, leased=1, serves=0, names="", revision=3),
    ),
    "two generations are begun at once": (*BEGUN, cursor(serves=0, names="", position="0004", generation=3)),
    "a cursor goes back within a generation": (*BEGUN, cursor(position="0003")),
    "a cursor is moved on in a new generation": (*BEGUN, cursor(generation=2)),
    "a worker of a lower epoch saves": (
        *BEGUN,
        cursor(position="0004", generation=2, epoch=3, leased=1),
        cursor(generation=2, epoch=2, leased=1, revision=3),
    ),
    "a cursor begins later than the walk, less its delay": (
        WALK,
        cursor("absent", position="0004", reach=6, revision=1),
    ),
    "a cursor is moved back too little for an action that begins": (
        *BEGUN,
        cursor(position="0012", reach=12),
        walk(begins="b", began=8, driven=1, drives="a", revision=3),
        cursor(serves=2, names="ab", position="0009", reach=9, generation=2, revision=3),
    ),
    "a write of a cursor is missing": (*BEGUN, cursor(revision=3)),
    "a write of a record is missing": (WALK, NAMED, bucket(driven=1, drives="a", revision=3)),
    "a write is made twice": (*BEGUN, SAVED, SAVED),
    "a walk goes back": (WALK, walk(left="08", revision=2), walk(left="09", revision=3)),
    "an action joins a walk that is under way": (WALK, walk(beginning=2, begins="ab", left="09")),
    "a walker of a lower epoch goes on": (WALK, walk(left="09", epoch=2), walk(epoch=1, revision=3)),
    "a blocker stands without a failure": (blocker(),),
    "a blocker is of another item than the failures": (*FAILED, blocker(blocked="0009")),
    "a failure is counted again that was not counted": (retry("absent", tries=2),),
    "a failure is not counted": (*FAILED[:1], retry(tries=3, revision=2)),
    "the count goes on with another item": (*FAILED, retry(tries=3, failing="0009", revision=3)),
    "something is given up that is not blocked": (
        put("quarantine/cursor-x/0008.json", "absent", revision=1),
    ),
    "something else is given up than what is blocked": (
        *BLOCKED,
        put("quarantine/cursor-x/0009.json", "absent", revision=1),
    ),
    "a cursor passes its blocked item": (*BEGUN, SAVED, *BLOCKED, cursor(position="0009", revision=3)),
    "a write of a pending version is missing": (
        put("pending/a/1.json", "absent", revision=1),
        put("pending/a/1.json", "matches", revision=3),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_worker_does_is_refused(what: str) -> None:
    rows = list(REFUSED[what])
    assert follow(AUTOMATON, rows[:-1]) is None
    error = follow(AUTOMATON, rows)
    assert error is not None
    assert error.verdict == "violated"


IN_ANY_PART = (
    "a name is added within a generation",
    "a name is lost within a generation",
    "a name is replaced within a generation",
    "a cursor is overwritten",
    "a cursor goes back within a generation",
    "a write of a cursor is missing",
    "the count goes on with another item",
    "something else is given up than what is blocked",
)


@pytest.mark.parametrize("what", IN_ANY_PART)
def test_what_no_worker_does_is_refused_in_a_part_of_a_run_too(what: str) -> None:
    begun = BEGUN[2:] if REFUSED[what][: len(BEGUN)] == BEGUN else ()
    rest = REFUSED[what][len(BEGUN) :] if begun else REFUSED[what]
    before = [cursor(position="0004", reach=4, revision=1)] if begun else []
    error = follow(ANY_PART, [*begun, *before, *rest])
    assert error is not None
    assert error.verdict == "violated"


# Runs with errors.


def history(seed: int, rounds: int = 8) -> list[Row]:
    """The writes of a random run."""
    run = History(seed, Faults(crash=0.01, fail=0.01, act=0.005, race=0.3))
    run.store = store = Shown()
    run.run(rounds)
    return store.rows


def verdict(rows: list[Row], automaton: Automaton = AUTOMATON) -> str:
    error = follow(automaton, rows)
    return "holds" if error is None else error.verdict


def table_verdict(rows: list[Row], automaton: Automaton = AUTOMATON) -> str:
    """Of all events at once."""
    events = [
        Event("r", seq, 0, "x", 0, seq, phase, kind, key, condition, outcome=outcome, trace_fields=fields)
        for seq, (phase, kind, key, condition, outcome, fields) in enumerate(rows)
    ]
    return refinement.follow(automaton, events).verdict


HISTORIES = [history(seed) for seed in range(2)]


def merged(one: list[Row], other: list[Row]) -> list[Row]:
    longer, shorter = sorted((one, other), key=len, reverse=True)
    pairs = list(zip(longer, shorter, strict=False))
    return [row for pair in pairs for row in pair] + longer[len(shorter) :]


@pytest.mark.parametrize("automaton", [AUTOMATON, ANY_PART])
def test_a_run_that_is_reversed_or_merged_with_another_is_refused(automaton: Automaton) -> None:
    one, other = HISTORIES
    for rows in (one[::-1], other[::-1], merged(one, other)):
        assert verdict(rows, automaton) == "violated"
    for rows in (one[len(one) // 2 :][::-1], merged(one[len(one) // 2 :], other[len(other) // 2 :])):
        assert verdict(rows, ANY_PART) == "violated"


def is_write(row: Row) -> bool:
    kinds = ("cursors/", "buckets/", "retries/", "pending/")
    return row[1] == "put" and row[4] == "done" and any(kind in row[2] for kind in kinds)


@pytest.mark.parametrize("rows", HISTORIES)
def test_a_write_that_is_missing_repeated_or_late_is_refused(rows: list[Row]) -> None:
    """If a later write of the same document shows that."""
    places = [n for n, row in enumerate(rows) if is_write(row)]
    following = {n: next((m for m in places if m > n and rows[m][2] == rows[n][2]), 0) for n in places}
    known = [n for n in places if following[n] and rows[n][3] == "matches"]
    assert len(known) > 20
    for n in known[:: len(known) // 10]:
        later = following[n]
        assert table_verdict(rows[:n] + rows[n + 1 :]) == "violated"
        assert table_verdict(rows[: n + 1] + rows[n:]) == "violated"
        swapped = list(rows)
        swapped[n], swapped[later] = rows[later], rows[n]
        assert table_verdict(swapped) == "violated"


@pytest.mark.parametrize("rows", [*HISTORIES, *map(list, REFUSED.values()), *map(list, ALLOWED.values())])
def test_a_table_is_read_as_event_by_event(rows: list[Row]) -> None:
    for automaton in (AUTOMATON, ANY_PART):
        assert table_verdict(rows, automaton) == verdict(rows, automaton)
