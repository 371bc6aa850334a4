"""The most that each verb costs, over every order and every fault that the audit tries.

Counted from the steps of a run, not by the code: requests, bytes both ways (bodies only), and serial hops,
where the requests of one parallel step are one hop. A request whose reply was lost counts, and so does its
repetition. Everything outside a verb is opening (a handle that starts, recovery included) or closing.

    publish    from the draft to the note `outcome`
    opening    up to the first publish of a process, or to its end if it publishes nothing
    closing    after the last outcome
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store.requests import Request
from fencepost.properties.publish.checks import Change
from fencepost.sim.world import World
from fencepost.sim.world.footprints import FLIGHTS_FROM


@dataclass(frozen=True)
class Cost:
    requests: int = 0
    hops: int = 0
    bytes: int = 0

    def named(self, verb: str) -> dict[str, int]:
        return {
            f"{verb}: requests": self.requests,
            f"{verb}: hops": self.hops,
            f"{verb}: bytes": self.bytes,
        }

    def plus(self, other: "Cost", times: int = 1) -> "Cost":
        return Cost(self.requests + times * other.requests, self.hops + times * other.hops)


# The contract for two processes, exact: tests/sim/systems/test_publish_cost.py finds schedules that need all.
# None of these depends on how many commits there were before, or on how many tables are there.
ALONE = Cost(6, 3)
"""A first publish to one table without any other process: stage, head and boundary, manifest. The next
publish retires its sidecar in its own stage, which is the seventh request.
"""
PUBLISH = Cost(19, 14)
"""With one rival process: read its head or manifest, read the history up to it, look for its sidecar; undo
the own head, with a manifest and its check; record and retire the plan of another."""
OPENING = Cost(17, 14)
"""Listing, newest manifest and boundary; a claim and its check; the sidecars; the recovery of one plan and
its record."""
CLOSING = Cost(1, 1)
"""Delete the last sidecar. If the reply is lost it may stay; the delete is not repeated."""
TABLE = Cost(4, 2)
"""A further table of the plan: its fragment and head, the rival head there, and its undo."""
CRASH = Cost(7, 7)
"""A crash: others recover the plan on their way, and the restarted process claims."""
RECORD = Cost(0, 1)
"""A crash, for an opener: it may have one more plan to record before it retires it."""
UNANSWERED = Cost(2, 2)
"""A missing reply: read whether the request was applied, and repeat it."""
LANDING = Cost(2, 2)
"""A request that lands late conflicts as a rival's would. Observed in random runs and not proven: the
schedules that are explored to their end have no late landing.
"""
FAULTS = frozenset({"reply_lost", "request_lost", "late", "conflict", "throttled"})


Sent = tuple[Any, int]
"""The step of its process that a request belongs to, and its bytes."""


def costs(changes: Mapping[str, Change], world: World) -> dict[str, int]:
    """The largest costs of the run, by verb."""
    found: dict[str, int] = {}
    for verb, cost in _costs(changes, world):
        for name, number in cost.named(verb).items():
            found[name] = max(number, found.get(name, 0))
    return found


def too_expensive(changes: Mapping[str, Change], world: World) -> Iterator[str]:
    """The verbs that cost more in this run than the contract allows, with the faults that the run had."""
    crashes = sum(step[1] == "crash" for step in world.trace)
    unanswered = sum(step[1] in FAULTS for step in world.trace)
    landed = sum(step[1] == "land" and step[2] is not None for step in world.trace)
    tables = max(len(change) for change in changes.values())
    more = Cost().plus(TABLE, tables - 1).plus(CRASH, crashes).plus(UNANSWERED, unanswered)
    more = more.plus(LANDING, landed)
    for verb, cost in _costs(changes, world):
        most = {"opening": OPENING.plus(more).plus(RECORD, crashes), "closing": CLOSING}.get(
            verb, PUBLISH.plus(more)
        )
        if cost.requests > most.requests or cost.hops > most.hops:
            yield (
                f"{verb} took {cost.requests} requests and {cost.hops} serial hops, and may take "
                f"{most.requests} and {most.hops} with {crashes} crashes and {unanswered} unanswered requests"
            )


def verb_of(change: Change) -> str:
    """The verbs of a plan: one for each table that it writes."""
    return " and ".join(verb for verb, _, _ in change)


def _costs(changes: Mapping[str, Change], world: World) -> Iterator[tuple[str, Cost]]:
    sent: dict[tuple[int, int], list[Sent]] = {}
    finished: dict[tuple[int, int], int] = {}
    for actor, alternative, process, incarnation, number, op, answer, _ in world.trace:
        if process is None or not process.index:
            continue
        life = (process.index, incarnation)
        mine = sent.setdefault(life, [])
        if isinstance(op, Request):
            if alternative not in ("land", "never", "crash"):
                step = world.footprints.group(actor) if actor >= FLIGHTS_FROM else number
                mine.append((step, len(getattr(op, "body", b"")) + len(getattr(answer, "body", b""))))
        elif op.kind == "note" and op.topic.startswith("outcome "):
            requests = op.value[2]
            opening = mine[: len(mine) - requests]
            if opening and life not in finished:
                yield "opening", _cost(opening)
            yield verb_of(changes[op.topic.removeprefix("outcome ")]), _cost(mine[len(mine) - requests :])
            finished[life] = finished.get(life, 0) + 1
            mine.clear()
        elif op.kind == "finish" and alternative != "crash" and mine:
            yield "closing" if life in finished else "opening", _cost(mine)


def _cost(sent: list[Sent]) -> Cost:
    return Cost(len(sent), len({step for step, _ in sent}), sum(size for _, size in sent))
