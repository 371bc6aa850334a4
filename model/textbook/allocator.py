"""A resource allocator: a client that asks is served in the end.

Clients ask for sets of resources and return them once they got all. Two clients that each hold a resource
that the other one needs would wait forever, so a client gets its whole request, or nothing yet. That needs
strong fairness: with two clients the resources of a request are not free all the time, but again and again.
(With three they need not be: two clients can take turns so that they never are.)
"""

from fencepost.model import *


class Allocator(Machine):
    """Clients that ask for resources, and an allocator that gives what is free."""

    clients = Size(2, doc="clients")
    resources = Size(2, doc="resources", most=6)

    safeguards = {
        "all-at-once": "a client gets all that it asked for, or nothing",
    }

    symmetric = ("clients", "resources")

    asked = Each(clients, Flags(resources))
    held = Each(clients, Flags(resources))

    @action(c=clients, some=Subsets(resources, least=1))
    def request(s, c: int, some: frozenset[int]) -> None:
        s.require(s.asked[c].is_empty() & s.held[c].is_empty())
        s.asked[c] = some

    @action(c=clients, some=Subsets(resources, least=1))
    def allocate(s, c: int, some: frozenset[int]) -> None:
        s.require(*(s.asked[c].has(r) & s.is_free(r) for r in some))
        s.require(s.may_give(c, some))
        s.asked[c] = s.asked[c] - some
        s.held[c] = s.held[c] | some

    @action(c=clients, some=Subsets(resources, least=1))
    def give_back(s, c: int, some: frozenset[int]) -> None:
        s.require(s.asked[c].is_empty(), *(s.held[c].has(r) for r in some))
        s.held[c] = s.held[c] - some

    def is_free(s, r: int) -> Truth:
        return ~any_of(s.held[c].has(r) for c in range(s.clients))

    def may_give(s, c: int, some: frozenset[int]) -> Truth:
        return s.asked[c] == some

    @without("all-at-once", replaces=may_give)
    def may_give_a_part(s, c: int, some: frozenset[int]) -> bool:
        return True

    @invariant
    def exclusion(s) -> Truth:
        """No resource is held twice."""
        held = s.held
        return all_of((held[c] & held[d]).is_empty() for c in range(s.clients) for d in range(c))

    @leads_to(fair=(together("give_back", by="c"),), strong=(together("allocate", by="c"),), c=clients)
    def served(s, c: int) -> tuple[Truth, Truth]:
        """A client that asks gets all of it in the end."""
        return ~s.asked[c].is_empty(), s.asked[c].is_empty()
