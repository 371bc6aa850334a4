"""Verdicts: what counts as nothing, as undecided, as one key; and the holes that are known."""

from dataclasses import replace

import pytest

from fencepost.impl.store.requests import Outcome
from fencepost.properties.linearizability import Judgement, Operation, check_history
from tests.properties.linearizability.test_explanations import DONE, get, put

UNKNOWN = Outcome.UNKNOWN


def judged(*operations: Operation, **more: int) -> Judgement:
    return check_history(operations, **more).judgement


@pytest.mark.parametrize(
    "nothing",
    [
        (),
        (Operation("p", "k", "get", 0, 1, UNKNOWN),),
        (put("p", 0, 1, "a", outcome=Outcome.CONFLICT), put("p", 2, 3, "b", outcome=Outcome.THROTTLED)),
        (Operation("p", "k", "complete-upload", 0, 1, Outcome.GONE),),
        (put("p", 0, None, "a"),),
    ],
)
def test_a_history_without_information_is_undecided(nothing: tuple[Operation, ...]) -> None:
    verdict = check_history(nothing)
    assert verdict.judgement is Judgement.UNDECIDED
    assert verdict.explanation.startswith("Nothing is proven: ")


def test_running_out_of_steps_is_undecided() -> None:
    """Twelve overlapping writes of two values and a read too many leave the search with a real choice."""
    writes = [put(f"p{at}", 0, 100, "ab"[at % 2]) for at in range(12)]
    reads = [get("r", 200 + at, 200 + at, "ab"[at % 2]) for at in range(2)]
    assert judged(*writes, *reads) is Judgement.VIOLATED
    verdict = check_history([*writes, *reads], steps_max=3)
    assert verdict.judgement is Judgement.UNDECIDED
    assert verdict.keys == ("k",)
    assert verdict.explanation == "Key 'k': no order found within 3 steps; 1 such keys."


def test_keys_are_judged_apart() -> None:
    good = put("p", 0, 1, "a")
    bad = replace(get("p", 2, 3, "b"), key="other")
    verdict = check_history([good, bad])
    assert (verdict.judgement, verdict.keys) == (Judgement.VIOLATED, ("other",))


def test_a_conflict_took_no_effect_and_an_unknown_may_have() -> None:
    seen = get("r", 10, 11, "a")
    assert judged(put("p", 0, 1, "a", outcome=Outcome.CONFLICT, etag=""), seen) is Judgement.VIOLATED
    assert judged(put("p", 0, 1, "a", outcome=UNKNOWN, etag=""), seen) is Judgement.LINEARIZABLE


def test_an_unknown_write_may_land_long_after_its_sender_gave_up() -> None:
    late = put("p", 0, 1, "late", outcome=UNKNOWN, etag="")
    reads = [get("r", 4, 5, "a"), get("r", 6, 7, "late")]
    assert judged(late, put("q", 2, 3, "a"), *reads) is Judgement.LINEARIZABLE


def test_an_unknown_write_lands_once_and_not_before_it_was_called() -> None:
    late = put("p", 10, None, "late")
    assert judged(late, get("r", 4, 5, "late")) is Judgement.VIOLATED
    twice = [get("r", 11, 12, "late"), put("q", 13, 14, "b"), get("r", 15, 16, "b"), get("r", 17, 18, "late")]
    assert judged(late, *twice) is Judgement.VIOLATED


def test_an_unknown_delete_explains_a_second_create() -> None:
    creates = [put("p", 0, 1, "a", condition="absent"), put("q", 5, 6, "b", condition="absent")]
    delete = Operation("r", "k", "delete", 2)
    assert judged(*creates) is Judgement.VIOLATED
    assert judged(*creates, delete) is Judgement.LINEARIZABLE


def test_operations_that_touch_in_time_overlap() -> None:
    """A clock that is too coarse must not invent a violation."""
    assert judged(put("p", 0, 5, "a"), put("q", 5, 9, "b"), get("r", 10, 11, "a")) is Judgement.LINEARIZABLE
    assert judged(put("p", 0, 5, "a"), put("q", 6, 9, "b"), get("r", 10, 11, "a")) is Judgement.VIOLATED


