"""Any model under Hypothesis: one row at a time, every property after every step.

    from fencepost.model.textbook.two_phase import TwoPhase
    from fencepost.properties.stateful_model import machine_for

    TestTwoPhase = machine_for(TwoPhase, {"managers": 2}).TestCase

A failure prints the steps as they can be pasted, and so does `Stepper.label`:

    state = TwoPhaseMachine()
    state.begin_at(start=0)
    state.step(label='commit()')
    state.step(label='hear_commit(m=1)')
    state.teardown()

`check` decides small machines completely and reports the shortest counterexample. This class drives the same
machine as a stateful test drives a system. So it also explores models that are too large to finish, and runs
in any test suite. A derived class can keep a real system beside the model (override `took`). It also
exercises the kernel in a second way: one row, no batches.

It checks invariants in every state, step properties at every step, and that no run ends in a state where
the machine does not allow it. `reachable`, `eventually` and `always_recoverable` are about all runs at
once; single runs cannot decide them.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fencepost.model import NO_DEADLOCK, Counterexample, Label, Machine, Model, State, Stepper
from fencepost.model import Step as CounterexampleStep


class Broken(AssertionError):
    """The model broke one of its properties on this run."""


class ModelMachine(RuleBasedStateMachine):
    """Walks one model; `machine_for` makes a class of it for each."""

    stepper: Stepper
    around: "Around"
    starts: list[State]

    here: State
    enabled: dict[str, tuple[Label, State]]

    def __init__(self) -> None:
        super().__init__()
        self.states: list[State] = []
        self.labels: list[Label] = []

    def took(self, label: Label, before: State, after: State) -> None:
        """Called after every step; a derived class keeps a system in step with the model here."""

    def enter(self, state: State) -> None:
        """Enter a state: check it, and compute what may happen next."""
        before = self.states[-1] if self.states else None
        self.states.append(state)
        self.here = state
        self.enabled, broken = self.around(state)
        if before is not None:
            broken = self.stepper.broken(state, before) or broken
        if broken:
            raise Broken("\n".join([f"{', '.join(broken)} is violated:", *self.counterexample().lines()]))

    def counterexample(self) -> Counterexample:
        steps = tuple(
            CounterexampleStep(
                number, label.action, dict(label.parameters), self.stepper.changes(before, after)
            )
            for number, (label, before, after) in enumerate(
                zip(self.labels, self.states, self.states[1:], strict=False), start=1
            )
        )
        return Counterexample(self.states[0].values, steps)

    def begin_at(self, start: int) -> None:
        """Enter one of the initial states."""
        self.enter(self.starts[start])

    @precondition(lambda self: self.enabled)
    @rule(label=st.runner().flatmap(lambda self: st.sampled_from(list(self.enabled))))
    def step(self, label: str) -> None:
        chosen, after = self.enabled[label]
        self.labels.append(chosen)
        before = self.here
        self.enter(after)
        self.took(chosen, before, after)

    @precondition(lambda self: not self.enabled)
    @rule()
    def ended(self) -> None:
        """Nothing can happen any more, and the machine allows that."""


Around = Callable[[State], tuple[dict[str, tuple[Label, State]], list[str]]]
"""For a state: its enabled labels with where they lead, and what it breaks by itself."""


def machine_for(
    machine: type[Machine] | Model,
    sizes: Mapping[str, int] | None = None,
    *,
    without: Iterable[str] = (),
    deadlock: bool = True,
) -> type[ModelMachine]:
    """A Hypothesis state machine that drives this model; its `.TestCase` is a test."""
    model = machine if isinstance(machine, Model) else Model(machine, sizes, without=without)
    stepper = Stepper(model)
    starts = stepper.initial()

    @lru_cache(_REMEMBERED)
    def around(state: State) -> tuple[dict[str, tuple[Label, State]], list[str]]:
        enabled = {str(label): (label, after) for label, after in stepper.successors(state)}
        stuck = deadlock and not enabled and not stepper.may_end(state)
        return enabled, [*stepper.broken(state), *([NO_DEADLOCK] if stuck else [])]

    begin = initialize(start=st.integers(0, len(starts) - 1))(ModelMachine.begin_at)
    parts = {
        "stepper": stepper,
        "around": staticmethod(around),
        "starts": starts,
        "begin": begin,
    }
    return type(f"{model.machine.__name__}Machine", (ModelMachine,), parts)


_REMEMBERED = 1 << 14
"""States whose successors are cached: shrinking takes the same ways again and again."""
