"""The lineages of two tables: version objects by number, create-only, and the pin of the newest manifest.

`nodes` and `edges`: an edge points at a node, so a write to the one reads the other. An executor looks for
its place from the pin on that its plan stands on. What stands there is its own, is dead and stepped over,
is of a later epoch, or a rival's (late-head). Version n of a table is `version[table][n - 1]`.

Cleanup lists what it may delete before it deletes it. That is one step here: what no retained manifest
pins, and some later one is past, is so for ever.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fencepost.model.kernel import Bool, Each, Id, Int, Number, Truth, action, any_of, pick
from fencepost.model.publish.chain import Chain
from fencepost.model.store import Key, KeyView

TABLES = ("nodes", "edges")
NODES, EDGES = 0, 1


@dataclass(frozen=True)
class Place:
    """What an executor of a plan finds where it would put its head: one of these, in every state."""

    own: Truth
    later: Truth
    rival: Truth
    free: Truth
    number: Number
    """The first free number, where it is free."""


class Lineages(Chain):
    """The versions of every table."""

    pin = Each(len(TABLES), Int(0, 2 * Chain.writers))
    # Who wrote it, for the plan itself or to undo it, and the epoch that the object names.
    version = Each(
        len(TABLES),
        Each(2 * Chain.writers, Key(plan=Id(Chain.writers), undo=Bool(), epoch=Int(0, Chain.claims))),
    )
    kept = Each(len(TABLES), Int(0, 2 * Chain.writers))  # the oldest pins of a manifest that is retained
    base = Each(Chain.writers, Each(len(TABLES), Int(0, 2 * Chain.writers)))  # the pins a plan stands on

    def place(s, t: int, base: Number, epoch: Number | int, plan: int = -1, *, undo: bool = False) -> Place:
        """Look from `base` on; plan -1 is a writer that has nothing there."""
        nobody = Truth.constant(False)
        own, later, rival, free, number = nobody, nobody, nobody, nobody, base
        for n, version in s.versions(t):
            here = (base < n) & ~(own | later | rival | free)
            found = here & version.is_there
            is_own = found & (version.plan == plan) & (version.undo == undo)
            others = found & ~is_own
            is_later = others & s.is_later(version, epoch)
            is_dead = s.is_dead(t, n, base, epoch)
            if undo and s.is_on("late-head"):
                is_dead = is_dead | (version.plan == plan)
            own = own | is_own
            later = later | is_later
            rival = rival | (others & ~is_later & ~is_dead)
            number = pick(here & ~version.is_there, n, number)
            free = free | (here & ~version.is_there)
        return Place(own, later, rival, free, number)

    def versions(s, t: int) -> Iterator[tuple[int, KeyView]]:
        """The objects of a lineage with their numbers."""
        return enumerate(s.version[t], start=1)

    def is_later(s, version: KeyView, epoch: Number | int) -> Truth:
        """Whether whoever wrote the version fences an executor of `epoch`."""
        judged = s.is_on("late-head") and s.is_on("epoch-check")
        later: Truth = version.epoch > epoch
        return later if judged else Truth.constant(False)

    def is_dead(s, t: int, n: int, base: Number, epoch: Number | int) -> Truth:
        """Whether version n can never be pinned: its writer is fenced, or it stands on a pin that is gone."""
        if not s.is_on("late-head"):
            return Truth.constant(False)
        version = s.version[t][n - 1]
        dead = any_of((version.plan == q) & (s.base[q][t] < base) for q in range(s.writers))
        return dead | (version.epoch < epoch) if s.is_on("epoch-check") else dead

    def create_head(s, t: int, place: Place, plan: int, epoch: Number | int, *, undo: bool = False) -> None:
        """Create the head where there is room for it; keeps the rows where there is."""
        s.require(place.free)
        s.version[t][place.number - 1].create("done", plan=plan, undo=undo, epoch=epoch)

    def head(s, t: int, plan: int, *, undo: bool = False) -> Number:
        """The highest number at which a head of the plan stands; 0 for none."""
        number: Number | int = 0
        for n, version in s.versions(t):
            number = pick(version.holds(plan=plan, undo=undo), n, number)
        assert isinstance(number, Number)
        return number

    @action
    def move_boundary(s) -> None:
        """Cleanup, first step: all manifests but the newest may go, and with them what only they pinned."""
        s.move_the_boundary()
        for t in range(len(TABLES)):
            s.kept[t] = s.pin[t]

    @action(table=TABLES, number=2 * Chain.writers)
    def delete_version(s, table: str, number: int) -> None:
        """Cleanup, third step. Number counts from 0 here, as in the state."""
        t = TABLES.index(table)
        s.require(s.version[t][number].is_there)
        s.require(s.kept[t] > number + 1)
        s.version[t][number].delete()
