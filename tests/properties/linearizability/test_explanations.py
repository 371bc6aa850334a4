"""The explanation of a violation: exactly these words, about exactly the operations that matter."""

from dataclasses import replace

from hypothesis import assume, given, settings

from fencepost.impl.store.requests import Outcome
from fencepost.properties.linearizability import Judgement, Operation, check_history
from fencepost.properties.linearizability.check import Refuter
from fencepost.properties.linearizability.explain import smallest, weaken
from fencepost.properties.linearizability.history import is_informative
from tests.depth import examples
from tests.properties.linearizability.histories import HICOUNTEREXAMPLES

DONE = Outcome.DONE
TITLE = "Key 'k' is not linearizable: no order explains these replies."


def put(process: str, called: int, returned: int | None, value: str, **more: object) -> Operation:
    outcome = DONE if returned is not None else Outcome.UNKNOWN
    etag = f"e-{value}" if returned is not None else ""
    made = Operation(process, "k", "put", called, returned, outcome, value=value, etag=etag)
    return replace(made, **more)  # type: ignore[arg-type]


def get(process: str, called: int, returned: int, value: str) -> Operation:
    return Operation(process, "k", "get", called, returned, DONE, value=value, etag=f"e-{value}")


def explanation(*operations: Operation) -> list[str]:
    verdict = check_history(operations)
    assert verdict.judgement is Judgement.VIOLATED
    return verdict.explanation.splitlines()


def test_two_creators() -> None:
    assert explanation(
        put("p", 0, 5, "a", condition="absent"),
        put("q", 3, 8, "b", condition="absent"),
        get("r", 9, 10, "b"),
    ) == [
        TITLE,
        "",
        "  (1)  p  0..5  put 'a' if nothing is there  -> done, etag e-a",
        "  (2)  q  3..8  put 'b' if nothing is there  -> done, etag e-b",
        "",
        "At first nothing is there.",
        "Suppose (1) comes next: then 'a' is there.",
        "  (2) was done on condition that nothing is there, but 'a' is there.",
        "  Nothing can come next.",
        "Suppose (2) comes next: then 'b' is there.",
        "  (1) was done on condition that nothing is there, but 'b' is there.",
        "  Nothing can come next.",
        "So no order is left.",
        "1 more operation on the key cannot help, whenever they took effect.",
    ]


def test_a_lost_update() -> None:
    assert explanation(
        put("p", 0, 1, "0"),
        put("p", 2, 5, "1p", condition="matches", named="e-0"),
        put("q", 3, 8, "1q", condition="matches", named="e-0"),
    ) == [
        TITLE,
        "",
        "  (1)  p  0..1  put '0'               -> done, etag e-0",
        "  (2)  p  2..5  put '1p' if etag e-0  -> done, etag e-1p",
        "  (3)  q  3..8  put '1q' if etag e-0  -> done, etag e-1q",
        "",
        "(1) comes before (2): it had returned at 1 when (2) was called at 2.",
        "(1) comes before (3): it had returned at 1 when (3) was called at 3.",
        "At first nothing is there.",
        "Only (1) can come next: then '0' is there.",
        "Suppose (2) comes next: then '1p' is there.",
        "  (3) was done on condition that etag e-0 is there, but '1p' is there.",
        "  Nothing can come next.",
        "Suppose (3) comes next: then '1q' is there.",
        "  (2) was done on condition that etag e-0 is there, but '1q' is there.",
        "  Nothing can come next.",
        "So no order is left.",
    ]


def test_a_lost_reply_that_others_saw_land_and_then_vanish() -> None:
    assert explanation(
        put("p", 0, 1, "old"), put("q", 2, None, "new"), get("r", 9, 10, "new"), get("r", 17, 18, "old")
    ) == [
        TITLE,
        "",
        "  (1)  p  0..1    put 'old'  -> done, etag e-old",
        "  (2)  q  2..     put 'new'  -> unknown (etag e-new, as others saw)",
        "  (3)  r  9..10   get        -> done 'new', etag e-new",
        "  (4)  r  17..18  get        -> done 'old', etag e-old",
        "",
        "(1) comes before (2): it had returned at 1 when (2) was called at 2.",
        "(1) comes before (3): it had returned at 1 when (3) was called at 9.",
        "(3) comes before (4): it had returned at 10 when (4) was called at 17.",
        "At first nothing is there.",
        "Only (1) can come next: then 'old' is there.",
        "Only (2) can come next: then 'new' is there.",
        "(3) fits while 'new' is there.",
        "(4) read 'old', but 'new' is there.",
        "Nothing can come next.",
        "So no order is left.",
    ]


def test_a_read_of_an_object_that_was_never_written() -> None:
    assert explanation(put("p", 0, 1, "a"), get("q", 2, 3, "b")) == [
        TITLE,
        "",
        "  (1)  q  2..3  get  -> done 'b', etag e-b",
        "",
        "(1) read 'b', but no operation wrote that.",
        "1 more operation on the key cannot help, whenever they took effect.",
    ]


def test_two_contents_under_one_etag() -> None:
    assert explanation(put("p", 0, 1, "a"), replace(get("q", 2, 3, "b"), etag="e-a")) == [
        TITLE,
        "",
        "  (1)  p  0..1  put 'a'  -> done, etag e-a",
        "  (2)  q  2..3  get      -> done 'b', etag e-a",
        "",
        "(1) and (2) returned different contents under one ETag, 'e-a'.",
    ]


def test_other_violated_keys_are_named() -> None:
    error = get("p", 0, 1, "x")
    text = explanation(*(replace(error, key=f"k{number}") for number in range(8)))
    assert text[-1] == "Also violated: 'k1', 'k2', 'k3', 'k4', 'k5' and 2 more."


@settings(max_examples=examples(100))
@given(HICOUNTEREXAMPLES)
def test_the_counterexample_violates_by_itself_and_every_statement_in_it_is_needed(
    history: list[Operation],
) -> None:
    """A counterexample with a superfluous fact misleads its reader."""
    verdict = check_history(history)
    assume(verdict.judgement is Judgement.VIOLATED)
    assert check_history(verdict.counterexample).judgement is Judgement.VIOLATED
    violated = Refuter().violated
    replies, weakened = smallest([each for each in history if is_informative(each)], violated)
    for struck in replies:
        rest = [each for each in replies if each is not struck]
        assert not violated([*rest, *weakened, *weaken(struck)])
