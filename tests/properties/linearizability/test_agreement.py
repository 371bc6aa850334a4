"""The checker against one that tries everything."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from fencepost.properties.linearizability import Judgement, Operation, check_history
from tests.depth import examples
from tests.properties.linearizability.brute import explainable, says_nothing
from tests.properties.linearizability.histories import HICOUNTEREXAMPLES, executions

EXAMPLES = examples(600, 3_000)
"""The bar is 2,000 in the deep session; the rest makes up for examples without information."""


def test_the_checker_agrees_with_trying_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """Every pruning rule of the search may be unsound; brute force has none."""
    seen: Counter[str] = Counter()
    with_loose: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(HICOUNTEREXAMPLES)
    def agree(history: list[Operation]) -> None:
        verdict = check_history(history)
        telling = [each for each in history if not says_nothing(each)]
        if all(each.loose for each in telling):
            assert verdict.judgement is Judgement.UNDECIDED
            return
        expected = Judgement.LINEARIZABLE if explainable(history) else Judgement.VIOLATED
        assert verdict.judgement is expected, verdict.explanation
        seen[expected] += 1
        with_loose[expected] += any(each.loose and not each.reads for each in history)

    agree()
    with capsys.disabled():
        # The share is part of what this test shows.
        print(f"\nverdicts {dict(seen)}, of these with loose writes {dict(with_loose)}")  # noqa: T201 - on purpose
    assert sum(seen.values()) >= EXAMPLES * 2 // 3
    assert min(seen[Judgement.LINEARIZABLE], seen[Judgement.VIOLATED]) >= 0.3 * sum(seen.values())
    assert min(with_loose.values()) >= EXAMPLES // 10


@settings(max_examples=examples(100))
@given(executions(most=40))
def test_an_execution_is_always_linearizable(history: list[Operation]) -> None:
    """Longer than brute force can go: what a sequential store answered must never be called violated."""
    assert check_history(history).judgement is not Judgement.VIOLATED
