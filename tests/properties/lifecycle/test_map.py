"""The map of lifecycles: it allows every run of a worker, and refuses steps that no worker takes."""

from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lifecycle.trace_fields import trace_fields
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Put, R, Request
from fencepost.model import check
from fencepost.properties.lifecycle.followed import Followed
from fencepost.properties.lifecycle.refinement import LifecycleRefinement
from fencepost.properties.refinement import Automaton
from tests.impl.lifecycle.history import Faults, History
from tests.properties.ingest.shown_events import follow

AUTOMATON = Automaton(LifecycleRefinement(cursors=20, items=6, whole=1))
ANY_PART = Automaton(LifecycleRefinement(cursors=20, items=6))
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
    shown = {"generation": "odd", "serves": 1, "leased": 0, **fields}
    return put("cursors/near/x.json", condition, **shown)


def bucket(condition: str = "matches", **fields: Any) -> Row:
    return put("buckets/b.json", condition, **{"walk": 0, "beginning": 0, "driven": 0, **fields})


def put(key: str, condition: str, **fields: Any) -> Row:
    shown = " ".join(f"{name}={value}" for name, value in fields.items())
    return "landed", "put", FOLDER + key, condition, "done", shown


WALK, NAMED = bucket("absent", walk=1, beginning=1), cursor("absent")
BEGUN = (WALK, NAMED, bucket(driven=1))


def test_a_beginning_is_allowed() -> None:
    assert follow(AUTOMATON, [*BEGUN, cursor(), cursor(generation="even", serves=0)]) is None


REFUSED: dict[str, tuple[Row, ...]] = {
    "a cursor names an action that no walk begins": (NAMED,),
    "an action is driven by events before a cursor was moved back": (WALK, bucket(driven=1)),
    "more actions are driven by events than began": (WALK, NAMED, bucket(driven=2)),
    "an action is driven by events again without a walk": (*BEGUN, bucket(), bucket(driven=1)),
    "a name is added within a generation": (*BEGUN, cursor(serves=2)),
    "a name is lost within a generation": (*BEGUN, cursor(serves=0)),
    "a cursor is overwritten": (*BEGUN, cursor("anything")),
    "a generation is skipped": (
        *BEGUN,
        cursor(generation="even", leased=1),
        cursor(generation="even", serves=0),
    ),
    "a blocker stands without a failure": (put("blockers/s.json", "absent"),),
    "a failure is counted again that was not counted": (put("retries/s.json", "absent", failed="again"),),
    "something is given up that is not blocked": (put("quarantine/s/i.json", "absent"),),
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
    "a cursor is overwritten",
)


@pytest.mark.parametrize("what", IN_ANY_PART)
def test_what_no_worker_does_is_refused_in_a_part_of_a_run_too(what: str) -> None:
    error = follow(ANY_PART, [*BEGUN[2:], cursor(), *REFUSED[what][len(BEGUN) :]])
    assert error is not None
    assert error.verdict == "violated"


def test_the_followed_machine_holds() -> None:
    assert check(Followed, {"cursors": 2, "names": 1, "items": 1}).verdict == "holds"
