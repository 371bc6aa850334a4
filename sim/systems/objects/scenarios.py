"""The scenarios of the object server, and the program that sets one up."""

from collections.abc import Callable
from functools import partial

from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.safeguards import STANDARD, Safeguards
from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems.lockstep import prepare_world
from fencepost.sim.systems.objects.handoff import aborted, handoff, strangers
from fencepost.sim.systems.objects.run import READERS, ROWS, ScenarioRun
from fencepost.sim.systems.objects.uploading import assembled, collected, completed
from fencepost.sim.world import World

Setup = Callable[[ScenarioRun], None]


def rivals(run: ScenarioRun, ann: str, bob: str, *, first: bool = True) -> None:
    """Two writers of one key, and a reader; a run has a kill or a power loss, not both."""
    run.found(first=first)
    for name, kind in (("ann", ann), ("bob", bob)):
        run.writer(name, kind)
    run.reader()
    run.recovery()


def reconciled(run: ScenarioRun) -> None:
    """A server starts and reconciles a version that no row shows, while another one writes."""
    run.followed = False  # in the model a crash comes before that
    run.found(first=False)
    buckets, rows = run.warm(), run.root / ROWS
    run.put(buckets, "first", {})
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[:-1]))
    run.has_first = True
    run.writer("ann", "put")
    run.serve("starter", reconcile)
    run.recovery()


SCENARIOS: dict[str, Setup] = {
    "creates": partial(rivals, ann="create", bob="create", first=False),
    "replaces": partial(rivals, ann="replace", bob="replace"),
    "puts": partial(rivals, ann="put", bob="put"),
    "delete": partial(rivals, ann="delete", bob="replace"),
    "recreated": partial(rivals, ann="delete", bob="create"),
    "reconciled": reconciled,
    "completed": completed,
    "assembled": assembled,
    "collected": collected,
    "handoff": handoff,
    "aborted": aborted,
    "strangers": strangers,
}
SMALL = ("creates", "replaces")


def program(
    world: World,
    scenario: str = "small",
    lockstep: str = "on",
    coverage: str = "off",
    safeguards: Safeguards = STANDARD,
) -> None:
    """The object server as it ships, in one scenario: one of SCENARIOS, or `small`, which is the first two.

    The model follows the writers of a key unless `lockstep` is off; it never follows a mutant, whose own
    properties are to fail.
    """
    if scenario not in (*SCENARIOS, "small"):
        raise Misuse(f"no scenario is called {scenario!r}; choose from small, {', '.join(SCENARIOS)}")
    followed = safeguards == STANDARD and prepare_world(
        world, lambda _key, _body: "", READERS, lockstep=lockstep, coverage=coverage
    )
    world.configure(stamped=False, ticks=0)
    world.share_nothing()
    run = ScenarioRun(world, safeguards, followed=followed)
    SCENARIOS[world.pick("scenario", SMALL) if scenario == "small" else scenario](run)
    run.declare_checks()
