"""The kernel's exploration against a naive one, on random machines.

If these fail, some state was missed or invented, and no verdict of the kernel is worth anything.
"""

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.model import Model, Stepper, check, reachable_graph
from tests.depth import examples
from tests.model.random_machines import Spec, State, naive_search, specs

thorough = settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def as_naive(values: dict[str, object]) -> State:
    return tuple(values.items())


@thorough
@given(st.one_of(specs(), specs(branches=True)))
def test_the_same_states_and_the_same_edges(spec: Spec) -> None:
    naive = naive_search(spec)
    model = Model(spec.machine())
    graph = reachable_graph(model, workers=1)
    states = [as_naive(model.unpack(graph.states[:, i])) for i in range(graph.states.shape[1])]
    assert len(set(states)) == len(states)
    assert set(states) == set(naive.depth_of)
    edges = [
        (states[source], str(model.labels[label]), states[target])
        for source, target, label in zip(graph.sources, graph.targets, graph.labels, strict=True)
    ]
    assert Counter(edges) == Counter(naive.edges)
    assert set(states[: graph.initial]) == set(spec.starts())
    distances = [naive.depth_of[state] for state in states]
    assert distances == sorted(distances)


@thorough
@given(st.one_of(specs(), specs(branches=True)))
def test_the_same_verdicts_with_shortest_counterexamples_that_can_be_replayed(spec: Spec) -> None:
    naive = naive_search(spec)
    result = check(spec.machine(), keep_going=True, workers=1)
    bad = [depth for state, depth in naive.depth_of.items() if spec.goal.true(dict(state))]
    has_successor = {state for state, _, _ in naive.edges}
    stuck = [
        depth
        for state, depth in naive.depth_of.items()
        if state not in has_successor and not spec.end.true(dict(state))
    ]
    expected = {"never": bad, "sometimes": bad, "no-deadlock": stuck}
    assert result.distinct == len(naive.depth_of)
    assert result.generated == len(set(spec.starts())) + len(naive.edges)
    assert result.depth == 1 + max(naive.depth_of.values())
    for name, depths in expected.items():
        found = result[name]
        assert found.verdict == ("holds" if bool(depths) is (name == "sometimes") else "violated"), name
        assert (found.counterexample is not None) is bool(depths), name
        if found.counterexample is not None:
            assert len(found.counterexample) == min(depths), name
            _walk(spec, found.counterexample)


def _walk(spec: Spec, counterexample) -> None:
    """Follow a counterexample in the naive reading, state by state."""
    stepper = Stepper(Model(spec.machine()))
    state = stepper.state(counterexample.start)
    assert as_naive(state.values) in spec.starts()
    for step in counterexample.steps:
        parameters = ", ".join(f"{name}={value}" for name, value in step.parameters.items())
        label = f"{step.action}({parameters})"
        after = dict(spec.successors(as_naive(state.values)))[label]
        state_after = stepper.step(state, stepper.label(label))
        assert as_naive(state_after.values) == after
        assert step.changes == stepper.changes(state, state_after)
        state = state_after
