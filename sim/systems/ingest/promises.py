"""What must hold, in every order and with every fault. See docs/decisions/0011-ingest-protocol.md.

All of it is judged at the end of a run: what it speaks of, what agents were told and what stands in the
bucket, is only ever added to, except for blobs, and those must all be there in the end. What a process did
too early it notes itself at the time, since in the end it cannot be seen.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from fencepost.sim.systems.ingest.batches import AGENT, BY_HASH
from fencepost.sim.systems.ingest.examine import Examined, examine, unkept
from fencepost.sim.systems.ingest.run import ScenarioRun, Told
from fencepost.sim.world import View, World

Check = Callable[[ScenarioRun, Examined, View], Iterator[str]]
COST = {"accepted": (2, 2), "duplicate": (4, 4), "conflict": (5, 4)}
"""Requests and serial hops of an attempt in which nothing went wrong."""
LOOK = (2, 1)
"""What it takes an acceptance to see that a blob is good which stood already, in a versioned bucket."""
SLOW = (8, 8)
"""What it may take on top where somebody sleeps for hours: a new generation, a look, a new version."""
PARTS = (24, 24)
"""The same where a blob goes up in parts: up to four requests each time, and three times."""
PER_FAULT = 3
"""What one fault may cost on top: the look, and doing it again."""


def promise(run: ScenarioRun) -> None:
    """Declare all of them."""
    for name, check in CHECKS.items():
        run.world.finally_(name, _judged(run, check))


def _judged(run: ScenarioRun, check: Check) -> Callable[[View], str | None]:
    def judge(view: View) -> str | None:
        return next(check(run, examine(view.contents(""), run.safeguards), view), None)

    return judge


def _told(view: View) -> list[Told]:
    return view.notes("outcome")


def one_acceptance(_: ScenarioRun, __: Examined, view: View) -> Iterator[str]:
    accepted = Counter(_identity(told) for told in _told(view) if told.what == "accepted")
    for identity, times in accepted.items():
        if times > 1:
            yield f"{times} agents were told that {identity} is accepted and no duplicate"


def never_reopened(_: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    stands = {str(manifest.identity): manifest.attempt for manifest in found.manifests.values()}
    for told in _told(view):
        identity = _identity(told)
        if told.attempt and stands.get(identity) != told.attempt:
            yield f"an agent was told of {told.attempt} as {identity}, and {stands.get(identity)} stands"


def ack_durable(run: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    for told in _told(view):
        if told.what not in ("accepted", "duplicate"):
            continue
        stands = [m for m in found.manifests.values() if str(m.identity) == _identity(told)]
        if not stands:
            yield f"{_identity(told)} was acknowledged, and no manifest stands"
        elif stands[0].key in found.without_blob and not _excused(run, view, stands[0].key):
            yield f"{_identity(told)} was acknowledged, and its blob is gone"


def truthful_duplicate(_: ScenarioRun, __: Examined, view: View) -> Iterator[str]:
    for told in _told(view):
        if told.what == "duplicate" and told.sha256 not in told.saw:
            yield f"{told.sha256[:8]} was called a duplicate, and no manifest of it was seen"


def truthful_conflict(_: ScenarioRun, __: Examined, view: View) -> Iterator[str]:
    for told in _told(view):
        if told.what == "conflict" and not told.saw - {told.sha256}:
            yield f"{told.sha256[:8]} was called a conflict, and no other manifest was seen"


def no_early_effect(_: ScenarioRun, __: Examined, view: View) -> Iterator[str]:
    for identity, sha256, collector, seen in view.notes("live"):
        if not seen:
            yield f"{collector} told live state of {identity} ({sha256[:8]}) before it saw its manifest"
    if any(told.early for told in _told(view)):
        yield "something derived was written before its manifest was seen"


def effects_once(_: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    lively = Counter(identity for identity, *_ in view.notes("live"))
    for identity, times in lively.items():
        if times > 1:
            yield f"live state was told {times} times of {identity}"
    if found.miscounted:
        yield f"the rollups hold {found.miscounted}"


def effects_eventually(run: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    yield from (f"after everything ran there is no {missing}" for missing in found.without_index)
    if any(told.what == "unavailable" and not told.faults for told in _told(view)):
        yield "an agent was told 503, although the store answered everything"
    for batch in run.offered:
        answers = [t for t in _told(view) if t.sha256 == batch.sha256 and t.what != "unavailable"]
        if not answers:
            yield f"{batch.identity} was never answered, although it came again"


def effects_unattended(run: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    """Of a real store nobody knows what it would be like hours later. Where time passes in a scenario no two
    manifests land at the same moment, and looking into each such future would take most of an audit; those
    scenarios are about blobs.
    """
    world: object = run.world
    if run.timed or not isinstance(world, World):
        return
    stamps = tuple((key, world.bucket.modified_ns(key)) for key in sorted(found.manifests))
    for error in unkept(view.contents(""), (run.safeguards, stamps)):
        yield f"with nothing but what collectors do on their own, {error}"


def gc_safe(run: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    for key in found.without_blob:
        if not _excused(run, view, key):
            yield f"{key} stands, and the blob it refers to is gone"


def cursor_honest(_: ScenarioRun, found: Examined, __: View) -> Iterator[str]:
    yield from (f"the reconciler passed {key} without repairing it" for key in found.unrepaired)


def own_identity(_: ScenarioRun, __: Examined, view: View) -> Iterator[str]:
    for told in _told(view):
        if told.sender != AGENT and told.what != "refused":
            yield f"{told.sender} had a batch of {AGENT} {told.what}"


def flat_cost(run: ScenarioRun, _: Examined, view: View) -> Iterator[str]:
    for told in _told(view):
        requests, hops = COST.get(told.what, (99, 99))
        more = _more(run, told)
        by_faults = PER_FAULT * told.faults
        if told.requests > requests + more[0] + by_faults or told.hops > hops + more[1] + by_faults:
            yield f"to say {told.what} took {told.requests} requests and {told.hops} serial hops"


def _more(run: ScenarioRun, told: Told) -> tuple[int, int]:
    if run.parts:
        return PARTS
    if run.timed or run.aged:
        return SLOW
    return LOOK if run.versioned and told.what == "accepted" else (0, 0)


def _identity(told: Told) -> str:
    return str(BY_HASH[told.sha256].identity)


def _excused(run: ScenarioRun, view: View, key: str) -> bool:
    return run.excused is not None and run.excused(view, key)


CHECKS: dict[str, Check] = {
    "one-acceptance": one_acceptance,
    "ack-durable": ack_durable,
    "truthful-duplicate": truthful_duplicate,
    "truthful-conflict": truthful_conflict,
    "no-early-effect": no_early_effect,
    "effects-once": effects_once,
    "effects-eventually": effects_eventually,
    "gc-safe": gc_safe,
    "never-reopened": never_reopened,
    "cursor-honest": cursor_honest,
    "own-identity": own_identity,
    "flat-cost": flat_cost,
    "effects-unattended": effects_unattended,
}
