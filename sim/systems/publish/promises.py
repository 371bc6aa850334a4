"""What must hold, in every order and with every fault. See docs/decisions/0010-publish-protocol.md.

All but three are judged at the end of a run: what they speak of, the chain of manifests and what was said
about each plan, is only ever added to. `fenced` and `no-wedge` are also judged at once, by notes that a
process makes only when it sees one of them broken.
"""

import itertools
from collections.abc import Callable, Iterator

from fencepost.impl.publish.documents import Manifest
from fencepost.sim.systems.publish.changes import Change, done
from fencepost.sim.systems.publish.cost import too_dear
from fencepost.sim.systems.publish.examine import Examined, examine
from fencepost.sim.systems.publish.run import ScenarioRun
from fencepost.sim.world import View, World


def promise(run: ScenarioRun) -> None:
    """Declare all of them."""
    world = run.world
    world.always("fenced", lambda view: next(iter(view.notes("fenced")), None))
    world.always("no-wedge", lambda view: next(iter(view.notes("wedged")), None))
    for name, check in CHECKS.items():
        world.finally_(name, _judged(run, check))


Check = Callable[[ScenarioRun, Examined, View], Iterator[str]]


def _judged(run: ScenarioRun, check: Check) -> Callable[[View], str | None]:
    def judge(view: View) -> str | None:
        # Under control, nothing changes between two properties that are asked after as many steps.
        now = len(run.world.trace) if isinstance(run.world, World) else -1
        if now < 0 or run.examined[0] != now:
            run.examined = (now, examine(view.contents(""), run.safeguards))
        return next(check(run, run.examined[1], view), None)

    return judge


def _told(run: ScenarioRun, view: View) -> Iterator[tuple[str, str, str, int, int]]:
    """What was said about each plan: its message, what, its id, and what it cost."""
    for message in run.changes:
        for said, plan, requests, hops in view.notes(f"outcome {message}"):
            yield message, said, plan, requests, hops


def _published(found: Examined, message: str) -> list[Manifest]:
    return [
        c.manifest for c in found.chapters if c.manifest.message == message and c.manifest.kind == "publish"
    ]


def no_lost_write(run: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    oldest = found.chapters[0].manifest.id if found.chapters else 0
    for message, said, plan, *_ in _told(run, view):
        if said == "acked" and not _published(found, message) and oldest == 1:
            yield f"{message!r} was acknowledged, and no manifest holds plan {plan}"
        elif said == "acked" and oldest > 1 and not _shows(found, run.changes[message]):
            yield f"{message!r} was acknowledged, and after the cleanup it is not there"


def _shows(found: Examined, change: Change) -> bool:
    """Whether the newest tables hold what the change wrote (scenarios with a cleaner write each row once)."""
    newest = found.chapters[-1].tables
    return all(row["id"] in newest[table] for verb, table, rows in change if verb != "delete" for row in rows)


def no_phantom(run: ScenarioRun, found: Examined, view: View) -> Iterator[str]:
    for message in run.changes:
        if len(_published(found, message)) > 1:
            yield f"{message!r} was published {len(_published(found, message))} times"
    for message, said, *_ in _told(run, view):
        shown = _published(found, message)
        if said == "refused" and shown:
            yield f"{message!r} ended in a clean error, and manifest {shown[0].id} shows it"
    for chapter in found.chapters:
        manifest = chapter.manifest
        if (
            manifest.kind == "publish"
            and manifest.message not in run.changes
            and manifest.author != "founder"
        ):
            yield f"manifest {manifest.id} shows {manifest.message!r}, which nobody asked for"


def atomic_visibility(run: ScenarioRun, found: Examined, _: View) -> Iterator[str]:
    for before, after in itertools.pairwise(found.chapters):
        if after.manifest.author == "founder":
            continue
        change = run.changes.get(after.manifest.message, ()) if after.manifest.kind == "publish" else ()
        if after.tables != done(before.tables, change):
            yield (
                f"manifest {after.manifest.id} ({after.manifest.kind} {after.manifest.message!r}) is not the "
                "one before it and one whole plan"
            )


def live_writer(run: ScenarioRun, _: Examined, view: View) -> Iterator[str]:
    undone = set(view.notes("undone"))
    for message, said, plan, *_ in _told(run, view):
        if said == "acked" and plan in undone:
            yield f"recovery took {message!r} for a dead writer's and undid it, and it was acknowledged"


def referential_integrity(_: ScenarioRun, found: Examined, __: View) -> Iterator[str]:
    yield from (fault for fault in found.faults if "points at" in fault)


def cleanup_safe(_: ScenarioRun, found: Examined, __: View) -> Iterator[str]:
    yield from (fault for fault in found.faults if "points at" not in fault)


def no_wedge(_: ScenarioRun, found: Examined, __: View) -> Iterator[str]:
    if found.wedged:
        yield f"at the end nobody can write without claiming: {found.wedged}"


def flat_cost(run: ScenarioRun, _: Examined, __: View) -> Iterator[str]:
    if run.two_alone and isinstance(run.world, World):
        yield from too_dear(run.changes, run.world)


CHECKS: dict[str, Check] = {
    "no-lost-write": no_lost_write,
    "no-phantom": no_phantom,
    "referential-integrity": referential_integrity,
    "atomic-visibility": atomic_visibility,
    "live-writer": live_writer,
    "cleanup-safe": cleanup_safe,
    "no-wedge at rest": no_wedge,
    "flat-cost": flat_cost,
}
