"""A cursor is durable, moves only forward, and never passes unfinished work."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.cursor import Cursor, CursorError, Pace
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.lease import Fenced
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore

KEY = "cursors/v1/test.json"


class Unavailable(Exception):
    pass


RETRY = RetryPolicy("test", Unavailable, attempts=4, backoff_s=0.01)


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


def test_a_cursor_starts_empty_and_resumes_at_its_position() -> None:
    store = bucket()
    first = Cursor(Context(store, store.env, retry=RETRY), KEY)
    assert first.start() == ""
    passed(first, "a", "b").save()
    assert Cursor(Context(store, store.env, retry=RETRY), KEY).start() == "b"


def test_unsaved_items_are_done_again() -> None:
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
def test_the_position_never_passes_unfinished_items(order: list[int], finished: int) -> None:
    """In any order of finishing, the position is the last one before the first unfinished item."""
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


def test_positions_must_rise() -> None:
    found = cursor(bucket())
    found.take("b")
    for late in ("a", "b"):
        with pytest.raises(ValueError, match="positions must rise"):
            found.take(late)


def test_the_position_is_saved_every_so_many_items() -> None:
    store = bucket()
    passed(cursor(store, Pace(items=3, seconds=1e9)), "a", "b", "c", "d")
    assert cursor(store).start() == "c"


def test_the_position_is_saved_every_so_many_seconds() -> None:
    store = bucket()
    found = passed(cursor(store, Pace(items=1000, seconds=5)), "a")
    assert cursor(store).start() == ""
    store.env.sleep(5)
    passed(found, "b")
    assert cursor(store).start() == "b"


def test_of_two_readers_the_further_one_wins() -> None:
    store = bucket()
    one, other = cursor(store), cursor(store)
    passed(one, "m").save()
    assert passed(other, "c").save() == "m"
    assert other.position == "m"
    assert passed(other, "x").save() == "x"
    assert passed(one, "p").save() == "x"
    assert cursor(store).start() == "x"


@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST, Effect.CONFLICT])
def test_a_fault_loses_no_position(effect: Effect) -> None:
    store = bucket()
    faulty = Faulty(store, [Fault(effect, {"put"}, times=2)])
    found = passed(cursor(faulty), "a")
    assert found.save() == "a"
    assert cursor(store).start() == "a"
    passed(found, "b").save()
    assert cursor(store).start() == "b"


@pytest.mark.parametrize("gone", [False, True])
def test_an_operator_may_set_the_position_back(gone: bool) -> None:
    """To have items done again; a running reader goes back too, when it begins its next pass."""
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


def test_a_rewind_has_items_done_again_also_by_a_reader_under_way() -> None:
    """The reader is the further one, and still does not win: it worked before what the rewind is for."""
    store = bucket()
    reader = passed(cursor(store), "c", "m")
    reader.save()
    assert cursor(store).rewind("c") == "c"
    assert passed(reader, "x").save() == "c"
    assert reader.is_rewound
    assert reader.start() == "c"
    assert passed(reader, "x").save() == "x"
    assert not reader.is_rewound


@pytest.mark.parametrize("saved", ["", "c"])
def test_a_rewind_that_moves_nothing_still_ends_the_passes_under_way(saved: str) -> None:
    """An item that such a pass holds was taken before the rewind."""
    store = bucket()
    passed(cursor(store), *saved).save()
    reader = passed(cursor(store), "m")
    assert cursor(store).rewind("d") == saved
    assert reader.save() == saved
    assert cursor(store).start() == saved


@pytest.mark.parametrize("effect", [Effect.REPLY_LOST, Effect.REQUEST_LOST, Effect.CONFLICT])
def test_a_rewind_without_an_answer_is_made_all_the_same(effect: Effect) -> None:
    store = bucket()
    passed(cursor(store), "m").save()
    faulty = Faulty(store, [Fault(effect, {"put"}, times=2)])
    assert cursor(faulty).rewind("c") == "c"
    assert cursor(store).start() == "c"


def test_a_name_comes_with_its_rewind_and_stays() -> None:
    """Otherwise a reader in between passes items that are not done for what was added."""
    store = bucket()
    first = passed(cursor(store), "m")
    first.save()
    writes: list[str] = []
    reader = passed(cursor(store), "x")
    other = cursor(Faulty(store, [Fault(Effect.REPLY_LOST, {"put"}, times=1)]))
    assert other.rewind("c", serves=["two", "one"]) == "c"
    writes += [body.decode() for key, body in store.contents().items() if key == KEY]
    assert reader.save() == "c"
    again = cursor(store)
    assert (again.serves, again.position) == ({"one", "two"}, "c")
    passed(again, "d").save()
    assert cursor(store).serves == {"one", "two"}
    assert writes == [
        '{"format": 1, "generation": 2, "position": "c", "revision": 3, "serves": ["one", "two"]}'
    ]


@pytest.mark.parametrize(("begins", "expected"), [(True, "c"), (False, "")])
def test_a_cursor_that_is_not_there_may_begin_at_a_position(begins: bool, expected: str) -> None:
    store = bucket()
    assert cursor(store).rewind("c", serves=["one"], begins=begins) == expected
    assert cursor(store).rewind("x", serves=["two"], begins=begins) == expected
    assert cursor(store).serves == {"one", "two"}


def test_a_name_that_is_forgotten_is_not_saved_again_by_a_pass_under_way() -> None:
    store = bucket()
    cursor(store).rewind("", serves=["one", "two"])
    reader = passed(cursor(store), "c")
    cursor(store).forget(["one"])
    assert reader.save() == ""
    assert cursor(store).serves == {"two"}


def test_a_late_save_never_moves_the_position_back() -> None:
    """The late swap names the ETag it was based on, and no two bodies are the same."""
    store = bucket()
    faulty = Faulty(store, [Fault(Effect.LATE, {"put"}, times=1, delay=50)])
    slow = passed(cursor(store), "a")
    slow.save()
    slow.context = Context(faulty, store.env, retry=RETRY)
    passed(slow, "b").save()
    passed(slow, "c").save()
    assert faulty.struck
    faulty.land_all()
    assert cursor(store).start() == "c"


def test_a_store_without_answers_raises() -> None:
    found = passed(cursor(Faulty(bucket(), [Fault(Effect.REQUEST_LOST, {"put"})])), "a")
    with pytest.raises(Unavailable, match="could not move cursor"):
        found.save()


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b'{"format": 2, "position": "a", "revision": 1}',
        b"{}",
        b'{"format": 1, "position": "a", "revision": 1, "serves": "one"}',
    ],
)
def test_a_foreign_object_at_the_key_is_no_cursor(body: bytes) -> None:
    store = bucket()
    store.put(KEY, body, when=ANYTHING)
    with pytest.raises(CursorError, match="is no cursor"):
        cursor(store)


def test_starting_again_forgets_unfinished_items() -> None:
    store = bucket()
    found = cursor(store)
    found.take("a")
    found.take("b")
    found.done("b")
    assert found.start() == ""
    passed(found, "a", "b").save()
    assert found.saved == "b"


def test_saving_an_unchanged_position_writes_nothing() -> None:
    store = bucket()
    found = passed(cursor(store), "a")
    found.save()
    before = dict(store.contents())
    found.save()
    assert store.contents() == before


# Epochs.


def owned(store: Store, epoch: int) -> Cursor:
    found = Cursor(Context(store, store.env, retry=RETRY), KEY, pace=Pace(1000, 1e9), epoch=epoch)
    found.start()
    return found


def saved(store: Store) -> str:
    return cursor(store).saved


def test_a_reader_of_a_lower_epoch_saves_nothing_any_more() -> None:
    """Not even what it had finished before, and however much further it is."""
    store = bucket()
    passed(owned(store, 1), "a").save()
    before = passed(owned(store, 1), "b", "z")
    owned(store, 2)
    assert before.save() == "a"
    assert before.is_rewound
    assert saved(store) == "a"


def test_a_reader_of_a_lower_epoch_begins_no_pass() -> None:
    store = bucket()
    passed(owned(store, 2), "a").save()
    with pytest.raises(Fenced, match="epoch 2 has cursor"):
        owned(store, 1)


def test_one_epoch_begins_as_often_as_it_likes() -> None:
    """Without a new generation each time: a pass under way goes on."""
    store = bucket()
    passed(owned(store, 3), "a").save()
    first = passed(owned(store, 3), "b")
    owned(store, 3)
    assert first.save() == "b"


def test_a_rewind_keeps_the_epoch() -> None:
    store = bucket()
    passed(owned(store, 2), "b").save()
    cursor(store).rewind("a")
    with pytest.raises(Fenced):
        owned(store, 1)


def test_a_take_over_that_is_not_answered_is_made_again() -> None:
    store = bucket()
    passed(owned(store, 1), "a").save()
    lost = Faulty(store, [Fault(Effect.REPLY_LOST, {"put"}, times=1)])
    passed(owned(lost, 2), "b").save()
    assert saved(store) == "b"
    with pytest.raises(Fenced):
        owned(store, 1)