def test_the_etag_of_a_write_without_reply_is_found_by_trial() -> None:
    """Only a head saw it: either write may be the one, but not both."""
    lost = [put("p", 0, None, "a"), put("q", 0, None, "b")]
    head = Operation("r", "k", "head", 5, 6, DONE, etag="e?")
    other = put("s", 7, 8, "c")
    again = Operation("r", "k", "head", 9, 10, DONE, etag="e?")
    assert judged(*lost, head) is Judgement.LINEARIZABLE
    assert judged(*lost, head, other, get("s", 8, 9, "c"), replace(again, called=10)) is Judgement.VIOLATED


def lost(kind: str, called: int, value: str | None = None, **more: str) -> Operation:
    return Operation("l", "k", kind, called, value=value, **more)  # type: ignore[arg-type]


def head(called: int, returned: int, etag: str) -> Operation:
    return Operation("h", "k", "head", called, returned, DONE, etag=etag)


def test_lost_puts_of_different_bytes_do_not_share_an_etag() -> None:
    """Nor does a lost upload help that was requested only afterwards."""
    seen = [head(4, 5, "e?"), put("q", 7, 8, "c"), get("q", 9, 10, "c"), head(11, 12, "e?")]
    puts = [lost("put", 0, "a"), lost("put", 0, "b")]
    assert judged(*puts, *seen, lost("complete-upload", 20)) is Judgement.VIOLATED


def test_a_lost_upload_may_have_left_any_etag_that_no_put_left() -> None:
    seen = [head(4, 5, "e?"), put("q", 7, 8, "c"), get("q", 9, 10, "c"), head(11, 12, "e?")]
    create = lost("put", 0, "a", condition="absent")
    assert judged(create, lost("complete-upload", 6), *seen) is Judgement.LINEARIZABLE
    read = replace(get("r", 10, 11, "a"), etag="u?")
    history = [lost("put", 0, "a"), head(4, 5, "e?"), lost("complete-upload", 6), read]
    assert judged(*history) is Judgement.LINEARIZABLE
    assert judged(*history[:2], read) is Judgement.VIOLATED


def test_a_lost_swap_may_have_found_what_only_it_names() -> None:
    swap = lost("put", 2, "a", condition="matches", named="e-b")
    assert judged(lost("put", 0, "b"), swap, get("r", 4, 5, "a")) is Judgement.LINEARIZABLE
    assert judged(swap, get("r", 4, 5, "a")) is Judgement.VIOLATED


def test_what_was_tried_with_more_lost_writes_does_not_settle_what_fewer_can_do() -> None:
    """One way to the second create wastes the lost delete that the third one needs."""
    delete = Operation("d", "k", "delete", 0, 5, DONE)
    creates = [put("p", 0, 10, "a"), put("q", 0, 11, "b"), put("r", 20, 30, "c")]
    history = [delete, *(replace(each, condition="absent") for each in creates)]
    assert judged(*history, lost("delete", 0)) is Judgement.LINEARIZABLE
    assert judged(*history) is Judgement.VIOLATED


def test_a_reader_may_have_read_an_object_long_before_the_reply_to_its_write() -> None:
    """Narrowing must not push a sight behind the last moment of its write: the object was gone by then."""
    slow = [put("p", 0, 20, "a"), get("q", 0, 10, "a")]
    after = [put("r", 2, 4, "b"), get("r", 5, 5, "b"), get("r", 20, 21, "b")]
    assert judged(*slow, *after) is Judgement.LINEARIZABLE
    assert judged(*slow, *after, get("s", 6, 7, "a")) is Judgement.VIOLATED


