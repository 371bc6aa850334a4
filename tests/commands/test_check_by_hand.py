"""`fencepost check --explore`: a person walks a model, and a stream of answers walks it the same way."""

import io

import pytest

from fencepost.commands.check_by_hand import Walk
from fencepost.commands.exit_codes import Exit
from fencepost.commands.models import SHIPPED, find_machine
from fencepost.model import Bool, Each, Machine, Model, Size, Stepper, Truth, action, eventually, leads_to
from tests.commands.running import exit_of


def walked(
    answers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    words = ["check", "two-phase", "--set", "managers=1", "--explore", *more]
    assert exit_of(*words) == Exit.HOLDS
    return capsys.readouterr().out


def test_steps_back_and_the_counterexample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = walked("1\n0\nb\nt\nq\n", monkeypatch, capsys)
    assert "1  prepare(m=0)  manager[0]: working -> prepared" in output
    counterexample = output[output.index("0. start") :]
    assert "1. prepare(m=0)" in counterexample
    assert "2. " not in counterexample


def test_state_and_properties(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    output = walked("s\np\nq\n", monkeypatch, capsys)
    assert "decision: init" in output
    assert "agreement: holds here" in output
    assert "all_commit (reachable): not met here" in output


def test_a_broken_property_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("commit\n0\nq\n"))
    words = ["check", "two-phase", "--set", "managers=2", "--without", "all-prepared", "--explore"]
    assert exit_of(*words) == Exit.HOLDS
    output = capsys.readouterr().out
    assert "'commit' is not offered" in output
    assert "BROKEN" not in output


def test_the_end_of_the_input_ends_the_walk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nothing can happen here" not in walked("", monkeypatch, capsys)


def test_what_is_not_offered_is_refused_with_what_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = walked("99\nx\nb\nq\n", monkeypatch, capsys)
    assert "'99' is not offered" in output
    assert "'x' is not offered" in output
    assert "this is the start" in output


class Waiting(Machine):
    """Two clients ask for something and get it."""

    clients = Size(2)
    wants = Each(clients, Bool())
    has = Each(clients, Bool())

    @action(c=clients)
    def ask(self, c: int) -> None:
        self.require(~self.wants[c])
        self.wants[c] = True

    @action(c=clients)
    def give(self, c: int) -> None:
        self.require(self.wants[c] & ~self.has[c])
        self.has[c] = True

    @leads_to(fair=("give",), c=clients)
    def granted(self, c: int) -> tuple[Truth, Truth]:
        """Who asks gets it."""
        return self.wants[c], self.has[c]

    @eventually(fair=("ask",), c=clients)
    def asked(self, c: int) -> Truth:
        """Everybody asks."""
        return self.wants[c]


def test_every_choice_of_the_parameters_of_a_property_of_runs_is_shown() -> None:
    model = Model(Waiting)
    walk = Walk(model, Stepper(model).initial()[0])
    walk.take(*next(choice for choice in walk.choices() if str(choice[0]) == "ask(c=1)"))
    lines = [*walk.properties()]
    assert "granted(c=0) (leads_to): not met here, its goal is not met here  Who asks gets it." in lines
    assert "granted(c=1) (leads_to): met here, its goal is not met here  Who asks gets it." in lines
    assert "asked(c=1) (eventually): met here  Everybody asks." in lines


@pytest.mark.parametrize("name", [name for name in SHIPPED if name])
def test_the_properties_of_every_shipped_model_can_be_shown(name: str) -> None:
    model = Model(find_machine(name))
    walk = Walk(model, Stepper(model).initial()[0])
    for _ in range(2):
        shown = "\n".join(walk.properties())
        assert all(each.name in shown for each in model.properties)
        walk.take(*walk.choices()[0])
