"""Long lives of one catalog, really driven: several writers, plan after plan, claims and cleanups between.

    lives(3, writers=3, plans=12, claims=3, cleans=3)

Each writer opens the catalog anew after every seven plans and after every error, each `claims`-th time
claiming an epoch (0: never), and cleans up after every `cleans` plans (0: never). Plans of all kinds that
the model knows; many are refused, because somebody else was quicker.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from bench.traces import Kept
from fencepost.impl.publish import STANDARD, Catalog, Mode, PublishError
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.properties.publish import parquet_cache
from fencepost.properties.publish.checks import Change, add_to_draft, knows, person
from fencepost.sim.explore import Setting
from fencepost.sim.systems.publish.run import ScenarioRun
from fencepost.sim.world import Budget, World

AT_ONCE = 7
"""Plans of one opening."""
KINDS: tuple[Callable[[int], Change], ...] = (
    lambda n: (("append", "person", (person(n),)),),
    lambda n: (("append", "knows", (knows(n, 1, 2),)),),
    lambda n: (("append", "person", (person(n),)), ("append", "knows", (knows(n, n, 1),))),
    lambda n: (("upsert", "person", ({"id": 1, "name": f"n{n}"},)),),
    lambda n: (("delete", "person", (n - 6,)),),
)


def lives(
    count: int,
    *,
    writers: int = 3,
    plans: int = 12,
    claims: int = 3,
    cleans: int = 3,
    faults: int = 1,
    seed: int = 0,
) -> list[list[Event]]:
    """So many lives, the same every time; each a run that tells when requests landed."""
    program = partial(_life, writers=writers, plans=plans, claims=claims, cleans=cleans)
    budget = Budget(crash=faults, reply_lost=faults, request_lost=faults, late=faults, conflict=faults)
    search = Kept(Setting(program, budget, seed=seed, steps_max=1_000_000), "life", trace_fields)
    search.explore(lambda done: done.schedules >= count)
    assert not search.failures, search.failures
    return search.runs


def as_in_production(run: list[Event]) -> list[Event]:
    """The run as a tracer of production writes it: requests and responses, nobody knows when they landed."""
    kept = [event for event in run if event.phase in ("request", "response")]
    return [replace(event, seq=seq) for seq, event in enumerate(kept)]


def _life(world: World, *, writers: int, plans: int, claims: int, cleans: int) -> None:
    run = ScenarioRun(world, STANDARD)
    world.at_end(parquet_cache.install())
    world.share_nothing()
    changes = {
        f"{writer} {n}": KINDS[(5 * writer + 7 * n) % len(KINDS)](100 + writer * plans + n)
        for writer in range(writers)
        for n in range(plans)
    }
    run.found(changes)
    for writer in range(writers):
        waiting = [f"{writer} {n}" for n in range(plans)]
        openings = itertools.count(writer + 1)
        live = partial(_writer, run, f"writer-{writer}", waiting, openings, claims, cleans)
        world.spawn(live, name=f"writer-{writer}", restart=True, may_raise=(PublishError,))


def _writer(
    run: ScenarioRun, name: str, waiting: list[str], openings: Iterator[int], claims: int, cleans: int
) -> None:
    while waiting:
        mode = Mode.CLAIM if claims and next(openings) % claims == 0 else Mode.JOIN
        try:
            catalog, _ = run.open(name, mode)
            for _ in range(min(AT_ONCE, len(waiting))):
                if not _published(run, catalog, waiting.pop(0)):
                    break
            if cleans and len(waiting) % cleans == 0:
                catalog.cleanup(keep=2 + len(waiting) % 3)
            catalog.close()
        except PublishError:
            continue  # opened anew


def _published(run: ScenarioRun, catalog: Catalog, message: str) -> bool:
    """Publish one change, or not; whether the handle may go on."""
    draft = catalog.draft(message)
    try:
        add_to_draft(draft, run.changes[message])
        catalog.publish(draft)
    except PublishError as refused:
        return type(refused).__name__ not in ("Fenced", "Unknown")
    return True