def test_the_same_place_with_fewer_lost_writes_spent_is_looked_at_again() -> None:
    """A search that takes a place for settled because it was there before, whatever it had spent on the way,
    finds both violated. The only order of the first keeps the lost delete for the last create."""
    times = {"p": (14, 16), "q": (18, 28), "r": (19, 24)}
    creates = [put(who, *between, "c", condition="absent") for who, between in times.items()]
    delete = Operation("d", "k", "delete", 14, 15, DONE)
    assert judged(delete, *creates, lost("delete", 13)) is Judgement.LINEARIZABLE
    assert judged(delete, *creates) is Judgement.VIOLATED
    swapped = put("p", 14, 22, "a", condition="matches", named="e-b")
    created = put("q", 8, 17, "a", condition="absent")
    unsure = [lost("put", at, value, condition="absent") for at, value in ((15, "b"), (13, "c"))]
    first = Operation("d", "k", "delete", 1, 13, DONE)
    seen = [swapped, created, first, get("r", 20, 23, "c"), *unsure]
    assert judged(*seen, lost("delete", 5)) is Judgement.LINEARIZABLE
    assert judged(*seen) is Judgement.VIOLATED


def test_a_write_may_follow_a_read_at_the_very_moment_both_end() -> None:
    reads = [get("r", 2, 2, "a"), get("r", 10, 10, "a")]
    assert judged(put("p", 0, 1, "a"), *reads, put("q", 5, 10, "b")) is Judgement.LINEARIZABLE
    assert judged(put("p", 0, 1, "a"), *reads, put("q", 5, 9, "b")) is Judgement.VIOLATED


def test_contended_counters_are_judged_to_the_end() -> None:
    """Sixteen processes, one key, a thousand if-match writes that overlap, every tenth reply lost."""
    history = [put("p", 0, 1, "0")]
    for at in range(1, 1_000):
        returned = None if at % 10 == 0 else at * 2 + 30
        history.append(
            put(f"p{at % 16}", at * 2, returned, str(at), condition="matches", named=f"e-{at - 1}")
        )
        if returned is None:
            history.append(get(f"p{at % 16}", at * 2, at * 2 + 30, str(at)))
    assert judged(*history) is Judgement.LINEARIZABLE
    stale = put("q", 1500, 1530, "stolen", condition="matches", named="e-700")
    verdict = check_history([*history, stale])
    assert verdict.judgement is Judgement.VIOLATED
    assert stale in verdict.counterexample
    assert len(verdict.counterexample) <= 4


# Known holes.


def test_hole_aba() -> None:
    """The bytes came back, so the ETag did, and an if-match that missed two writes is accepted."""
    back_and_forth = [put("p", 0, 1, "a"), put("p", 2, 3, "b"), put("p", 4, 5, "a")]
    fooled = put("q", 6, 7, "c", condition="matches", named="e-a")
    assert judged(*back_and_forth, fooled) is Judgement.LINEARIZABLE


def test_hole_upload_memory() -> None:
    """S3 refuses to complete an upload under if-match when anything was written since it was created."""
    complete = Operation(
        "p", "k", "complete-upload", 6, 7, DONE, condition="matches", named="e-b", etag="u-1"
    )
    assert judged(put("q", 2, 3, "b"), complete) is Judgement.LINEARIZABLE


def test_hole_removed_versions_are_not_judged() -> None:
    verdict = check_history([put("p", 0, 1, "a"), Operation("p", "k", "delete-version", 2, 3, DONE)])
    assert verdict.judgement is Judgement.UNDECIDED
    assert verdict.explanation == "Key 'k': one version was removed, which is not checked; 1 such keys."


def test_a_done_conditional_delete_is_taken_at_its_word() -> None:
    """Two clients cannot both have removed the same lock: `history` explains the cost of this rule."""
    made = put("p", 0, 1, "a")
    etag = made.etag
    deletes = [
        Operation(process, "k", "delete", at, at + 1, DONE, condition="matches", named=etag)
        for process, at in (("q", 2), ("r", 4))
    ]
    assert judged(made, deletes[0]) is Judgement.LINEARIZABLE
    assert judged(made, deletes[0], replace(deletes[1], outcome=Outcome.MISSING)) is Judgement.LINEARIZABLE
    assert judged(made, *deletes) is Judgement.VIOLATED
