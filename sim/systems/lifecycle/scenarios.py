"""The scenarios of lifecycles, each small enough to be explored to its end, and the program that sets one up.

A day is 4 seconds, changes of tags are looked at after 1. Rules have one or two days.
"""

from collections.abc import Callable
from typing import Any

from fencepost.impl.lifecycle import cursors
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards
from fencepost.impl.lifecycle.trace_fields import trace_fields
from fencepost.impl.store.errors import Misuse
from fencepost.properties.lifecycle.stored import Contents
from fencepost.sim.systems.lifecycle.run import READERS, Change, ScenarioRun, ages, rule
from fencepost.sim.systems.lockstep import prepare_world
from fencepost.sim.world import World

Setup = Callable[[ScenarioRun], None]
DAY = rule(1)
TAGGED = rule(1, tag=True)
LONG = rule(2)
OTHER = rule(1, prefix="other/")
TAG = {"t": "1"}
NEAR = cursors.near_key("x")


def then(*changes: Change) -> Change:
    """All of them at one moment."""

    def change(contents: Contents) -> None:
        for one in changes:
            one(contents)

    return change


def at(time_s: int) -> Change:
    return lambda contents: setattr(contents, "now_s", max(contents.now_s, time_s))


def write(key: str = "k", shard: str = "x", tags: dict[str, str] | None = None, later_s: int = 0) -> Change:
    return lambda contents: contents.write(key, shard, tags, later_s=later_s)


def tag(tags: dict[str, str], key: str = "k", shard: str = "x") -> Change:
    return lambda contents: contents.tag(key, shard, tags)


def lock(contents: Contents) -> None:
    contents.lock("k")


def edit(*rules: Any) -> Change:
    return lambda contents: contents.edit(list(rules))


def poison(*keys: str) -> Change:
    return lambda contents: setattr(contents, "poisoned", list(keys))


def rules(*wanted: Any) -> Change:
    """From now on; as if it had always been so."""
    return lambda contents: setattr(contents, "rules", list(wanted))


def close(shard: str) -> Change:
    return lambda contents: contents.closed.append(shard)


def vanish(shard: str) -> Change:
    return lambda contents: contents.gone.append(shard)


def silence(*keys: str) -> Change:
    return lambda contents: setattr(contents, "silent", list(keys))


# An object that changes while a worker looks at it.


def changed(run: ScenarioRun) -> None:
    """A user changes an object that is due, or the rules, while a worker follows the ages."""
    run.found([DAY, OTHER], write(), at(4))
    changes: dict[str, Change] = {
        "overwrites": write(),
        "tags": tag(TAG),
        "locks": lock,
        "removes the rule": edit(OTHER),
        "removes another rule": edit(DAY),
    }
    what = run.world.pick("the user", tuple(changes))
    if what == "removes another rule":
        run.keeps(DAY)
    run.user(changes[what])
    run.worker(ages(DAY))


def overwritten(run: ScenarioRun) -> None:
    """An object was written twice, and only its first event is as old as the rule; a user writes it again."""
    shard = run.world.pick("the second event is in the shard", ("x", "y"))
    run.found([DAY], write(), at(1), write(shard=shard), at(5), variant=shard)
    run.user(write())
    run.worker(ages(DAY, shard))


def untagged(run: ScenarioRun) -> None:
    """An object loses its tag, or gets it, while a worker follows both the ages and the tags."""
    first, second = run.world.pick("the tag", (("lost", TAG), ("added", {})))
    run.found([TAGGED], write(tags=second), at(4), variant=first)
    run.user(tag({} if first == "lost" else TAG), at(5))
    run.worker(ages(TAGGED), NEAR)


def skewed(run: ScenarioRun) -> None:
    """An object whose own time is later than its event's gets its tag when its event was passed."""
    run.found([TAGGED], write(later_s=3), at(4), "sweep")
    run.user(then(tag(TAG), at(5)))
    run.worker(NEAR)


def early(run: ScenarioRun) -> None:
    """An object matches, and its own time is later than its event's."""
    run.found([DAY], write(later_s=1), at(4))
    run.user(at(5))
    run.worker(ages(DAY))


def tagged(run: ScenarioRun) -> None:
    """An old object gets its tag, and a sweep follows the tags."""
    run.found([TAGGED], write(), at(8), "sweep")
    run.user(then(tag(TAG), at(9)), at(10))
    run.worker(NEAR)


def late(run: ScenarioRun) -> None:
    """An event becomes visible after time has passed."""

    def hide(contents: Contents) -> None:
        contents.hidden["x"] = contents.now_s

    run.found([DAY], then(hide, write()), at(5))
    run.user(lambda contents: contents.hidden.clear())
    run.worker(ages(DAY))


