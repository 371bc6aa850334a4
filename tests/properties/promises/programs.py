"""Random small programs of requests, and every order of their steps as the observations of a promise."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from fencepost.properties.promises import Observation, digest_of
from fencepost.properties.promises.observation import (
    CRASH,
    DELETE,
    END,
    LIST,
    LOOK,
    NOTE,
    READ,
    REFUSED,
    SENT,
    WRITE,
)

START_NS = 1_700_000_000 * 10**9
BODIES = (b'["d/1"]', b"[]", b'{"state": "done"}', b'{"state": "new", "n": 2}', b'{"n": 1}', b'["d/1", 7]')
Step = tuple[str, str, bytes, bool]
"""Kind, key, body, and whether the reply is lost."""


@dataclass(frozen=True)
class Actor:
    """A process between two steps."""

    name: str
    left: tuple[Step, ...]
    memory: tuple[Any, ...] = ()
    """Answers since it started."""
    etags: tuple[tuple[str, str], ...] = ()
    life: int = 0
    number: int = 0
    ended: bool = False


@dataclass(frozen=True)
class State:
    """The world between two steps, without the promise."""

    actors: tuple[Actor, ...]
    store: tuple[tuple[str, bytes], ...] = ()
    flights: tuple[Observation, ...] = ()
    notes: tuple[tuple[str, str, bytes], ...] = ()
    jumps: tuple[int, ...] = ()
    clock_ns: int = START_NS


KINDS = ("put", "create", "swap", "delete", "get", "head", "list", "note", "late")


def random_state(draw: Random, keys: tuple[str, ...]) -> State:
    """A program of few kinds of steps and contents: so its runs meet in one state again and again."""
    kinds = [*draw.sample(KINDS, 3), draw.choice(("put", "delete", "get"))]
    bodies = draw.sample(BODIES, draw.choice((1, 2)))
    topics = draw.choice((("topic",), ("topic",), ("begin", "commit")))
    scripts = []
    for _ in range(2):
        script: list[Step] = []
        for _ in range(draw.choice((2, 3))):
            kind = draw.choice(kinds)
            key = draw.choice(topics if kind == "note" else keys)
            script.append((kind, key, draw.choice(bodies), draw.random() < 0.3))
        if draw.random() < 0.6:
            script.insert(draw.randint(1, len(script)), ("crash", "", b"", False))
        scripts.append(tuple(script))
    begin = [(key, draw.choice(bodies)) for key in keys if draw.random() < 0.4]
    jumps = draw.choice(((), (), (30 * 10**9,)))
    return State(
        tuple(Actor(name, script) for name, script in zip("ab", scripts, strict=True)),
        tuple(begin),
        jumps=jumps,
    )


def successors(state: State) -> Iterator[tuple[Any, Observation | None, State]]:
    """Every step that is possible: who takes it, what a promise sees of it, and the state after it."""
    if state.jumps:
        later = replace(state, jumps=state.jumps[1:], clock_ns=state.clock_ns + state.jumps[0])
        yield "clock", None, later
    for at, flight in enumerate(state.flights):
        seen = replace(flight, kind=WRITE, late=True, acknowledged=False, t_ns=state.clock_ns)
        store = {**dict(state.store), flight.key: flight.body or b""}
        left = state.flights[:at] + state.flights[at + 1 :]
        yield (
            f"late {flight.process} {flight.number}",
            seen,
            replace(state, store=tuple(sorted(store.items())), flights=left),
        )
    for at, actor in enumerate(state.actors):
        if not actor.ended:
            seen, after, actor = taken(state, actor)
            actors = (*state.actors[:at], actor, *state.actors[at + 1 :])
            yield actor.name, seen, replace(after, actors=actors)


def taken(state: State, actor: Actor) -> tuple[Observation, State, Actor]:
    """The next step of a process."""
    common: dict[str, Any] = {
        "process": actor.name,
        "strand": actor.name,
        "incarnation": actor.life,
        "number": actor.number,
        "t_ns": state.clock_ns,
    }
    if not actor.left:
        ended = replace(actor, ended=True, memory=(), etags=())  # nobody asks what it knew
        return Observation(END, value=len(actor.memory) % 2 == 0, **common), state, ended
    (kind, key, body, lost), left = actor.left[0], actor.left[1:]
    actor = replace(actor, left=left, number=actor.number + 1)
    store = dict(state.store)
    there = store.get(key)
    common |= {"key": key, "acknowledged": not lost}
    asked: dict[str, Any] = {"asked": WRITE, "body": body, "digest": digest_of(body), "etag": digest_of(body)}
    conditions = {"put": "anything", "late": "anything", "create": "absent", "swap": "matches"}
    asked["condition"] = conditions.get(kind, "")
    answer: Any = "ok"
    if kind == "crash":
        fresh = replace(actor, memory=(), etags=(), life=actor.life + 1)
        return Observation(CRASH, **{**common, "key": "", "acknowledged": True}), state, fresh
    if kind == "note":
        seen = Observation(NOTE, **{**common, "acknowledged": True}, value=body.decode())
        state = replace(state, notes=(*state.notes, (actor.name, key, body)))
    elif kind == "late":
        seen = Observation(SENT, **{**common, "acknowledged": True}, **asked)
        flights = sorted((*state.flights, seen), key=lambda one: (one.process, one.number))
        state = replace(state, flights=tuple(flights))
    elif kind in ("get", "head"):
        content = there if kind == "get" else None
        answer, kind = (kind, there), READ if kind == "get" else LOOK
        etag = "" if there is None else digest_of(there)
        seen = Observation(kind, **common, exists=there is not None, body=content, etag=etag)
        if not lost:
            actor = replace(actor, etags=tuple(sorted({**dict(actor.etags), key: etag}.items())))
    elif kind == "list":
        prefix = key.partition("/")[0]
        listed = tuple(sorted(one for one in store if one.startswith(prefix)))
        answer = listed
        seen = Observation(LIST, **{**common, "key": prefix}, listed=listed)
    elif kind == "delete":
        if there is None:
            seen = Observation(REFUSED, **common, asked=DELETE, condition="anything", outcome="done")
        else:
            del store[key]
            seen = Observation(DELETE, **common, asked=DELETE, condition="anything", outcome="done")
    else:
        expected = dict(actor.etags).get(key, "")
        applies = {
            "put": True,
            "create": there is None,
            "swap": there is not None and expected == digest_of(there),
        }[kind]
        if applies:
            store[key] = body
            seen = Observation(WRITE, **common, **asked, outcome="done")
        else:
            outcome = "exists" if kind == "create" else "changed" if there is not None else "missing"
            seen = Observation(REFUSED, **common, **asked, outcome=outcome)
        answer = seen.outcome
        if applies and not lost:
            etags = {**dict(actor.etags), key: digest_of(body)}
            actor = replace(actor, etags=tuple(sorted(etags.items())))
    actor = replace(actor, memory=(*actor.memory, "unknown" if lost else answer))
    return seen, replace(state, store=tuple(sorted(store.items()))), actor
