"""The scenarios: who is there, and what they do. Small, so that each can be explored to its end."""

import itertools
from collections.abc import Callable

from fencepost.impl.publish import Mode, PublishError
from fencepost.sim.systems.publishing import quick
from fencepost.sim.systems.publishing.changes import Change, knows, person
from fencepost.sim.systems.publishing.cost import costs
from fencepost.sim.systems.publishing.lockstep import in_lockstep
from fencepost.sim.systems.publishing.promises import promise
from fencepost.sim.systems.publishing.stage import OLD_S, ScenarioRun
from fencepost.sim.world import World

POINT: Change = (("append", "knows", (knows(2, 1, 2),)),)
"""Touches the edges, relies on the nodes."""
REMOVE: Change = (("delete", "person", (2,)),)
"""Touches the nodes, relies on the edges."""
GROW: Change = (("append", "person", (person(3),)), ("append", "knows", (knows(3, 3, 1),)))
"""Touches both."""
ADD: Change = (("append", "person", (person(4),)),)
RENAME: Change = (("upsert", "person", ({"id": 1, "name": "new"},)),)

ANNS: dict[str, Change] = {"links": POINT, "drops": REMOVE, "adds": ADD, "grows": GROW}
BOBS: dict[str, Change] = {
    "links": (("append", "knows", (knows(5, 2, 1),)),),
    "drops": (("delete", "person", (1,)),),
    "adds": (("append", "person", (person(6),)),),
    "grows": (("append", "person", (person(7),)), ("append", "knows", (knows(7, 7, 7),))),
}
"""The four kinds of plan that the model knows."""

Floats = tuple[float, ...]
Setup = Callable[[ScenarioRun], None]


def _writer(run: ScenarioRun, name: str, *messages: str, restart: bool = True) -> None:
    """A process that is open and publishes; what starts again after a crash claims, and so recovers."""
    lives = itertools.count()

    def live() -> None:
        if next(lives) == 0:
            catalog, meter = run.warm(name)
            for message in messages:
                run.publish(catalog, meter, message)
        else:
            catalog, meter = run.open(name, Mode.CLAIM)
        catalog.close()

    run.world.spawn(live, name=name, restart=restart, may_raise=(PublishError,))


def _opener(
    run: ScenarioRun, name: str, mode: Mode, *messages: str, ahead_s: tuple[float, ...] = (0.0,)
) -> None:
    """A process that opens the catalog before it publishes; after a crash it only opens, and so recovers."""
    fresh = list(messages)

    def live() -> None:
        asked = [fresh.pop(0) for _ in messages if fresh]
        ahead = run.world.pick("clock", ahead_s) if len(ahead_s) > 1 else ahead_s[0]
        catalog, meter = run.open(name, mode, ahead)
        for message in asked:
            run.publish(catalog, meter, message)
        catalog.close()

    run.world.spawn(live, name=name, may_raise=(PublishError,))


def _cleaner(run: ScenarioRun, name: str, *modes: Mode) -> None:
    """A process that opens the catalog once or more often, and deletes all manifests but the last."""

    def live() -> None:
        for mode in modes:
            catalog, _ = run.open(name, mode)
        catalog.cleanup(keep=1)
        catalog.close()

    run.world.spawn(live, name=name, restart=False, may_raise=(PublishError,))


def skew(run: ScenarioRun) -> None:
    """Two writers of one epoch touch different tables, each relying on what it read in the other's."""
    run.found({"ann points at 2": POINT, "bob removes 2": REMOVE})
    _writer(run, "ann", "ann points at 2")
    _writer(run, "bob", "bob removes 2")


def rivals(run: ScenarioRun) -> None:
    """Two writers of one epoch, and a table that both touch."""
    run.found({"ann renames": RENAME, "bob removes 2": REMOVE})
    _writer(run, "ann", "ann renames")
    _writer(run, "bob", "bob removes 2")


def two_tables(run: ScenarioRun) -> None:
    """Two writers of one epoch, one of whom touches two tables."""
    run.found({"ann grows": GROW, "bob renames": RENAME})
    _writer(run, "ann", "ann grows")
    _writer(run, "bob", "bob renames")