def same_time(run: ScenarioRun) -> None:
    """Two events have one time, and the bucket does not answer for the second in the first pass."""
    run.found([DAY], then(write("k1"), write("k2")), then(at(4), silence("k2")))
    run.user(silence())
    run.worker(ages(DAY), ages(DAY))


def rivals(run: ScenarioRun) -> None:
    """Two workers of one cursor, whose leases last for no time: each takes over from the other."""
    run.found([DAY], write(), at(4))
    # With faults it takes many minutes; `tests/impl/lifecycle/test_rivals.py` samples them.
    run.world.forbid("crash", "reply_lost", "request_lost", "pause")
    run.user(at(5))
    run.worker(ages(DAY), name="ann")
    run.worker(ages(DAY), name="bob")


# The beginning of an action.


def beginning(run: ScenarioRun) -> None:
    """A rule begins with a walk, while an object is written and becomes due; another one goes on."""
    run.found([LONG], write("k1"), then(at(1), rules(LONG, DAY)))
    run.user(then(at(2), write("k0"), at(7)))
    run.worker("walk", ages(DAY))


def interrupted(run: ScenarioRun) -> None:
    """A walk with which a rule begins goes on after another rule was followed meanwhile."""
    run.found([LONG], write("k1"), then(at(1), rules(LONG, DAY)), "begin a walk", at(5), "sweep")
    run.worker("walk")


# Walks of several workers.

OLD = then(write("k1"), write("k2"), write("k3"))
LATER, FAR = rule(8), rule(9)
"""Due later than any run looks."""


def taken(run: ScenarioRun) -> None:
    """Of a walk with which a rule begins, one worker takes a part and stops; another one leads it."""
    run.found([FAR], OLD, then(at(20), rules(FAR, DAY)), "begin a walk", "divide", "take a part")
    run.worker("walk")


def divided(run: ScenarioRun) -> None:
    """A worker divides the only part of a walk, and stops."""
    run.found([FAR], OLD, then(at(20), rules(FAR, DAY)), "begin a walk")
    run.worker("divide")


def joined(run: ScenarioRun) -> None:
    """A worker joins a walk that began after it had read the rules, with a rule that is newer than these."""
    run.found([FAR], OLD, at(1))
    run.late_joiner(then(at(20), rules(FAR, DAY)))


def restarted(run: ScenarioRun) -> None:
    """A worker saves its place in a walk, while another one begins the walk anew for a further rule."""
    run.found([FAR], OLD, then(at(5), rules(FAR, LATER)), "begin anew")
    run.world.forbid("crash", "reply_lost", "request_lost", "pause")
    run.worker("begin a walk", name="bob")
    run.worker(then(at(7), rules(FAR, LATER, DAY)), "refresh", "begin anew", name="lea")


def failing_again(run: ScenarioRun) -> None:
    """An object fails once in one walk, and once in a walk much later."""
    run.found([DAY], then(write(later_s=90), at(30), silence("k")), "walk", silence())
    run.failed_before = (("k", "fails"),)
    run.user(then(at(60), silence("k")))
    run.worker("walk", "refresh", "walk")


def returning(run: ScenarioRun) -> None:
    """A rule goes and comes back, while a worker sweeps; another one walks later."""
    run.found([DAY], write(), at(2))
    run.user(edit(), edit(DAY))
    run.worker(ages(DAY), "walk")


# Losses.


def pruned(run: ScenarioRun) -> None:
    """The log loses an event while a worker follows it."""
    run.found([DAY], write(), at(4))
    run.user(lambda contents: contents.lose("x", 2))
    run.worker(ages(DAY))


def regained(run: ScenarioRun) -> None:
    """The log lost an event, and reaches back far enough again: a worker walks while a user writes."""
    lost = then(at(4), lambda contents: contents.lose("x", 2))
    run.found([DAY], write(), lost, ages(DAY), then(at(12), write("k2")))
    run.user(then(at(13), write("k2")), at(17))
    run.worker("walk", ages(DAY))


def lagging(run: ScenarioRun) -> None:
    """An event is almost as old as any that the log keeps, and was not read."""
    run.found([DAY], write(), at(9))
    run.worker("lags")


def reseeded(run: ScenarioRun) -> None:
    """An operator returns an action to events that was left to scans for want of room."""
    run.found([TAGGED], write(later_s=3), at(4), "sweep", then(tag(TAG), at(5)), NEAR)
    run.worker("reseed", NEAR)


