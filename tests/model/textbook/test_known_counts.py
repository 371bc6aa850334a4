"""Counts that other checkers give for the same machines. A different count is a different machine."""

import pytest

from fencepost.model import Machine, Model, Truth, check, reachable_graph, step
from fencepost.model.textbook.bounded_queue import BoundedQueue
from fencepost.model.textbook.peterson import Peterson
from fencepost.model.textbook.philosophers import Philosophers
from fencepost.model.textbook.two_phase import TwoPhase


@pytest.mark.parametrize(
    ("managers", "distinct", "generated", "depth"),
    [(3, 288, 1_146, 11), (5, 8_832, 58_146, 17), (7, 296_448, 2_744_706, 23)],
)
def test_two_phase_commit_has_the_counts_that_tlc_gives(managers, distinct, generated, depth) -> None:
    result = check(TwoPhase, {"managers": managers})
    assert (result.distinct, result.generated, result.depth) == (distinct, generated, depth)
    assert result.verdict == "holds"
    assert result.never_fired == ()
    assert result.collision_odds == 0.0


@pytest.mark.slow
def test_two_phase_commit_with_nine_managers_within_forty_bytes_a_state() -> None:
    result = check(TwoPhase, {"managers": 9})
    assert (result.distinct, result.generated, result.depth) == (10_340_352, 123_558_402, 29)
    assert result.bytes_per_state < 40


def test_coverage_adds_up_to_the_transitions_generated() -> None:
    result = check(TwoPhase, {"managers": 5})
    assert sum(result.coverage.values()) + 1 == result.generated
    assert sum(result.labels_fired.values()) + 1 == result.generated
    assert list(result.coverage) == [
        "commit",
        "abort",
        "hear_prepared",
        "prepare",
        "choose_to_abort",
        "hear_commit",
        "hear_abort",
    ]
    assert result.labels_fired["hear_prepared(m=4)"] * 5 == result.coverage["hear_prepared"]


def test_philosophers_are_counted_by_pell_numbers() -> None:
    """Which forks are taken by whom, around the table, is a transfer matrix with trace 2, determinant -1.

    Its traces are the companion Pell numbers; breaking the circle gives the Pell numbers themselves.
    """
    everybody_left, one_right = [2, 6], [2, 5]
    for numbers in (everybody_left, one_right):
        while len(numbers) < 8:
            numbers.append(2 * numbers[-1] + numbers[-2])
    for seats in range(2, 8):
        left = check(Philosophers, {"seats": seats}, without=["one-left-handed"], keep_going=True)
        assert left.distinct == everybody_left[seats - 1]
        assert check(Philosophers, {"seats": seats}).distinct == one_right[seats - 1]


def test_peterson_has_the_states_that_a_plain_search_finds() -> None:
    """The same protocol once more, as a program counter for each process and two shared variables."""

    def follow(state):
        at, flag, turn = state
        for p in (0, 1):
            there = flag[1 - p]
            goes = {
                "idle": ("raised", True, turn),
                "raised": ("look-flag", flag[p], 1 - p),
                "look-flag": ("look-turn" if there else "critical", flag[p], turn),
                "look-turn": ("critical" if turn == p else "look-flag", flag[p], turn),
                "critical": ("idle", False, turn),
            }
            place, raised, turned = goes[at[p]]
            yield (
                tuple(place if q == p else at[q] for q in (0, 1)),
                tuple(raised if q == p else flag[q] for q in (0, 1)),
                turned,
            )

    seen = {(("idle", "idle"), (False, False), 0)}
    waiting = [*seen]
    while waiting:
        found = {*follow(waiting.pop())} - seen
        seen |= found
        waiting += found
    graph = reachable_graph(Model(Peterson))
    states = [graph.model.unpack(graph.states[:, i]) for i in range(graph.states.shape[1])]
    assert {(s["at"], s["flag"], s["turn"]) for s in states} == seen


def test_a_ring_has_every_filling_at_every_position() -> None:
    """2P positions times P + 1 fillings for each history of the places, which settle after one round."""
    assert check(BoundedQueue, {"places": 1}).distinct == 5
    assert check(BoundedQueue, {"places": 3}).distinct == 30


@pytest.mark.parametrize(
    ("machine", "sizes"),
    [(TwoPhase, {"managers": 5}), (TwoPhase, {"managers": 14}), (Philosophers, {"seats": 6})],
)
def test_threads_change_nothing(machine: type[Machine], sizes: dict[str, int], monkeypatch) -> None:
    """The answer must not depend on how the work was cut: same counts, same counterexamples."""
    from fencepost.model.kernel.search import explore, visited

    class Watched(machine):  # type: ignore[valid-type, misc]  # the base is a parameter of the test
        @step
        def never_back(before, after) -> Truth:
            """Violated by many transitions of a level; always the same one must be reported."""
            return Truth.of(before.frame, before.frame.word(0) <= after.frame.word(0))

    settings = {"max_depth": 6, "keep_going": True, "without": [*machine.safeguards]}
    alone = check(Watched, sizes, workers=1, **settings)
    compiled = check(Watched, sizes, workers=1, compiled=True, **settings)
    assert compiled.properties == alone.properties
    monkeypatch.setattr(explore, "_SMALL", 64)
    monkeypatch.setattr(explore, "_WAITING", 256)
    monkeypatch.setattr(explore, "PENDING", 512)
    monkeypatch.setattr(explore, "_CHUNK", 256)
    monkeypatch.setattr(visited, "_PARALLEL", 128)
    together = check(Watched, sizes, workers=3, **settings)
    assert together.distinct == alone.distinct
    assert together.generated == alone.generated
    assert together.coverage == alone.coverage
    assert together.properties == alone.properties
    assert alone["never_back"].verdict == "violated"


def test_the_graph_has_every_state_and_every_transition() -> None:
    graph = reachable_graph(Model(TwoPhase, {"managers": 3}))
    assert graph.states.shape == (1, 288)
    assert len(graph.sources) == 1_145
    networkx_graph = graph.to_networkx()
    assert (networkx_graph.number_of_nodes(), networkx_graph.number_of_edges()) == (288, 1_145)
    assert networkx_graph.nodes[0]["initial"]
    assert networkx_graph.nodes[0]["values"]["manager"] == ("working",) * 3
    assert {data["label"] for _, _, data in networkx_graph.out_edges(0, data=True)} == {
        "abort()",
        "prepare(m=0)",
        "prepare(m=1)",
        "prepare(m=2)",
        "choose_to_abort(m=0)",
        "choose_to_abort(m=1)",
        "choose_to_abort(m=2)",
    }
