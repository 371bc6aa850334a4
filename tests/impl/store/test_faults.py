"""A script of faults: what it may say, which requests it strikes, and that it can be repeated."""

import json
from collections.abc import Iterable

import pytest

from fencepost.impl.objects.surface import KNOWN
from fencepost.impl.store.faults import (
    BadScript,
    Effect,
    Fault,
    Injector,
    Phase,
    Script,
    as_toml,
    read_script,
)

SECOND_MANIFEST = """
seed = 7

[[fault]]
effect = "reply_lost"
operation = "put"
keys = "manifests/*"
first = 2
count = 1
"""


def script(text: str) -> Script:
    return read_script(text, KNOWN.__contains__)


def struck(injector: Injector, keys: Iterable[str], operation: str = "PutObject") -> list[int]:
    """The places of the requests that were struck."""
    kind = {"PutObject": "put", "GetObject": "get"}[operation]
    reads = operation == "GetObject"
    return [
        at
        for at, key in enumerate(keys)
        if injector.strike(kind, operation, "b", key, reads=reads) is not None
    ]


def test_a_script_is_toml_or_json() -> None:
    found = script(SECOND_MANIFEST)
    expected = Fault(Effect.REPLY_LOST, frozenset({"put"}), times=1, keys="manifests/*", first=2)
    assert found == Script((expected,), 7)
    assert script(json.dumps(found.as_json())) == found
    assert script("seed = 7\n" + "".join(map(as_toml, found.faults))) == found


def test_every_field_survives_being_written() -> None:
    """What is not written is lost when a trace is repeated."""
    fault = Fault(
        Effect.FAILED, frozenset({"PutObject", "get"}), 'a"\n', 0.25, 3, 4, "x[*", "k\u00e9", "b", 5, True,
        Phase.AFTER, 0.5,
    )  # fmt: skip
    assert script(as_toml(fault)).faults == (fault,)
    assert script(json.dumps(Script((fault,)).as_json())).faults == (fault,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("= 1", "neither TOML nor JSON"),
        ("[" * 100_000, "neither TOML nor JSON"),
        ("faults = []", "no 'faults'"),
        ("seed = -1", "seed -1"),
        ("seed = true", "seed True"),
        ("fault = 3", r"write \[\[fault\]\]"),
        ("[[fault]]\neffect = 'explode'", "fault 1: effect = 'explode'; choose from delayed"),
        ("[[fault]]\nkeys = 'a'", "fault 1: effect = None"),
        ("[[fault]]\neffect = 'late'\nkey_pattern = 'a'", "no field is called 'key_pattern'"),
        ("[[fault]]\neffect = 'late'\ncount = '1'", "count = '1' is of the wrong type"),
        ("[[fault]]\neffect = 'late'\ncount = true", "count = True is of the wrong type"),
        ("[[fault]]\neffect = 'late'\nfirst = 0", "first = 0; give 1"),
        ("[[fault]]\neffect = 'late'\nchance = 1.5", "chance = 1.5; give 0 to 1"),
        ("[[fault]]\neffect = 'late'\nseconds = inf", "seconds = inf"),
        ("[[fault]]\neffect = 'late'\nseconds = nan", "seconds = nan"),
        ("[[fault]]\neffect = 'late'\noperation = 'Put'", "no operation is called 'Put'"),
        ("[[fault]]\neffect = 'late'\noperation = [1]", "no operation is called 1"),
        ("[[fault]]\neffect = 'late'\nphase = 'after'", "late has a phase of its own"),
        ("[[fault]]\neffect = 'failed'\nphase = 'later'", "phase = 'later'"),
        ("[[fault]]\neffect = 'late'\n[[fault]]\neffect = ''", "fault 2"),
    ],
)
def test_a_script_that_makes_no_sense_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(BadScript, match=message):
        script(text)


def test_only_the_second_request_that_fits_is_struck() -> None:
    injector = Injector(script(SECOND_MANIFEST))
    keys = ["data/1", "manifests/1", "data/2", "manifests/2", "manifests/3", "manifests/1"]
    assert struck(injector, keys) == [3]
    assert struck(injector, keys, "GetObject") == []
    (strike,) = injector.strikes
    assert (strike.operation, strike.key, strike.nth) == ("PutObject", "manifests/2", 1)


def test_a_count_can_be_of_each_key() -> None:
    injector = Injector(Script((Fault(Effect.THROTTLED, times=1, first=2, per_key=True),)))
    assert struck(injector, ["a", "b", "a", "a", "b", "b"]) == [2, 4]


def test_a_read_never_conflicts() -> None:
    injector = Injector(Script((Fault(Effect.CONFLICT),)))
    assert struck(injector, ["a"], "GetObject") == []
    assert struck(injector, ["a"]) == [0]


def test_the_first_fault_that_fits_wins_and_the_others_count_on() -> None:
    every = Fault(Effect.THROTTLED, times=2)
    third = Fault(Effect.FAILED, first=3, times=1)
    injector = Injector(Script((every, third)))
    assert struck(injector, "aaaa") == [0, 1, 2]
    assert [strike.at for strike in injector.strikes] == [1, 1, 2]


def test_a_seed_and_a_key_decide_whatever_others_do() -> None:
    """Else a replay depends on how the threads of a client happened to run."""
    half = Script((Fault(Effect.THROTTLED, chance=0.5),), seed=3)
    alone = struck(Injector(half), ["a"] * 200)
    beside = struck(Injector(half), [key for _ in range(200) for key in ("b", "a", "c")])
    assert [at // 3 for at in beside if at % 3 == 1] == alone
    assert 70 < len(alone) < 130
    assert struck(Injector(Script(half.faults, seed=4)), ["a"] * 200) != alone


def test_a_trace_repeats_what_was_struck_in_any_order_of_the_keys() -> None:
    random = Injector(Script((Fault(Effect.REPLY_LOST, chance=0.3), Fault(Effect.LATE, first=10)), seed=5))
    keys = [f"k{at % 4}" for at in range(80)]
    struck(random, keys)
    of_keys = sorted((strike.key, strike.nth, strike.fault.effect) for strike in random.strikes)
    again = Injector(script("".join(map(as_toml, random.trace().faults))))
    struck(again, sorted(keys))
    assert sorted((strike.key, strike.nth, strike.fault.effect) for strike in again.strikes) == of_keys
    assert len({effect for _, _, effect in of_keys}) == 2


def test_a_script_begins_its_counts_anew() -> None:
    injector = Injector(script(SECOND_MANIFEST))
    struck(injector, ["manifests/1"])
    injector.load(script(SECOND_MANIFEST))
    assert struck(injector, ["manifests/1", "manifests/1"]) == [1]
    assert len(injector.strikes) == 1