def departing(run: ScenarioRun) -> None:
    """A shard departs of which one cursor was read to its end, and vanishes."""
    run.found([DAY], write(), close("x"), at(2), "sweep")
    run.user(then(at(3), vanish("x")))
    run.worker("shards", "refresh", "shards")


def departed(run: ScenarioRun) -> None:
    """A rule begins that needs what a vanished shard held, which others had read to its end."""
    run.found([DAY, OTHER], write(), close("x"), then(at(5), rules(OTHER)), "sweep", "shards")
    run.user(then(vanish("x"), rules(OTHER, LONG)))
    run.worker("shards", "walk")


# Items that cannot be worked on.


def blocked(run: ScenarioRun) -> None:
    """Of two events of a shard the first cannot be worked on, and a worker tries too often."""
    run.found([DAY], write("k1"), write("k2"), then(at(4), poison("k1")), ages(DAY))
    run.failed_before = (("k1", "fails"),)
    run.worker(ages(DAY), ages(DAY))


def beside(run: ScenarioRun) -> None:
    """One shard is blocked, and another one has an event."""
    run.found([DAY], write("k1"), write("k2", "y"), then(at(4), poison("k1")), ages(DAY), ages(DAY))
    run.failed_before = (("k1", "fails"),) * 2
    run.worker(ages(DAY, "y"))


def shared(run: ScenarioRun) -> None:
    """Two rules share a sweep, and an object of one of them cannot be worked on, until a user repairs it."""
    run.found([DAY, OTHER], write("k1"), write("other/k2"), then(at(4), poison("k1")), ages(DAY))
    run.failed_before = (("k1", "fails"),)
    run.user(poison())
    run.worker(ages(DAY), ages(DAY))


def repaired(run: ScenarioRun) -> None:
    """An item that could not be worked on is repaired after it was blocked."""
    run.found([DAY], write(), then(at(4), poison("k")), ages(DAY), ages(DAY))
    run.failed_before = (("k", "fails"),) * 2
    run.user(poison())
    run.worker(ages(DAY))


SCENARIOS: dict[str, Setup] = {
    "changed": changed,
    "overwritten": overwritten,
    "untagged": untagged,
    "skewed": skewed,
    "full": skewed,
    "early": early,
    "tagged": tagged,
    "late": late,
    "rivals": rivals,
    "same-time": same_time,
    "beginning": beginning,
    "interrupted": interrupted,
    "taken": taken,
    "divided": divided,
    "joined": joined,
    "restarted": restarted,
    "failing-again": failing_again,
    "returning": returning,
    "pruned": pruned,
    "regained": regained,
    "lagging": lagging,
    "reseeded": reseeded,
    "departing": departing,
    "departed": departed,
    "blocked": blocked,
    "beside": beside,
    "shared": shared,
    "repaired": repaired,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "overwritten": {"shards": ("x", "y")},
    "beside": {"shards": ("x", "y"), "notes_failures": True},
    "full": {"pending_max": 0},
    "reseeded": {"pending_max": 0},
    "lagging": {"retention_s": 9},
    "departing": {"shards": ("x", "y")},
    "departed": {"shards": ("x", "y")},
    "failing-again": {"notes_failures": True},
    "rivals": {"lease_s": 0.0},
    "taken": {"lease_s": 1000.0},
    "divided": {"lease_s": 1000.0},
    "joined": {"lease_s": 1000.0},
    "restarted": {"lease_s": 0.0},
    "pruned": {"fresh_log": True},
    "same-time": {"notes_taken": True, "notes_failures": True},
    **{key: {"notes_failures": True} for key in ("blocked", "shared", "repaired")},
}


def program(
    world: World,
    scenario: str = "changed",
    lockstep: str = "on",
    coverage: str = "off",
    safeguards: Safeguards = STANDARD,
) -> None:
    """A lifecycle as it ships, in one scenario: one of SCENARIOS.

    The model follows every run unless `lockstep` is off; it never follows a mutant, whose own properties are
    to fail. With `coverage` the result has the share of the model's transitions that the runs drove.
    """
    if scenario not in SCENARIOS:
        raise Misuse(f"no scenario is called {scenario!r}; choose from {', '.join(SCENARIOS)}")
    product = safeguards == STANDARD
    followed = product and prepare_world(world, trace_fields, READERS, lockstep=lockstep, coverage=coverage)
    run = ScenarioRun(world, scenario, safeguards, followed, **SETTINGS.get(scenario, {}))
    world.configure(stamped=False)
    world.share_nothing()
    SCENARIOS[scenario](run)
    run.declare_checks()
