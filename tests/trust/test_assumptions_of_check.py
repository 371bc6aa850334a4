"""What `check` assumes: each test shows a mistake that its verdict misses where the assumption is false."""

from typing import ClassVar

from fencepost.model import (
    Bool,
    Each,
    Enum,
    Int,
    Machine,
    Size,
    Truth,
    action,
    always_recoverable,
    check,
    eventually,
    implies,
    invariant,
    may_end,
    together,
    walk,
    without,
)


class Ticket(Machine):
    """Clients that each take the next ticket; there are three tickets."""

    clients = Size(3, most=6)
    next = Int(0, 3)
    mine = Each(clients, Int(0, 6))

    @action(c=clients)
    def take(s, c: int) -> None:
        s.require(s.mine[c] == 0)
        s.mine[c] = s.next + 1
        s.next = (s.next + 1) % 3

    @invariant(c=clients, d=clients)
    def different(s, c: int, d: int) -> Truth:
        return implies((s.mine[c] > 0) & (c != d), s.mine[c] != s.mine[d])

    @may_end
    def all_taken(s) -> Truth:
        return ~s.mine.any(0)


def test_a_mistake_that_needs_one_more_node_is_missed() -> None:
    assert check(Ticket).verdict == "holds"
    assert check(Ticket, {"clients": 4}).verdict == "violated"


class Sender(Machine):
    """A message that is confirmed once; with `loses` off nothing is ever lost."""

    assumptions: ClassVar = {"no-loss": "no message is lost"}
    at = Enum("new", "sent", "confirmed", "lost")

    @action
    def send(s) -> None:
        s.require(s.at == "new")
        s.at = "sent"

    @action
    def confirm(s) -> None:
        s.require(s.at == "sent")
        s.at = "confirmed"

    def may_lose(s) -> Truth:
        return Truth.constant(False)

    loses = without("no-loss", replaces=may_lose)(lambda s: True)

    @action
    def lose(s) -> None:
        s.require(s.at == "sent", s.may_lose())
        s.at = "lost"

    @may_end
    def over(s) -> Truth:
        return s.at.is_in("confirmed", "lost")

    @always_recoverable
    def confirmable(s) -> Truth:
        return s.at == "confirmed"


def test_a_fault_that_is_not_modelled_is_missed() -> None:
    assert check(Sender).verdict == "holds"
    assert check(Sender, without=["no-loss"])["confirmable"].verdict == "violated"


class Added(Machine):
    """Two clients that each add one, in one step."""

    total = Int(0, 2)
    done = Each(2, Bool())

    @action(c=2)
    def add(s, c: int) -> None:
        s.require(~s.done[c])
        s.total = s.total + 1
        s.done[c] = True

    @invariant
    def all_counted(s) -> Truth:
        return implies(s.done[0] & s.done[1], s.total == 2)

    @may_end
    def over(s) -> Truth:
        return s.done[0] & s.done[1]


class AddedInTwoSteps(Added):
    """The same clients, which read first and write then."""

    read = Each(2, Int(-1, 2))

    @action(c=2)
    def look(s, c: int) -> None:
        s.require(s.read[c] == -1, ~s.done[c])
        s.read[c] = s.total

    @action(c=2)
    def add(s, c: int) -> None:
        s.require(s.read[c].is_in(0, 1), ~s.done[c])
        s.total = s.read[c] + 1
        s.done[c] = True


def test_a_race_inside_of_an_action_is_missed() -> None:
    assert check(Added).verdict == "holds"
    assert check(AddedInTwoSteps)["all_counted"].verdict == "violated"


def test_a_property_about_nothing_holds() -> None:
    class Vacuous(Added):
        @invariant
        def all_counted(s) -> Truth:
            return implies(s.total == 2, s.done[0] | s.done[1])

        @invariant
        def after_both(s) -> Truth:
            return implies((s.total == 0) & s.done[0], s.done[1])

    result = check(Vacuous)
    assert result.verdict == "holds"
    assert any("after_both has an implication" in warning for warning in result.vacuity_warnings)


class Lamp(Machine):
    """A lamp that can always be switched off, and that nobody has to."""

    on = Enum("off", "dim", "bright")

    @action
    def brighter(s) -> None:
        s.require(s.on != "bright")
        s.on = "bright"

    @action
    def dimmer(s) -> None:
        s.require(s.on != "dim")
        s.on = "dim"

    @action
    def switch_off(s) -> None:
        s.require(s.on == "dim")
        s.on = "off"

    @always_recoverable
    def can_be_dark(s) -> Truth:
        return s.on == "off"

    @eventually(fair=(together(),))
    def is_bright(s) -> Truth:
        return s.on == "bright"


def test_what_can_be_recovered_need_not_be() -> None:
    result = check(Lamp)
    assert result["can_be_dark"].verdict == "holds"
    assert result["is_bright"].verdict == "violated"


class Combination(Machine):
    """A lock with one right sequence of sixteen steps in 65,536."""

    opened = Int(0, 16)

    @action(right=(False, True))
    def turn(s, right: bool) -> None:
        s.require(s.opened < 16)
        s.opened = s.opened + 1 if right else 0

    @invariant
    def closed(s) -> Truth:
        return s.opened < 16

    @may_end
    def over(s) -> Truth:
        return s.opened == 16


def test_walks_miss_a_rare_state() -> None:
    assert walk(Combination, walks=100, steps=20)["closed"].verdict == "undecided"
    assert check(Combination)["closed"].verdict == "violated"
