"""The scenarios of publish, each small enough to be explored to its end, and the program that sets one up."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fencepost.impl.publish import STANDARD, Mode, PublishError, Safeguards
from fencepost.impl.publish.service.committer import Committer, Figures
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.layers.metered import Metered
from fencepost.properties.publish import PublishCoverage, PublishRefinement, parquet_cache
from fencepost.properties.publish.checks import Change, knows, person
from fencepost.sim.systems.lockstep import Lockstep, Readers, cached, prepare_world
from fencepost.sim.systems.publish.cost import costs
from fencepost.sim.systems.publish.run import ATTEMPTS, OLD_S, ScenarioRun, declare_checks
from fencepost.sim.world import World

POINT: Change = (("append", "knows", (knows(2, 1, 2),)),)
"""Touches the edges, relies on the nodes."""
REMOVE: Change = (("delete", "person", (2,)),)
"""Touches the nodes, relies on the edges."""
GROW: Change = (("append", "person", (person(3),)), ("append", "knows", (knows(3, 3, 1),)))
"""Touches both."""
ADD: Change = (("append", "person", (person(4),)),)
COUNT: Change = (("count", "person", (1,)),)
RENAME: Change = (("upsert", "person", ({"id": 1, "name": "new"},)),)

ANNS: dict[str, Change] = {"links": POINT, "drops": REMOVE, "adds": ADD, "grows": GROW}
BOBS: dict[str, Change] = {
    "links": (("append", "knows", (knows(5, 2, 1),)),),
    "drops": (("delete", "person", (1,)),),
    "adds": (("append", "person", (person(6),)),),
    "grows": (("append", "person", (person(7),)), ("append", "knows", (knows(7, 7, 7),))),
}
"""The four kinds of plan that the model has."""

Setup = Callable[[ScenarioRun], None]


def _writer(run: ScenarioRun, name: str, *messages: str, restart: bool = True) -> None:
    """A process that is open and publishes; restarted after a crash it claims, and so recovers."""
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
        messages_left = [fresh.pop(0) for _ in messages if fresh]
        ahead = run.world.pick("clock", ahead_s) if len(ahead_s) > 1 else ahead_s[0]
        catalog, meter = run.open(name, mode, ahead)
        for message in messages_left:
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


def two_writers(run: ScenarioRun, ann: tuple[str, Change], bob: tuple[str, Change]) -> None:
    """Two writers of one epoch, with a plan each."""
    run.found(dict([ann, bob]))
    _writer(run, "ann", ann[0])
    _writer(run, "bob", bob[0])


def opener(run: ScenarioRun, mode: Mode, *messages: str, ahead_s: tuple[float, ...] = (0.0,)) -> None:
    """A live writer, and a process that opens the catalog, recovers, and removes a row of the same table."""
    run.found({"ann renames": RENAME, **dict.fromkeys(messages, REMOVE)})
    _writer(run, "ann", "ann renames")
    _opener(run, "bob", mode, *messages, ahead_s=ahead_s)


def cleaner(run: ScenarioRun) -> None:
    """A writer, and a process that takes over twice and then deletes all manifests but the last."""
    run.found({"ann adds": ADD})
    _writer(run, "ann", "ann adds")
    _cleaner(run, "bob", Mode.CLAIM, Mode.CLAIM)


def housekeeper(run: ScenarioRun) -> None:
    """A writer, and one that commits twice beside it and then deletes all manifests but the last."""
    run.found({"ann adds": ADD, "bob points at 2": POINT, "bob points again": BOBS["links"]})
    _writer(run, "ann", "ann adds")

    def live() -> None:
        catalog, meter = run.warm("bob")
        run.publish(catalog, meter, "bob points at 2")
        run.publish(catalog, meter, "bob points again")
        catalog.cleanup(keep=1)
        catalog.close()

    run.world.spawn(live, name="bob", restart=False, may_raise=(PublishError,))


def impatient(run: ScenarioRun) -> None:
    """Two writers of one table, of which one ends any plan that is in its way, whether its writer lives."""
    run.found({"ann grows": GROW, "bob renames": RENAME})
    _writer(run, "ann", "ann grows")

    def live() -> None:
        catalog, meter = run.warm("bob", stuck_after_s=0.0)
        run.publish(catalog, meter, "bob renames")
        catalog.close()

    run.world.spawn(live, name="bob", restart=False, may_raise=(PublishError,))


def alone(
    run: ScenarioRun, message: str, change: Change, *, edge: bool = False, restart: bool = True
) -> None:
    """One writer; unless `restart`, a crash ends it for good, and no later process claims."""
    run.found({message: change}, edge=edge)
    _writer(run, "ann", message, restart=restart)


def group(run: ScenarioRun) -> None:
    """One handle publishes a group whose two drafts have both read the row that they change; beside it, a
    writer of that row."""
    run.found(dict.fromkeys(("ann counts", "ann counts again", "bob counts"), COUNT))

    def live() -> None:
        catalog, _ = run.warm("ann")
        run.publish_group(catalog, ["ann counts", "ann counts again"])
        catalog.close()

    run.world.spawn(live, name="ann", restart=False, may_raise=(PublishError,))
    _writer(run, "bob", "bob counts")


def served(run: ScenarioRun) -> None:
    """Two servers of one catalog. A client sends a change to one of them, which publishes another one after
    it. Whatever became of the first change, its client sends it again, to the other server."""
    run.found({"ann renames": RENAME, "ann adds": ADD})
    run.plans = 3 * ATTEMPTS

    def live(name: str, *messages: str) -> None:
        catalog, store = run.warm(name, stuck_after_s=0.0)
        server = Committer(lambda: catalog, Metered(store), Figures())
        for message in messages:
            run.order(server, message)
        server.close()

    for name, messages in (("ann", ("ann renames", "ann adds")), ("bob", ("ann renames",))):
        run.world.spawn(partial(live, name, *messages), name=name, restart=False, may_raise=(PublishError,))


def anything(run: ScenarioRun) -> None:
    """Any of the model's four kinds of plan, beside another plan, a claim or a cleanup: for coverage."""
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
    """Any number of writers, in one epoch or each in its own; each adds a node of its own."""
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
    # Different tables; each depends on what it read in the other's.
    "skew": partial(two_writers, ann=("ann points at 2", POINT), bob=("bob removes 2", REMOVE)),
    "rivals": partial(two_writers, ann=("ann renames", RENAME), bob=("bob removes 2", REMOVE)),
    "joiner": partial(opener, mode=Mode.JOIN, ahead_s=(0.0, OLD_S)),
    "takeover": partial(opener, mode=Mode.CLAIM),
    "heir": lambda run: opener(run, Mode.CLAIM, "bob removes 2"),
    "two-tables": partial(two_writers, ann=("ann grows", GROW), bob=("bob renames", RENAME)),
    "cleaner": cleaner,
    "housekeeper": housekeeper,
    "impatient": impatient,
    "gone": partial(alone, message="ann renames", change=RENAME, restart=False),
    # The node that it removes is one that an edge points at.
    "alone": partial(alone, message="ann removes 2", change=REMOVE, edge=True),
    "group": group,
    "served": served,
    "anything": anything,
}
SMALL = ("skew", "rivals", "joiner", "takeover")
"""Those that one explores to the end while waiting, with a crash and a lost reply."""
SKEWED = ("joiner", "impatient", "served")
"""Those in which recovery may take up the plan of a live writer: a clock is off by more than the grace
window, or the plan was in the way for too long."""


