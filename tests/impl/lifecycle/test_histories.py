"""What a worker deletes, and when, equals what a walk at every instant would, whatever happens meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.lifecycle.safeguards import STANDARD
from fencepost.impl.lifecycle.worker import Worker

from .history import Faults, History, S, Violation

CALM = Faults()
ROUGH = Faults(crash=0.01, fail=0.01, act=0.005, race=0.3)
KINDS: list[tuple[Faults, dict[str, Any]]] = [
    (CALM, {}),
    (ROUGH, {}),
    (ROUGH, {"pending_max": 0}),
    (ROUGH, {"losses": True}),
]


def run(seed: int, faults: Faults, seconds: int = 40, **options: Any) -> History:
    history = History(seed, faults, **options)
    try:
        history.run(seconds)
    except Violation as error:
        raise Violation(f"seed {seed}, {faults}, {options}: {error}") from error
    return history


def run_all(seeds: range, **further: Any) -> None:
    for seed in seeds:
        faults, options = KINDS[seed % len(KINDS)]
        run(seed, faults, **options, **further)


def test_a_few_dozen_histories_equal_the_oracle() -> None:
    done = [run(seed, *kind[:1], 20, **kind[1]) for seed in range(3) for kind in KINDS]
    assert sum(one.crashes for one in done) > 20
    assert sum(count for one in done for (by, _), count in one.by.items() if by == "sweep") > 3


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_histories_equal_the_oracle(part: int) -> None:
    run_all(range(100 * part, 100 * part + 100))


@pytest.mark.slow
def test_a_crash_at_every_request() -> None:
    """The same short history, with one crash, at each of its requests in turn."""
    at = 0
    while True:
        at += 1
        if not run(1, Faults(crash_at=at), seconds=12).crashes:
            break
    assert at > 100


MUTANTS: dict[str, Callable[..., Any]] = {
    "lock": lambda _: False,
    "delay_back": lambda _: -30 * S,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_each_safeguard_is_needed(name: str) -> None:
    with pytest.raises(Violation):
        run_all(range(40), safeguards=replace(STANDARD, **{name: MUTANTS[name]}))


@pytest.mark.slow
def test_a_rule_that_comes_back_is_followed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "unserved", lambda *_: frozenset())
    with pytest.raises((Violation, KeyError)):
        run_all(range(40))
