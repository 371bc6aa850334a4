"""Kinds of properties of a world, each a class with its decision procedure.

A check returns nothing or True (fine), False, or a text with the reason, or raises AssertionError. For
`eventually` and `sometimes` it returns True once the good thing has happened.

    always      holds after every step.
    eventually  happens at some time in every run.
    sometimes   happens at some time in some run, else that is a finding.
    finally     holds at the end of every run.
    step        holds between every two neighbouring states, also where nothing changes.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world import check_state
from fencepost.sim.world.footprints import EVERY_STEP
from fencepost.sim.world.located import AuditError, line_of, users_lines_of
from fencepost.sim.world.view import View

Check = Callable[..., Any]


class FalseAtRest(Misuse):
    """A step property is false for a step that changes nothing."""


class Views:
    """The views that a property may be judged by."""

    __slots__ = ("now", "past", "unchanged")

    def __init__(self, now: View, unchanged: View) -> None:
        self.now = now
        self.unchanged = unchanged
        """Second view of the present state."""
        self.past: View | None = None
        """View of the state before the present step, if a property compares the two."""

    def keep(self, past: View) -> None:
        self.past = past


class Property:
    """One named check, and its state in this run."""

    kind: ClassVar[str]
    at_steps: ClassVar[bool] = True
    """Judged after every step that changes something it reads."""
    at_end: ClassVar[bool] = False
    """Judged at the end of a run."""
    compares_steps: ClassVar[bool] = False
    """Judged by the states before and after a step."""
    can_be_violated: ClassVar[bool] = True
    is_liveness: ClassVar[bool] = False
    """Only an infinite run can violate it."""
    lasts: ClassVar[bool] = False
    """Must hold again wherever nothing that it reads has changed."""

    __slots__ = ("bit", "check", "looked", "met", "name", "reads", "state", "tested", "when")

    def __init__(self, name: str, check: Check, *, when: Check | None = None, repeats: bool = True) -> None:
        """`when`: judge only states in which this is true. `repeats`: runs are repeated and merged, so that
        a check with state of its own is refused.
        """
        self.name = name
        self.check = check
        self.when = when
        self.tested = 0
        """Number of times that it was judged in this run where `when` was true."""
        self.reads = 0
        """Mask of the objects that it read when it was judged last."""
        self.looked = 0
        """Mask of all objects that it read while it was judged for the present step."""
        self.bit = 0
        """The property as an object of footprints."""
        self.met = False
        """True once the good thing has happened in this run (eventually, sometimes)."""
        self.state = check_state.CheckState(check) if repeats else None

    # Decisions.

    def judge_first(self, views: Views) -> str | None:
        """Judge when the processes have started; return the reason of a violation."""
        return self.judge(views.now)

    def judge_step(self, views: Views) -> str | None:
        """Judge after a step; return the reason of a violation."""
        return self.judge(views.now)

    def decide(self, verdict: Any) -> str | None:
        """Return the reason of a violation, given what the check returned."""
        if verdict is None or verdict is True:
            return None
        return verdict if isinstance(verdict, str) else "the check returned False"

    @property
    def is_missed(self) -> bool:
        """True if the good thing had to happen in this run, and has not happened yet."""
        return False

    @property
    def is_wanted(self) -> bool:
        """True if the good thing should happen in some run."""
        return False

    @property
    def is_open(self) -> bool:
        """True if a run that is cut here leaves the property undecided."""
        return self.is_missed

    # The procedure that all kinds share.

    def judge(self, *views: View) -> str | None:
        """Call the check and return the reason of a violation. A step property gets two views."""
        for view in views:
            view.begin()
        before = None if self.state is None or self.state.empty else self.state.take()
        try:
            verdict = self.check(*views) if self._applies(views) else None
        except AssertionError as failure:
            verdict = reason_of(failure)
        except Exception as error:
            if self.state is None:  # a real run, where also the store may fail
                verdict = f"the check itself raised {type(error).__name__}: {error}"
            else:
                text = f"the check of {self.name!r} raised {type(error).__name__}: {error}"
                raise AuditError(text, users_lines_of(error)) from error
        if self.state is not None and before is not None and self.at_steps:
            self.state.compare(before, self.name, "while it ran")
        reads = 0
        for view in views:
            reads |= view.mask & ~EVERY_STEP
        self.reads = self.looked = reads
        return self.decide(verdict)

    def _applies(self, views: Sequence[View]) -> bool:
        if self.when is not None and not self.when(views[-1]):
            return False
        self.tested += 1
        return True

    def judge_again(self, view: View) -> None:
        """Raise an AuditError if the check fails where nothing that it reads has changed since it held."""
        tested = self.tested
        reason = self.judge(view)
        self.tested = tested
        if reason is not None:
            raise AuditError(
                f"the check of {self.name!r} fails ({reason}) although nothing that it reads "
                "through its view has changed since it held: it depends on what changes without the "
                "world, such as a variable that processes share; note the value with world.note, and "
                "read view.notes in the check",
                (line_of(self.check),) if hasattr(self.check, "__code__") else (),
            )

    def watch(self, bit: int) -> None:
        """Take part in footprints under this bit."""
        self.bit = bit

    def restore(self, reads: int, met: bool) -> None:
        """Continue from an earlier run with the same beginning."""
        self.reads = reads
        self.met = met

    def rest(self) -> None:
        """Read nothing: the good thing has happened, and the rest of the run cannot change that."""
        self.reads = self.looked = 0

    def forget(self) -> None:
        """Judge anew whether the good thing has happened."""
        self.met = False


class Always(Property):
    """Must hold after every step."""

    kind = "always"
    lasts = True

    __slots__ = ()


class Eventually(Property):
    """Must happen at some time in every run."""

    kind = "eventually"
    at_end = True
    is_liveness = True

    __slots__ = ()

    def judge_step(self, views: Views) -> str | None:
        if self.met:
            self.rest()
            return None
        return self.judge(views.now)

    judge_first = judge_step

    def decide(self, verdict: Any) -> str | None:
        if verdict is not None and not isinstance(verdict, str) and verdict:
            self.met = True
        return None

    @property
    def is_missed(self) -> bool:
        return not self.met


class Sometimes(Eventually):
    """Should happen at some time in some run; else that is a finding."""

    kind = "sometimes"
    can_be_violated = False
    is_liveness = False

    __slots__ = ()

    @property
    def is_missed(self) -> bool:
        return False

    @property
    def is_wanted(self) -> bool:
        return True


class Finally(Property):
    """Must hold at the end of every run."""

    kind = "finally"
    at_steps = False
    at_end = True

    __slots__ = ()

    @property
    def is_open(self) -> bool:
        return True


class StepProperty(Property):
    """Must hold for every step, and where nothing changes."""

    kind = "step"
    compares_steps = True

    __slots__ = ()

    def judge_first(self, views: Views) -> str | None:
        reason = self.judge(views.unchanged, views.now)
        if reason is not None:
            raise FalseAtRest(
                f"step_property({self.name!r}) is false for a step that changes nothing ({reason}); it "
                "must hold there, because steps that change nothing it reads are not judged"
            )
        return None

    def judge_step(self, views: Views) -> str | None:
        """Judge the last step, and find the objects that the check reads where nothing changes."""
        assert views.past is not None, "the state before a step is kept while the monitor judges"
        reason = self.judge(views.past, views.now)
        if reason is not None:
            return reason
        looked = self.looked
        try:
            return self.judge_first(views)
        finally:
            self.looked |= looked


KINDS: dict[str, type[Property]] = {
    one.kind: one for one in (Always, Eventually, Sometimes, Finally, StepProperty)
}


def reason_of(failure: AssertionError) -> str:
    """Return the message without what pytest adds below it, which names objects by their address."""
    text = str(failure).split("\nassert ")[0]
    return (text.split("\n")[0] if text.startswith("assert ") else text) or "an assertion of the check failed"
