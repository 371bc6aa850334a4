"""The audit of the object server: it holds, it sees every broken safeguard, and the model follows it."""

from typing import Any

import pytest

from fencepost.commands.systems import find_system
from fencepost.properties.objects.checks import CHECKS
from fencepost.properties.objects.refinement import ObjectsRefinement
from fencepost.sim.explore import AuditOutcome, audit
from fencepost.sim.systems.objects import SYSTEM
from fencepost.sim.systems.objects.run import ScenarioRun
from fencepost.sim.systems.objects.scenarios import SCENARIOS
from fencepost.sim.world import Budget, World
from fencepost.testing import request_of

COUNTEREXAMPLES = {
    "atomic-create": "one-winner",
    "key-lock": "cas-exact",
    "condition-under-lock": "cas-exact",
    "fsync-before-publish": "untorn",
    "attributes-before-publish": "untorn",
    "directory-flush": "ack-durable",
    "index-after-publish": "list-true",
    "event-after-publish": "list-true",
    "reconcile": "list-true",
    "upload-age": "upload-safe",
    "owner-lock": "one-owner",
    "seal-before-begin": "handed-over",
    "resume-on-abort": "always-served",
}
"""What breaks first without each safeguard."""
NO_FAULTS = {"crash": 0, "power_loss": 0, "reply_lost": 0, "request_lost": 0, "pause": 0}
AT_ONCE = {"event-after-publish", "seal-before-begin", "resume-on-abort"}
"""In the first schedule; the others take seconds."""


def explored(mutant: str | None = None, schedules: int | None = None, **parameters: Any) -> AuditOutcome:
    system = find_system("objects", mutant)
    faults = parameters.pop("faults", system.options.faults)
    request = request_of(system.function, system.options, parameters, "objects")
    budget = Budget(**{"reply_lost": 0, "request_lost": 0, "pause": 0, **faults})
    return audit(request.program, budget=budget, steps_max=1000, schedules=schedules, minimise_seconds=0.1)


def test_every_safeguard_has_a_mutant_and_an_expected_violation() -> None:
    assert set(COUNTEREXAMPLES) == set(SYSTEM.mutant_table)
    assert set(COUNTEREXAMPLES.values()) <= {name.replace("_", "-") for name in CHECKS}


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(name, marks=() if name in AT_ONCE else pytest.mark.slow) for name in COUNTEREXAMPLES],
)
def test_without_a_safeguard_its_property_is_violated(mutant: str) -> None:
    (failure,) = explored(mutant).counterexamples
    assert failure.property == COUNTEREXAMPLES[mutant]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_first_schedule_of_every_scenario_holds(scenario: str) -> None:
    """With the model following it."""
    result = explored(schedules=1, scenario=scenario, faults={"crash": 0, "power_loss": 0})
    assert not result.counterexamples, result


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "power_loss"])
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "completed"])
def test_every_schedule_holds(scenario: str, fault: str) -> None:
    """Minutes each. Where servers are replaced, the power stays on."""
    faults = {"crash": 0, "power_loss": 0, fault: 1}
    assert explored(scenario=scenario, faults=faults).verdict == "holds"


@pytest.mark.slow
def test_every_schedule_of_two_completions_holds_without_faults() -> None:
    assert explored(scenario="completed", faults={"crash": 0, "power_loss": 0}).verdict == "holds"


@pytest.mark.parametrize(("fault", "moments"), [("crash", 5), ("power_loss", 5)])
def test_a_server_starts_after_every_kill_and_every_power_loss(fault: str, moments: int) -> None:
    """The refinement holds in each of these runs, and they have a recovery."""
    counted = {"runs": 0, "recovered": 0}

    def program(world: World) -> None:
        world.share_nothing()
        world.configure(stamped=False, ticks=0)
        run = ScenarioRun(world, followed=True)
        SCENARIOS["creates"](run)
        run.declare_checks()
        world.measure(lambda done: _count(done, counted))

    budget = Budget(**{**NO_FAULTS, fault: 1})
    # The default strategy would begin with schedules without the fault.
    result = audit(program, budget=budget, steps_max=1000, schedules=2 * moments, strategy="exhaustive")
    assert not result.counterexamples, result
    assert counted["recovered"] >= moments


def test_a_completion_that_another_one_overtakes_is_no_error() -> None:
    """The parts of an upload are gone while the second request still reads them."""
    result = explored(schedules=12, scenario="completed", faults={"crash": 0, "power_loss": 0})
    assert not result.counterexamples, result.counterexamples[0].reason


def _count(world: World, counted: dict[str, int]) -> dict[str, int]:
    states = {process.name: process.state for process in world.processes}
    counted["runs"] += 1
    counted["recovered"] += states["recovery"] == "done"
    return {}


@pytest.mark.parametrize("safeguard", ["directory-flush", "key-lock"])
def test_the_model_does_not_follow_a_run_without_a_safeguard(safeguard: str) -> None:
    """It misses the call: no other property of this schedule fails."""

    def program(world: World) -> None:
        world.share_nothing()
        run = ScenarioRun(world, SYSTEM.without(safeguard), followed=True)
        SCENARIOS["replaces"](run)

    result = audit(program, budget=Budget(crash=0, reply_lost=0), steps_max=1000, schedules=1)
    (failure,) = result.counterexamples
    assert failure.property == "lockstep"


class Topics:
    def __init__(self) -> None:
        self.seen: set[str] = set()

    def noted(self, _process: str, _incarnation: int, topic: str, _value: Any) -> None:
        self.seen.add(topic)

    def landed(self, *_: Any) -> None: ...
    def called(self, *_: Any) -> None: ...
    def state(self) -> Any: ...


def test_replay_reads_nothing_of_a_trace_without_the_calls() -> None:
    """Otherwise it would judge half a run."""
    topics = Topics()

    def program(world: World) -> None:
        world.share_nothing()
        world.configure(stamped=False, ticks=0)
        SCENARIOS["creates"](ScenarioRun(world, followed=True))
        world.follow("topics", topics)

    audit(program, budget=Budget(**{**NO_FAULTS, "crash": 1}), steps_max=1000, schedules=4)
    assert "answer to ann" in topics.seen
    assert not {topic.partition(" ")[0] for topic in topics.seen} & ObjectsRefinement.notes
