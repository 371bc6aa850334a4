"""Lamport's bakery: each customer takes a number, and the lowest number is served."""

from fencepost.model import *


class Bakery(Machine):
    """Customers draw numbers, and show them one step later; then they look at the others one by one."""

    customers = Size(2, most=6)
    numbers = Size(4, doc="highest number")

    customer = Process(c=customers)
    drawing = Each(customers, Bool())
    drawn, number = Each(customers, Int(0, numbers)), Each(customers, Int(0, numbers))
    passed = Each(customers, Flags(customers))

    @customer.step
    def come(s, c: int) -> None:
        s.require(most(s.number) + s.customers <= s.numbers)
        s.drawing[c] = True

    @customer.step
    def draw(s, c: int) -> None:
        s.drawn[c] = most(s.number) + 1

    @customer.step
    def show(s, c: int) -> None:
        s.number[c], s.drawn[c], s.drawing[c], s.passed[c] = s.drawn[c], 0, False, {c}

    @customer.step
    def look(s, c: int) -> None:
        s.require(s.passed[c].size() == s.customers)
        s.passed[c] = set()

    @action(c=customers, other=customers)
    def passes(s, c: int, other: int) -> None:
        s.require(s.customer[c] == "look", ~s.passed[c].has(other), ~s.drawing[other])
        mine, others = s.number[c], s.number[other]
        s.require((others == 0) | (mine < others) | (mine == others) & (c < other))
        s.passed[c] = s.passed[c].plus(other)

    @customer.step
    def served(s, c: int) -> None:
        pass

    @customer.step(then="come")
    def leave(s, c: int) -> None:
        s.number[c] = 0

    exclusion = invariant("One customer is served at a time.")(lambda s: s.customer.count("served") <= 1)

    @leads_to(
        fair=(together("come", "draw", "show", "look", "passes", "served", "leave", by="c"),), c=customers
    )
    def is_served(s, c: int) -> tuple[Truth, Truth]:
        """A customer with a number is served."""
        return s.customer[c] == "look", s.customer[c] == "served"
