"""`fencepost check MODEL --explore`: walk a model by hand, one action at a time."""

from collections.abc import Callable, Iterable, Iterator

import click

from fencepost.commands.exit_codes import Exit
from fencepost.commands.messages import say
from fencepost.model import Counterexample, Label, Model, State, Step, Stepper
from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.report.counterexample import format_value

HELP = (
    "a number takes that action; b back, s state, p properties, t the counterexample so far, h help, q quit"
)


class Walk:
    """The current state, and the steps that led to it."""

    def __init__(self, model: Model, start: State) -> None:
        self.model = model
        self.stepper = Stepper(model)
        self.states = [start]
        self.labels: list[Label] = []

    @property
    def here(self) -> State:
        return self.states[-1]

    def choices(self) -> list[tuple[Label, State]]:
        return self.stepper.successors(self.here)

    def take(self, label: Label, state: State) -> None:
        self.labels.append(label)
        self.states.append(state)

    def back(self) -> bool:
        """Undo the last step; False at the start."""
        if not self.labels:
            return False
        self.labels.pop()
        self.states.pop()
        return True

    def _step(self, number: int, label: Label, before: State, after: State) -> Step:
        parameters = self.stepper.model.parameters(label, before.packed)
        return Step(number, label.action, parameters, self.stepper.changes(before, after))

    def counterexample(self) -> Counterexample:
        steps = tuple(
            self._step(number, label, before, after)
            for number, (label, before, after) in enumerate(
                zip(self.labels, self.states, self.states[1:], strict=False), start=1
            )
        )
        return Counterexample(self.states[0].values, steps)

    def properties(self) -> Iterator[str]:
        """The verdict of every property on this state and the last step."""
        broken = self.stepper.broken(self.here, self.states[-2] if self.labels else None)
        for wanted in self.model.properties:
            if wanted.kind.is_safe_so_far:
                yield f"{wanted.name}: {'BROKEN' if wanted.name in broken else 'holds here'}  {wanted.doc}"
            elif wanted.kind.explores:
                yield f"{wanted.name} ({wanted.kind}): decided by an exploration  {wanted.doc}"
            elif wanted.kind.of_runs:
                yield from self._of_runs(wanted)
            else:
                yield f"{wanted.name} ({wanted.kind}): {self._met(wanted)}  {wanted.doc}"

    def _of_runs(self, wanted: Property) -> Iterator[str]:
        """One line for each choice of the parameters: the goal, and what leads to it."""
        for text, goal, cause in wanted.cases(self.model.sizes):
            name = f"{wanted.name}({text})" if text else wanted.name
            shown = self._met(goal) if cause is None else f"{self._met(cause)}, its goal is {self._met(goal)}"
            yield f"{name} ({wanted.kind}): {shown}  {wanted.doc}"

    def _met(self, wanted: Property) -> str:
        return "met here" if self.model.holds(wanted, self.here.rows()).all() else "not met here"


def walk_by_hand(model: Model) -> int:
    """Let a person at the terminal choose every step, until they quit or the input ends."""
    starts = Stepper(model).initial()
    say(f"{model.name}: {len(starts)} initial state{'s' if len(starts) > 1 else ''}. {HELP}")
    start = starts[0]
    if len(starts) > 1:
        for number, state in enumerate(starts):
            say(f"  {number}  {state}")
        chosen = _prompt("start", len(starts))
        if chosen is None:
            return Exit.HOLDS
        start = starts[int(chosen)] if chosen.isdigit() else start
    walk = Walk(model, start)
    say(str(walk.here))
    while True:
        choices = walk.choices()
        for number, (label, state) in enumerate(choices):
            say(f"  {number}  {label}  {_difference(walk, state)}")
        if not choices:
            say("  nothing can happen here")
        answer = _prompt(f"step {len(walk.labels) + 1}", len(choices))
        if answer is None or answer == "q":
            return Exit.HOLDS
        if answer.isdigit():
            walk.take(*choices[int(answer)])
            _warn(walk)
        else:
            for line in ANSWERS[answer](walk):
                say(line)


def _prompt(prompt: str, count: int) -> str | None:
    """A number below `count` or one of the letters; None when the input ends."""
    while True:
        try:
            answer = click.prompt(prompt, prompt_suffix="> ", default="h", show_default=False).strip().lower()
        except click.Abort:
            say()
            return None
        if (answer.isdigit() and int(answer) < count) or answer in ANSWERS or answer == "q":
            return str(int(answer)) if answer.isdigit() else answer
        say(f"{answer!r} is not offered: {HELP}")


def _difference(walk: Walk, after: State) -> str:
    changes = walk.stepper.changes(walk.here, after)
    return ", ".join(
        f"{name}: {format_value(old)} -> {format_value(new)}" for name, (old, new) in changes.items()
    )


def _warn(walk: Walk) -> None:
    for line in walk.properties():
        if ": BROKEN" in line:
            say(f"  {line}")


def _back(walk: Walk) -> list[str]:
    return [str(walk.here) if walk.back() else "this is the start"]


ANSWERS: dict[str, Callable[[Walk], Iterable[str]]] = {
    "b": _back,
    "s": lambda walk: (f"  {name}: {format_value(value)}" for name, value in walk.here.values.items()),
    "p": lambda walk: (f"  {line}" for line in walk.properties()),
    "t": lambda walk: (f"  {line}" for line in walk.counterexample().lines()),
    "h": lambda _: [HELP],
}
"""The output of each command, by its letter."""
