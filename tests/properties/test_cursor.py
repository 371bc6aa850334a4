"""`impl/cursor` beside its model: after every step of the machine the object is as the model has it."""

from typing import Any

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.cursor import Cursor, Pace
from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.layers import Effect, Fault, Faulty
from fencepost.impl.store.memory import MemoryStore
from fencepost.model import Label, State
from fencepost.model.cursor import Cursor as Model
from fencepost.properties.stateful_model import machine_for
from tests.depth import examples

KEY = "cursors/v1/test.json"
RETRY = RetryPolicy("test", RuntimeError, attempts=4, backoff_s=0.01)
SIZES = {"entries": 3, "late": 0, "losses": 0, "rewinds": 2, "troubles": 1}
"""Lateness and losses are between the reader and the log, not the cursor's."""
FILLED = [step for i in range(SIZES["entries"]) for step in ("time_passes()", f"appear(i={i})")]
BY_ITSELF = ("time_passes", "appear")


def place(passed: int) -> str:
    """The position when so many entries are passed: the time and the offset of the last one."""
    return f"{(passed - 1) // 2:03}-{(passed - 1) % 2}" if passed else ""


class InStep(machine_for(Model, SIZES)):  # type: ignore[misc]  # the base is made on the spot
    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore(env=SeededEnvironment(1))
        self.readers: dict[int, Cursor] = {}
        self.found: dict[int, str] = {}
        """By reader, the position that it found when it had nothing to save. The code does not read then."""

    def enter(self, state: State) -> None:
        """Begin where the log is whole, so that the steps are those of readers."""
        for label in FILLED if not self.states else ():
            state = self.stepper.step(state, self.stepper.label(label))
        super().enter(state)

    def cursor(self) -> Cursor:
        return Cursor(Context(self.store, self.store.env, retry=RETRY), KEY, pace=Pace(1_000, 1e9))

    def took(self, label: Label, before: State, after: State) -> None:
        chosen = dict(label.parameters)
        r, entry = chosen.get("r"), chosen.get("i")
        reader = self.readers.get(r)
        if label.action == "begin":
            self.readers[r] = self.cursor()
            self.found.pop(r, None)
            assert self.readers[r].start() == place(after.values["reader"][r]["begun"])
        elif label.action == "rewind":
            self.cursor().rewind(place(chosen["target"]))
        elif label.action not in BY_ITSELF:
            assert reader is not None
            self.step_of(reader, label.action, entry, chosen.get("answer"))
            if label.action in ("end", "crash", "find_rewound"):
                del self.readers[r]
            elif after.values["reader"][r]["current"]:
                if label.action == "read_again":
                    self.found[r] = self.saved()[0]
                at = max(reader.position, self.found.get(r, ""))
                assert at == place(after.values["reader"][r]["position"])
        self.compare(after)

    def step_of(self, reader: Cursor, action: str, entry: int | None, answer: str | None) -> None:
        if action == "take":
            reader.take(place(entry + 1))
        elif action == "finish":
            reader.done(place(entry + 1))
        elif action == "save":
            if answer == "reply_lost":
                faulty = Faulty(self.store, [Fault(Effect.REPLY_LOST, {"put"}, times=1)])
                reader.context = Context(faulty, self.store.env, retry=RETRY)
            reader.save()
        elif action == "find_rewound":
            behind = reader.position > reader.saved  # otherwise there is nothing to save, and nothing is read
            reader.save()
            assert reader.is_rewound or not behind
        elif action == "read_again" and reader.position <= self.saved()[0]:
            reader.save()

    def saved(self) -> tuple[str, int]:
        reader = self.cursor()
        reader.start()
        return reader.saved, reader._generation

    def compare(self, state: State) -> None:
        assert self.saved() == (place(state.values["saved"]), state.values["generation"])


def run(driven: Any, count: int) -> None:
    run_state_machine_as_test(
        driven, settings=settings(max_examples=count, stateful_step_count=30, deadline=None, derandomize=True)
    )


def test_the_code_goes_in_step_with_the_model() -> None:
    run(InStep, examples(6, 400))
