"""Recovery: an opener, or a writer that met a rival's head, settles a plan whose sidecar it has read.

Reading the sidecar and acting on it are two: somebody else may settle the plan between. Classifying is one
step though it reads many objects: heads only appear, in any order, so whatever mixture is read is what
stood at one moment of another run that ends in the same state. Rolling forward is one step too, since the
heads stand already; who only commits can as well look and commit at once, because losing means to look
again. Undoing takes steps of its own.

An opener may stop after any step: `give_up` is its crash, or it was fenced, or overtaken again and again.
"""

from fencepost.model.kernel import Bool, Each, Enum, Id, Int, Number, Size, Truth, action, all_of, any_of
from fencepost.model.publish.lineages import TABLES, Place
from fencepost.model.publish.writing import BOTH, Writing


class Recovery(Writing):
    """What openers do."""

    openers = Size(1, most=4, doc="processes that can be undoing a plan at the same time")

    work = Each(openers, Enum("idle", "has-read", "undoes", "retires"))
    whose = Each(openers, Id(Writing.writers, nobody=True))
    epoch_of = Each(openers, Int(0, Writing.claims))  # in which it acts
    restores = Each(openers, Each(len(TABLES), Bool()))

    # Ghosts: for properties only.
    dropped = Each(Writing.writers, Bool())  # recovery has undone the plan, or promised that it is no more
    torn = Each(Writing.writers, Bool())  # a manifest shows a part of the plan

    # What an opener makes of a plan.

    def is_fenced(s, w: int) -> Truth:
        return s.began[w] < s.epoch

    def is_expired(s, w: int) -> Truth:
        """Older than the grace window: with clocks that agree, its writer is no longer at work."""
        is_late = ~s.is_at_work(w) if s.is_on("bounded-skew") else Truth.constant(True)
        return is_late & (s.at[w] != "owes-retiring")

    def is_settled(s, w: int) -> Truth:
        """Every touched pin has moved on."""
        return all_of(~s.touches_in_sidecar(w, t) | ~s.stands(w, t) for t in BOTH)

    def places(s, w: int, epoch: Number | int) -> list[Place]:
        """What an executor of this epoch finds where the plan's heads would be."""
        return [s.place(t, s.base[w][t], epoch, w) for t in BOTH]

    def may_roll_forward(s, w: int, epoch: Number | int, places: list[Place]) -> Truth:
        """All heads are the plan's, and it may commit on the newest manifest."""
        complete = all_of(~s.touches_in_sidecar(w, t) | places[t].own for t in BOTH)
        stand = all_of(~s.touches_in_sidecar(w, t) | s.stands(w, t) for t in BOTH)
        return complete & stand & s.as_read(w) & s.in_epoch(epoch)

    def to_restore(s, w: int, epoch: Number | int, places: list[Place]) -> list[Truth]:
        """Where the plan's head is, is being undone, or (unless fenced) could still come to be."""
        expired = s.began[w] == epoch if s.is_on("grace-window") else Truth.constant(False)
        return [
            s.touches_in_sidecar(w, t)
            & s.stands(w, t)
            & (places[t].own | (s.head(t, w, undo=True) > s.base[w][t]) | (places[t].free & expired))
            for t in BOTH
        ]

    # Its steps.

    @action(o=openers, w=Writing.writers)
    def read_sidecar(s, o: int, w: int) -> None:
        """Opens, with or without a claim before, and finds a plan that need not be left alone."""
        s.require((s.work[o] == "idle") & s.sidecar[w])
        s.guard("grace-window", s.is_fenced(w) | s.is_expired(w))
        s.work[o] = "has-read"
        s.whose[o] = w
        s.epoch_of[o] = s.epoch

    @action(o=openers, w=Writing.writers)
    def roll_forward(s, o: int, w: int) -> None:
        s.require(s.has_read(o, w))
        epoch = s.epoch_of[o]
        s.require(s.may_roll_forward(w, epoch, s.places(w, epoch)))
        part = [s.touches_in_sidecar(w, t) for t in BOTH]
        s.torn[w] = any_of(s.touches(w, t) & ~part[t] for t in BOTH)
        s.show(w, part)
        s.work[o] = "retires"

    @action(o=openers, w=Writing.writers)
    def leave_unmoved(s, o: int, w: int) -> None:
        """Nothing of it is in anybody's way. A fenced plan may still come to be rolled forward: its
        requests may land, and another opener may have read the sidecar. Of others this is a promise.
        """
        s.require(s.has_read(o, w))
        epoch = s.epoch_of[o]
        places = s.places(w, epoch)
        s.require(~s.is_settled(w), ~s.may_roll_forward(w, epoch, places))
        s.require(~any_of(s.to_restore(w, epoch, places)))
        s.work[o] = "retires"
        s.dropped[w] = s.dropped[w] | ~s.is_fenced(w)

    @action(o=openers, w=Writing.writers)
    def begin_undo(s, o: int, w: int) -> None:
        s.require(s.has_read(o, w))
        epoch = s.epoch_of[o]
        places = s.places(w, epoch)
        restores = s.to_restore(w, epoch, places)
        s.require(~s.may_roll_forward(w, epoch, places), any_of(restores))
        s.work[o] = "undoes"
        for t in BOTH:
            s.restores[o][t] = restores[t]

    def has_read(s, o: int, w: int) -> Truth:
        return (s.work[o] == "has-read") & (s.whose[o] == w)

    def is_undoing(s, o: int, w: int) -> Truth:
        return (s.work[o] == "undoes") & (s.whose[o] == w)

    @action(o=openers, w=Writing.writers, table=TABLES)
    def undo_head(s, o: int, w: int, table: str) -> None:
        t = TABLES.index(table)
        s.require(s.is_undoing(o, w))
        s.require(s.restores[o][t])
        place = s.place(t, s.base[w][t], s.epoch_of[o], w, undo=True)
        s.create_head(t, place, w, s.epoch_of[o], undo=True)

    @action(o=openers, w=Writing.writers, table=TABLES)
    def leave_to_rival(s, o: int, w: int, table: str) -> None:
        """A rival occupies the number: no late head of this plan can land there; the other is restored."""
        t = TABLES.index(table)
        s.require(s.is_undoing(o, w))
        s.require(s.restores[o].all(True))
        s.require(s.place(t, s.base[w][t], s.epoch_of[o], w, undo=True).rival)
        s.restores[o][t] = False

    @action(o=openers, w=Writing.writers)
    def undo_commit(s, o: int, w: int) -> None:
        s.require(s.is_undoing(o, w))
        s.require(s.in_epoch(s.epoch_of[o]))
        s.require(*(~s.restores[o][t] | s.stands(w, t) for t in BOTH))
        s.restore(w, [s.restores[o][t] == True for t in BOTH])  # noqa: E712 - a column, not a truth value
        s.work[o] = "retires"
        s.restores[o] = (False, False)
        s.dropped[w] = True

    @action(o=openers, w=Writing.writers)
    def undo_lost(s, o: int, w: int) -> None:
        """A pin has moved, or a rival occupies the only number: classify anew."""
        s.require(s.is_undoing(o, w))
        moved = any_of(s.restores[o][t] & ~s.stands(w, t) for t in BOTH)
        places = [s.place(t, s.base[w][t], s.epoch_of[o], w, undo=True) for t in BOTH]
        s.require(moved | ~any_of(s.restores[o][t] & ~places[t].rival for t in BOTH))
        s.work[o] = "has-read"
        s.restores[o] = (False, False)

    @action(o=openers, w=Writing.writers)
    def retire_settled(s, o: int, w: int) -> None:
        s.require((s.whose[o] == w) & ((s.work[o] == "retires") | (s.has_read(o, w) & s.is_settled(w))))
        s.sidecar[w] = False
        s.rest(o)

    @action(w=Writing.writers, table=TABLES)
    def finish_undo(s, w: int, table: str) -> None:
        """Who meets the head of an undo whose sidecar is gone commits it: it shows what is pinned already.

        Its executor died, and another one that knew nothing of this table has retired the sidecar.
        """
        t = TABLES.index(table)
        s.require(~s.sidecar[w] & s.stands(w, t))
        place = s.place(t, s.pin[t], s.epoch)
        undo = s.head(t, w, undo=True)
        s.require(place.rival & (undo > s.pin[t]))
        s.require(s.place(t, s.pin[t], s.epoch, w, undo=True).own)
        s.restore(w, [Truth.constant(o == t) for o in BOTH])
        s.dropped[w] = True

    @action(o=openers)
    def give_up(s, o: int) -> None:
        s.require(s.work[o] != "idle")
        s.rest(o)

    def rest(s, o: int) -> None:
        s.work[o] = "idle"
        s.whose[o] = -1
        s.epoch_of[o] = 0
        s.restores[o] = (False, False)
