"""A cursor: durable, only forward, never past what is not done."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.context import Context
from fencepost.impl.cursor import Cursor, CursorError, Pace
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.retry import RetryPolicy
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

KEY = "cursors/v1/test.json"


class Away(Exception):
    pass


RETRY = RetryPolicy("test", Away, attempts=4, backoff_s=0.01)


def bucket() -> MemoryStore:
    return MemoryStore(env=SeededEnvironment(1))


def cursor(store: Store, pace: Pace = Pace(1000, 1e9), back: Callable[[str], str] = lambda at: at) -> Cursor:  # noqa: B008
    found = Cursor(Context(store, store.env, retry=RETRY), KEY, pace=pace, back=back)
    found.start()
    return found


def passed(found: Cursor, *positions: str) -> Cursor:
    for position in positions:
        found.take(position)
    for position in positions:
        found.done(position)
    return found


def test_it_begins_at_the_beginning_and_goes_on_where_it_was() -> None:
    store = bucket()
    first = Cursor(Context(store, store.env, retry=RETRY), KEY)
    assert first.start() == ""
    passed(first, "a", "b").save()
    assert Cursor(Context(store, store.env, retry=RETRY), KEY).start() == "b"


def test_what_is_not_written_down_is_done_again() -> None:
    store = bucket()
    passed(cursor(store), "a", "b")
    assert cursor(store).start() == ""


def test_an_overlap_moves_the_start_and_not_the_position() -> None:
    store = bucket()
    passed(cursor(store), "m").save()
    again = cursor(store, back=lambda at: chr(ord(at) - 2))
    assert again.start() == "k"
    assert again.position == "m"


@given(st.permutations(list(range(6))), st.integers(0, 6))
def test_it_never_passes_what_is_not_done(order: list[int], finished: int) -> None:
    """Whatever is finished first: the position is the last one before the first that is open."""
    found = cursor(bucket())
    for number in range(6):
        found.take(str(number))
    for number in order[:finished]:
        found.done(str(number))
    open_ = sorted(order[finished:])
    reached = (open_[0] if open_ else 6) - 1
    assert found.position == ("" if reached < 0 else str(reached))
    assert found.unfinished == len(open_)
    found.save()
    assert found.saved == found.position


def test_things_are_taken_up_in_order() -> None:
    found = cursor(bucket())
    found.take("b")
    for late in ("a", "b"):
        with pytest.raises(ValueError, match="rising order"):
            found.take(late)


def test_it_is_written_down_every_so_many_things() -> None:
    store = bucket()
    passed(cursor(store, Pace(items=3, seconds=1e9)), "a", "b", "c", "d")
    assert cursor(store).start() == "c"


def test_it_is_written_down_every_so_many_seconds() -> None:
    store = bucket()
    found = passed(cursor(store, Pace(items=1000, seconds=5)), "a")
    assert cursor(store).start() == ""
    store.env.sleep(5)
    passed(found, "b")
    assert cursor(store).start() == "b"


def test_of_two_readers_the_further_one_stands() -> None:
    store = bucket()
    one, other = cursor(store), cursor(store)
    passed(one, "m").save()
    assert passed(other, "c").save() == "m"
    assert other.position == "m"
    assert passed(other, "x").save() == "x"
    assert passed(one, "p").save() == "x"
    assert cursor(store).start() == "x"


@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST, Effect.CONFLICT])
def test_a_fault_on_the_way_loses_nothing(effect: Effect) -> None:
    store = bucket()
    faulty = Faulty(store, [Fault(effect, {"put"}, times=2)])
    found = passed(cursor(faulty), "a")
    assert found.save() == "a"
    assert cursor(store).start() == "a"
    passed(found, "b").save()
    assert cursor(store).start() == "b"


@pytest.mark.parametrize("gone", [False, True])
def test_an_operator_may_set_it_back(gone: bool) -> None:
    """To have things done again; a reader that runs on goes back too, when it begins its next pass."""
    store = bucket()
    found = passed(cursor(store), "m")
    found.save()
    if gone:
        store.delete(KEY, when=ANYTHING)
    else:
        store.put(KEY, b'{"format": 1, "position": "c", "revision": 1}', when=ANYTHING)
    assert found.start() == ("" if gone else "c")
    passed(found, "d").save()
    assert cursor(store).start() == "d"


def test_a_write_that_lands_late_never_takes_it_back() -> None:
    """The late swap names the ETag it was based on, and no two bodies are the same."""
    store = bucket()
    faulty = Faulty(store, [Fault(Effect.LATE, {"put"}, times=1, delay=50)])
    slow = passed(cursor(store), "a")
    slow.save()
    slow.store = faulty
    passed(slow, "b").save()
    passed(slow, "c").save()
    faulty.land_all()
    assert cursor(store).start() == "c"


def test_a_store_that_stays_silent_is_said_so() -> None:
    found = passed(cursor(Faulty(bucket(), [Fault(Effect.REQUEST_LOST, {"put"})])), "a")
    with pytest.raises(Away, match="could not move cursor"):
        found.save()


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"format": 2, "position": "a", "revision": 1}', b"{}"])
def test_something_else_at_its_key_is_no_cursor(body: bytes) -> None:
    store = bucket()
    store.put(KEY, body, when=ANYTHING)
    with pytest.raises(CursorError, match="is no cursor"):
        cursor(store)


def test_a_new_pass_forgets_what_was_taken_and_not_done() -> None:
    store = bucket()
    found = cursor(store)
    found.take("a")
    found.take("b")
    found.done("b")
    assert found.start() == ""
    passed(found, "a", "b").save()
    assert found.saved == "b"


def test_nothing_new_writes_nothing() -> None:
    store = bucket()
    found = passed(cursor(store), "a")
    found.save()
    before = dict(store.contents())
    found.save()
    assert store.contents() == before
