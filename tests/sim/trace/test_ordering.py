"""Order between hosts: what the store answered is stronger than any clock."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.store.events import Event
from fencepost.sim.trace import events_of, ordered, table_of

SECOND = 1_000_000_000


def counterexample(skew: dict[str, int]) -> list[Event]:
    """a writes v1, b reads it and swaps it for v2, c reads v2; each with a counter and a clock of its own."""
    made: list[Event] = []
    counts = dict.fromkeys(skew, 0)

    def happen(process: str, op: int, phase: str, kind: str, etag: str, outcome: str = "") -> None:
        t = len(made) * 1000 + skew[process]
        made.append(
            Event("r", counts[process], t, process, 0, op, phase, kind, "k", etag=etag, outcome=outcome)
        )
        counts[process] += 1

    happen("a", 0, "request", "put", "")
    happen("a", 0, "response", "put", "v1", "done")
    happen("b", 0, "request", "get", "")
    happen("b", 0, "response", "get", "v1", "done")
    happen("b", 1, "request", "put", "v1")
    happen("b", 1, "response", "put", "v2", "done")
    happen("c", 0, "request", "get", "")
    happen("c", 0, "response", "get", "v2", "done")
    return made


def shown(events: list[Event]) -> list[tuple[str, str, str]]:
    return [(event.process, event.phase, event.kind) for event in events]


def test_true_clocks_are_left_alone() -> None:
    made = counterexample({"a": 0, "b": 0, "c": 0})
    order = ordered(table_of(made))
    assert shown(events_of(order.table)) == shown(made)
    assert (order.corrected, order.uncertain) == (0, ())


@given(st.tuples(*[st.integers(-5 * SECOND, 5 * SECOND)] * 3), st.randoms())
def test_no_skew_puts_an_answer_before_what_made_it(skews: tuple[int, int, int], random: object) -> None:
    made = counterexample(dict(zip("abc", skews, strict=True)))
    random.shuffle(made)  # type: ignore[attr-defined]
    found = events_of(ordered(table_of(made)).table)
    place = {(e.process, e.op, e.phase): n for n, e in enumerate(found)}
    assert [e.seq for e in found] == list(range(8))
    assert place["a", 0, "request"] < place["b", 0, "response"]
    assert place["b", 1, "request"] < place["c", 0, "response"]
    for process, events in (("a", 2), ("b", 4), ("c", 2)):
        own = [e for e in found if e.process == process]
        assert len(own) == events
        assert [e.op for e in own] == sorted(e.op for e in own)


def test_a_run_with_one_counter_is_kept_as_numbered() -> None:
    """The adversary and the simulator know the order; their clocks are skewed on purpose."""
    made = [Event("r", n, -n, f"p{n % 2}", 0, n, "landed", "get", "k") for n in range(6)]
    assert shown(events_of(ordered(table_of(made)).table)) == shown(made)


def test_a_part_of_several_counters_is_ordered_by_time() -> None:
    """The events about one key may have different numbers by chance, and be those of two counters."""
    mixed = [("p0", 7, 10), ("p1", 2, 20), ("p0", 8, 30), ("p1", 3, 40)]
    made = [Event("r", seq, t, who, 0, t, "request", "get", "k") for who, seq, t in mixed]
    assert [event.op for event in events_of(ordered(table_of(made)).table)] == [10, 20, 30, 40]


def test_clocks_that_contradict_the_answers_are_named() -> None:
    """Each read what the other wrote, each before it was written: no constant skew explains it."""
    made = []
    for me, other in (("a", "b"), ("b", "a")):
        made += [
            Event("r", 0, 0, me, 0, 0, "request", "get", f"k{other}"),
            Event("r", 1, 10, me, 0, 0, "response", "get", f"k{other}", etag=f"by-{other}", outcome="done"),
            Event("r", 2, 20, me, 0, 1, "request", "put", f"k{me}"),
            Event("r", 3, 30, me, 0, 1, "response", "put", f"k{me}", etag=f"by-{me}", outcome="done"),
        ]
    assert ordered(table_of(made)).uncertain == ("r",)


def test_an_etag_made_twice_proves_nothing() -> None:
    """The same bytes give the same ETag: who made the one that was read is not known."""
    made = counterexample({"a": 0, "b": -SECOND, "c": 0})
    assert ordered(table_of(made)).corrected == 1
    made.append(Event("r", 0, 0, "d", 0, 0, "request", "put", "k"))
    made.append(Event("r", 1, 1, "d", 0, 0, "response", "put", "k", etag="v1", outcome="done"))
    assert ordered(table_of(made)).corrected == 0


def test_one_body_at_two_keys_still_orders_its_writes() -> None:
    """Its ETag is the same at both; an object and its log entry are often the same document."""
    made = counterexample({"a": 0, "b": -3600 * SECOND, "c": 0})
    copies = [replace(event, key="log", op=event.op + 10, seq=event.seq + 4) for event in made[:2]]
    order = ordered(table_of([*made, *copies]))
    assert order.difference_ns > 3599 * SECOND
    place = {(e.process, e.op, e.phase): n for n, e in enumerate(events_of(order.table))}
    assert place["a", 0, "request"] < place["b", 0, "response"]
