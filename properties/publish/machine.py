"""The publish machine as runs of the code are followed by it: the same steps, told by what the store shows.

What is different from `model/publish`, and why that is no other protocol:

- *A plan begins when it is captured*, which nobody sees; what is seen is its sidecar, perhaps several commits
  later. `begin_on` begins it where its sidecar lands, on the manifest that its sidecar names: what others
  did between the two, the model lets them do right after both (see `model/publish/writing.py`). For that the
  pins and the epoch of every manifest are kept (`pins_at`, `epoch_at`), and plans have no order.
- *Cleanup moves the boundary to a manifest that it had read*, not to the newest there is: `boundary_to`. And
  it deletes what no retained manifest pins and one pins something newer than, so also versions between two
  that are pinned (heads of plans that were undone), where the model stops at the oldest that is pinned.
- *Rows.* The model has one node, and an edge to it; a real catalog has many, so that a plan that removes one
  may follow a plan that removed another. `begin_on` asks nothing of rows: the audit's own properties do.
- *Openers are not counted.* An opener stops others only by what it writes, it may stop at any step, and
  others may do the same at the same time. So what openers know is written down as what *somebody* may know
  by now: `read`, in which epochs somebody read the sidecar; `undoing`, in which epochs somebody set out to
  restore which tables; `owed`, that somebody set out to retire it. That only grows. Every run of the model
  with any number of openers is a run of this one, step by step, and the other way round.
- *Troubles are not counted* in `Unlimited`: how many crashes a run has is the adversary's to say.
"""

from fencepost.model import Bool, Each, Int, Truth, action, all_of, any_of
from fencepost.model.publish import Publish
from fencepost.model.publish.lineages import EDGES, NODES, TABLES
from fencepost.model.publish.sidecars import KINDS
from fencepost.model.publish.writing import BOTH
from fencepost.model.store import Budget
from fencepost.model.store.faults import BudgetView

IDS = 1 + Publish.claims + 3 * Publish.writers
EPOCHS = 1 + Publish.claims
SETS = ("nodes", "edges", "both")
"""Tables that an undo restores."""