PLANS_MAX, CLAIMS_MAX = 8, 6
"""The largest sizes of the observed machine. Runs with more of either are judged up to the excess."""


NOT_TWO_ALONE = ("crowd", "cleaner", "housekeeper", "impatient", "group", "served", "anything")
"""Those with other processes than two that publish one plan each and open: costs differ there."""


class Size(NamedTuple):
    """The size of a run: its plans and claims, and whether a clock may be off by more than the grace
    window."""

    plans: int
    claims: int
    skew: bool

    def refinement(self) -> PublishRefinement:
        return PublishRefinement(self.plans, self.claims, skew=self.skew)


READERS = Readers(Size.refinement, PublishCoverage)
_fields = cached(trace_fields)


def _note(topic: str, value: Any) -> tuple[str, str, str] | None:
    """Return the outcome that a client noted, as the refinement map reads it."""
    if not topic.startswith("outcome "):
        return None
    outcome, plan = value[:2]
    return outcome, f"plan={plan}" if plan else "", "run"


def lockstep_of(run: ScenarioRun, claims: int, *, skew: bool) -> Lockstep:
    """The model following this run, with room for so many claims."""
    size = Size(min(max(len(run.changes), run.plans, 2), PLANS_MAX), min(claims, CLAIMS_MAX), skew)
    return Lockstep(READERS.of(size), run.world.findings, _fields, _note)


def play(
    run: ScenarioRun,
    scenario: str,
    writers: int = 2,
    plans: int = 1,
    *,
    separate: bool = False,
    followed: bool = True,
) -> None:
    """Set up one scenario; `small` lets the adversary choose one of the small ones."""
    run.world.at_end(parquet_cache.install())
    run.world.share_nothing()
    if scenario == "crowd":
        crowd(run, writers, plans, separate=separate)
    else:
        scenario = run.world.pick("scenario", SMALL) if scenario == "small" else scenario
        SCENARIOS[scenario](run)
    run.two_alone = scenario not in NOT_TWO_ALONE
    declare_checks(run)
    # The order in which requests take effect on a real store is unknown.
    if isinstance(run.world, World):
        changes = run.changes
        run.world.measure(lambda world: costs(changes, world))
        if followed:
            claims = len(run.world.processes) + 2  # one each, and those of processes that start again
            run.world.follow("lockstep", lockstep_of(run, claims, skew=scenario in SKEWED))


def program(
    world: World,
    scenario: str = "small",
    writers: int = 2,
    plans: int = 1,
    epochs: str = "same",
    depth: int = 0,
    tables: int = 0,
    lockstep: str = "on",
    coverage: str = "on",
    safeguards: Safeguards = STANDARD,
) -> None:
    """Publish as it ships, in one scenario: one of SCENARIOS, `small`, which is the four small ones, or
    `crowd`, with so many `writers` of so many `plans` each, whose `epochs` are the same or separate.

    The history has `depth` commits and the catalog so many further `tables`. The model follows every run
    unless `lockstep` is off; it never follows a mutant, whose own properties are to fail.
    """
    if scenario not in (*SCENARIOS, "small", "crowd"):
        raise Misuse(f"no scenario is called {scenario!r}; choose from small, crowd, {', '.join(SCENARIOS)}")
    if epochs not in ("same", "separate") or writers < 1 or plans < 1:
        raise Misuse("epochs is same or separate, and there is at least 1 writer with at least 1 plan")
    if depth < 0 or tables < 0:
        raise Misuse("depth and tables are counted from 0")
    product = safeguards == STANDARD
    followed = product and prepare_world(world, trace_fields, READERS, lockstep=lockstep, coverage=coverage)
    run = ScenarioRun(world, safeguards, depth=depth, tables=tables)
    play(run, scenario, writers, plans, separate=epochs == "separate", followed=followed)