def takeover(run: ScenarioRun) -> None:
    """A live writer, and somebody who claims the next epoch, and recovers."""
    run.found({"ann renames": RENAME})
    _writer(run, "ann", "ann renames")
    _opener(run, "bob", Mode.CLAIM)


def heir(run: ScenarioRun) -> None:
    """A live writer, and somebody who claims the next epoch, recovers, and writes to the same table."""
    run.found({"ann renames": RENAME, "bob removes 2": REMOVE})
    _writer(run, "ann", "ann renames")
    _opener(run, "bob", Mode.CLAIM, "bob removes 2")


def joiner(run: ScenarioRun) -> None:
    """A live writer, and somebody who joins and recovers, by a clock that may be an hour ahead."""
    run.found({"ann renames": RENAME})
    _writer(run, "ann", "ann renames")
    _opener(run, "bob", Mode.JOIN, ahead_s=(0.0, OLD_S))


def cleaner(run: ScenarioRun) -> None:
    """A writer, and somebody who takes over twice and then deletes all manifests but the last."""
    run.found({"ann adds": ADD})
    _writer(run, "ann", "ann adds")
    _cleaner(run, "bob", Mode.CLAIM, Mode.CLAIM)


def gone(run: ScenarioRun) -> None:
    """One writer, who after a crash does not come back; whoever comes then does not claim."""
    run.found({"ann renames": RENAME})
    _writer(run, "ann", "ann renames", restart=False)


def alone(run: ScenarioRun) -> None:
    """One writer, who removes a node at which an edge points."""
    run.found({"ann removes 2": REMOVE}, edge=True)
    _writer(run, "ann", "ann removes 2")


def anything(run: ScenarioRun) -> None:
    """Any of the model's four kinds of plan, beside another one, a claim, or a cleanup: to drive it."""
    ann = run.world.pick("ann", sorted(ANNS))
    bob = run.world.pick("bob", [*sorted(BOBS), "claims", "cleans"])
    changes = {f"ann {ann}": ANNS[ann], **({f"bob {bob}": BOBS[bob]} if bob in BOBS else {})}
    run.found(changes)
    _writer(run, "ann", f"ann {ann}", restart=False)
    if bob in BOBS:
        _writer(run, "bob", f"bob {bob}", restart=False)
    elif bob == "claims":
        _opener(run, "bob", Mode.CLAIM)
    else:
        _cleaner(run, "bob", Mode.JOIN)


def crowd(run: ScenarioRun, writers: int, plans: int, *, separate: bool) -> None:
    """Any number of writers, in one epoch or each in his own, of a node of their own each."""
    names = [f"writer-{number}" for number in range(1, writers + 1)]
    messages = {name: [f"{name} adds {n}" for n in range(plans)] for name in names}
    keys = itertools.count(10)
    run.found({m: (("append", "person", (person(next(keys)),)),) for name in names for m in messages[name]})
    for name in names:
        if separate:
            _opener(run, name, Mode.CLAIM, *messages[name])
        else:
            _writer(run, name, *messages[name])


SCENARIOS: dict[str, Setup] = {
    scenario.__name__.replace("_", "-"): scenario
    for scenario in (skew, rivals, joiner, takeover, heir, two_tables, cleaner, gone, alone, anything)
}
SMALL = ("skew", "rivals", "joiner", "takeover")
"""Those that are explored to their ends while somebody waits, with a crash and a lost response."""
SKEWED = ("joiner",)
"""Those in which somebody's clock may be wrong by more than the grace window."""


def play(
    run: ScenarioRun,
    scenario: str,
    writers: int = 2,
    plans: int = 1,
    *,
    separate: bool = False,
    lockstep: bool = True,
) -> None:
    """Set up one scenario; `small` is one of the small ones, whichever the adversary likes."""
    quick.install(run.world)
    run.world.share_nothing()
    if scenario == "crowd":
        crowd(run, writers, plans, separate=separate)
    else:
        scenario = run.world.pick("scenario", SMALL) if scenario == "small" else scenario
        SCENARIOS[scenario](run)
    run.two_alone = scenario not in ("crowd", "cleaner", "anything")
    promise(run)
    if isinstance(run.world, World):
        changes = run.changes
        run.world.measure(lambda world: costs(changes, world))
    if lockstep:
        in_lockstep(run, skew=scenario in SKEWED)
