"""German's cache coherence: a home, caches that share or own a line, three channels of one message each."""

from fencepost.model import *


class German(Machine):
    """A home grants copies of one line, and takes them back before it grants an exclusive one."""

    nodes = Size(3, doc="caches")
    values = Size(2, doc="values of the line")
    symmetric = ("nodes",)

    cache = Each(nodes, Record(state=Enum("invalid", "shared", "exclusive"), value=Id(values)))
    request = Each(nodes, Enum("none", "shared", "exclusive"))
    answer = Each(nodes, Record(type=Enum("none", "shared", "exclusive", "invalidate"), value=Id(values)))
    returned = Each(nodes, Record(there=Bool(), value=Id(values)))
    granted, pending = Flags(nodes), Flags(nodes)  # caches with a copy; those that must still return it
    is_exclusive = Bool()
    serving = Enum("none", "shared", "exclusive")
    client = Id(nodes)
    memory, latest = Id(values), Id(values)

    @action(n=nodes, wanted=("shared", "exclusive"))
    def ask(s, n: int, wanted: str) -> None:
        s.require(s.request[n] == "none", s.cache[n].state.is_in("invalid", "shared"))
        s.require((wanted == "exclusive") | (s.cache[n].state == "invalid"))
        s.request[n] = wanted

    @action(n=nodes)
    def serve(s, n: int) -> None:
        s.require(s.serving == "none", s.request[n] != "none")
        s.serving, s.client, s.pending = s.request[n], n, s.granted
        s.request[n] = "none"

    @action(n=nodes)
    def invalidate(s, n: int) -> None:
        s.require(s.answer[n].type == "none", s.pending.has(n))
        s.require((s.serving == "exclusive") | ((s.serving == "shared") & s.is_exclusive))
        s.answer[n] = {"type": "invalidate", "value": 0}
        s.pending = s.pending.minus(n)

    @action(n=nodes)
    def give_back(s, n: int) -> None:
        s.require(s.answer[n].type == "invalidate", ~s.returned[n].there)
        s.returned[n] = {"there": True, "value": pick(s.cache[n].state == "exclusive", s.cache[n].value, 0)}
        s.answer[n] = {"type": "none", "value": 0}
        s.cache[n] = {"state": "invalid", "value": 0}

    @action(n=nodes)
    def take_back(s, n: int) -> None:
        s.require(s.returned[n].there, s.serving != "none")
        s.memory = pick(s.is_exclusive, s.returned[n].value, s.memory)
        s.returned[n] = {"there": False, "value": 0}
        s.granted, s.is_exclusive = s.granted.minus(n), False

    @action(n=nodes)
    def grant(s, n: int) -> None:
        s.require(s.serving != "none", s.client == n, s.answer[n].type == "none", ~s.is_exclusive)
        s.require((s.serving == "shared") | s.granted.is_empty())
        s.answer[n] = {"type": pick(s.serving == "shared", "shared", "exclusive"), "value": s.memory}
        s.granted, s.is_exclusive, s.serving = s.granted.plus(n), s.serving == "exclusive", "none"

    @action(n=nodes)
    def receive(s, n: int) -> None:
        s.require(s.answer[n].type.is_in("shared", "exclusive"))
        state = pick(s.answer[n].type == "shared", "shared", "exclusive")
        s.cache[n] = {"state": state, "value": s.answer[n].value}
        s.answer[n] = {"type": "none", "value": 0}

    @action(n=nodes, v=values)
    def store(s, n: int, v: int) -> None:
        s.require(s.cache[n].state == "exclusive")
        s.cache[n] = s.cache[n].but(value=v)
        s.latest = v

    @invariant
    def coherence(s) -> Truth:
        """Beside an exclusive copy there is no other."""
        owners = s.cache.count(lambda c: c.state == "exclusive")
        return (owners == 0) | ((owners == 1) & ~s.cache.any(lambda c: c.state == "shared"))

    @invariant
    def freshness(s) -> Truth:
        """Every copy has the value that was stored last."""
        return s.cache.all(lambda c: (c.state == "invalid") | (c.value == s.latest))