class Followed(Publish):
    """See the top of this module."""

    pins_at = Each(IDS, Each(len(TABLES), Int(0, 2 * Publish.writers)))
    epoch_at = Each(IDS, Int(0, Publish.claims))
    read = Each(Publish.writers, Each(EPOCHS, Bool()))
    undoing = Each(len(SETS), Each(Publish.writers, Each(EPOCHS, Bool())))
    owed = Each(Publish.writers, Bool())
    # By plan, epoch and table: at some time since it was read, its head was to be restored, or was not.
    seen_moved = Each(Publish.writers, Each(EPOCHS, Each(len(TABLES), Bool())))
    seen_still = Each(Publish.writers, Each(EPOCHS, Each(len(TABLES), Bool())))

    # Manifests are written down.

    def write_down(s) -> None:
        """What the newest manifest says."""
        for t in BOTH:
            s.pins_at[s.last - 1][t] = s.pin[t]
        s.epoch_at[s.last - 1] = s.epoch

    @action
    def claim(s) -> None:
        Publish.claim(s)
        s.write_down()

    def show(s, w: int, tables: list[Truth], new: Truth | bool = True) -> None:
        super().show(w, tables, new)
        s.write_down()

    def restore(s, w: int, tables: list[Truth]) -> None:
        super().restore(w, tables)
        s.write_down()

    @action(w=Publish.writers, kind=KINDS, parent=IDS)
    def begin_on(s, w: int, kind: str, parent: int) -> None:
        """The sidecar lands of a plan that was made on manifest `parent + 1`."""
        s.require(s.at[w] == "new")
        s.require(s.last > parent)
        s.at[w] = "heads"
        s.kind[w] = kind
        s.began[w] = s.epoch_at[parent]
        s.parent[w] = parent + 1
        s.sidecar[w] = s.is_on("sidecar-before-heads")
        for t in BOTH:
            s.base[w][t] = s.pins_at[parent][t]

    @action(w=Publish.writers)
    def stage_again(s, w: int) -> None:
        """Not told whether the sidecar was created, the writer asks again, or the first request lands late;
        meanwhile the plan was settled, and its sidecar retired.
        """
        s.require(s.at[w] != "new")
        s.require(~s.sidecar[w])
        s.sidecar[w] = True

    @action(to=IDS)
    def boundary_to(s, to: int) -> None:
        """All manifests before `to + 1` may go, and with them what only they pinned."""
        s.require(s.boundary < to)
        s.require(s.last > to)
        s.trouble.spend()
        s.boundary = to
        for t in BOTH:
            s.kept[t] = s.pins_at[to][t]

    @action(table=TABLES, number=2 * Publish.writers)
    def delete_version(s, table: str, number: int) -> None:
        """Cleanup, third step: a version that no retained manifest pins, older than one that is pinned."""
        t = TABLES.index(table)
        s.require(s.version[t][number].is_there)
        s.require(s.pin[t] > number + 1)
        for id_ in range(1 + s.claims + 3 * s.writers):
            retained = (s.boundary < id_ + 1) & (s.last > id_)
            s.require(~retained | (s.pins_at[id_][t] != number + 1))
        s.version[t][number].delete()

    # What somebody may know by now.

    @action(w=Publish.writers)
    def sidecar_is_read(s, w: int) -> None:
        s.require(s.sidecar[w])
        s.require(~s.read[w][s.epoch])
        if s.is_on("bounded-skew"):
            s.guard("grace-window", s.is_fenced(w) | ~s.is_at_work(w))
        s.read[w][s.epoch] = True

    @action(w=Publish.writers, epoch=EPOCHS)
    def sidecar_is_judged(s, w: int, epoch: int) -> None:
        """Settled, or in nobody's way: it is owed. Otherwise rolled forward, or some tables are restored.

        The heads are read one by one, and move meanwhile: the one may have been looked at before it moved
        and the other after. So what could be said of each table at some time since is kept.
        """
        s.require(s.read[w][epoch])
        settled = s.is_settled(w)
        s.require(~(settled & s.owed[w]))
        places = s.places(w, epoch)
        forward = s.may_roll_forward(w, epoch, places)
        restored = s.to_restore(w, epoch, places)
        moved = [s.seen_moved[w][epoch][t] | restored[t] for t in BOTH]
        still = [s.seen_still[w][epoch][t] | (s.touches_in_sidecar(w, t) & ~restored[t]) for t in BOTH]
        owed = settled | ~(forward | restored[NODES] | restored[EDGES])
        wanted = [
            (moved[t] & still[1 - t]) | (restored[t] & ~s.touches_in_sidecar(w, 1 - t) & ~forward)
            for t in BOTH
        ]
        wanted.append(restored[NODES] & restored[EDGES] & ~forward)
        new = [wanted[at] & ~s.undoing[at][w][epoch] for at in range(len(SETS))]
        new += [moved[t] & ~s.seen_moved[w][epoch][t] for t in BOTH]
        new += [still[t] & ~s.seen_still[w][epoch][t] for t in BOTH]
        s.require((owed & ~s.owed[w]) | any_of(new))
        s.owed[w] = s.owed[w] | owed
        for t in BOTH:
            s.seen_moved[w][epoch][t] = moved[t]
            s.seen_still[w][epoch][t] = still[t]
        for at, tables in enumerate(wanted):
            s.undoing[at][w][epoch] = s.undoing[at][w][epoch] | tables

    @action(w=Publish.writers, epoch=EPOCHS, table=TABLES)
    def one_is_left_to_rival(s, w: int, epoch: int, table: str) -> None:
        """A rival occupies the number: no late head of the plan can land there; the other is restored."""
        t = TABLES.index(table)
        other = s.undoing[SETS.index(TABLES[1 - t])][w]
        s.require(s.undoing[SETS.index("both")][w][epoch] & ~other[epoch])
        s.require(s.place(t, s.base[w][t], epoch, w, undo=True).rival)
        other[epoch] = True

    # What somebody does about it.

    @action(w=Publish.writers, epoch=EPOCHS)
    def somebody_rolls_forward(s, w: int, epoch: int) -> None:
        s.require(s.read[w][epoch])
        s.require(s.may_roll_forward(w, epoch, s.places(w, epoch)))
        s.show(w, [s.touches_in_sidecar(w, t) for t in BOTH])
        s.owed[w] = True

    @action(w=Publish.writers, epoch=EPOCHS, table=TABLES)
    def somebody_undoes_head(s, w: int, epoch: int, table: str) -> None:
        t = TABLES.index(table)
        s.require(any_of(s.undoing[SETS.index(tables)][w][epoch] for tables in (table, "both")))
        place = s.place(t, s.base[w][t], epoch, w, undo=True)
        s.create_head(t, place, w, epoch, undo=True)

    @action(w=Publish.writers, epoch=EPOCHS, tables=SETS)
    def somebody_commits_undo(s, w: int, epoch: int, tables: str) -> None:
        s.require(s.undoing[SETS.index(tables)][w][epoch])
        s.require(s.in_epoch(epoch))
        s.require(all_of(s.stands(w, t) for t in _of(tables)))
        s.restore(w, [Truth.constant(t in _of(tables)) for t in BOTH])
        s.owed[w] = True

    @action(w=Publish.writers)
    def somebody_retires(s, w: int) -> None:
        s.require(s.owed[w] & s.sidecar[w])
        s.sidecar[w] = False


def _of(tables: str) -> tuple[int, ...]:
    return BOTH if tables == "both" else (NODES if tables == "nodes" else EDGES,)


class _Free(BudgetView):
    """Costs nothing."""

    def spend(self, answer: str | bool = True) -> None:
        """Nothing is counted."""


class _Unlimited(Budget):
    view = _Free


class Unlimited(Followed):
    """The same, with as many troubles as there are."""

    trouble = _Unlimited(1)
