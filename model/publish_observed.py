"""Publish as the store shows it: the specification that replay, lockstep and coverage judge runs by.

Every action but the hidden ones changes an object of the store. A hidden action is a decision of one process
that no request shows. `model/publish.py` refines this machine: each of its steps is one of these steps, or
changes nothing here. It has a fixed number of openers, counts faults, and begins a plan where it is captured.
Here:

- A plan begins where its sidecar lands, on any manifest that existed by then. So the chain keeps the epoch
  and the pins of every manifest, and plans have no order.
- Openers are not counted. An opener excludes others only by what it writes, may stop at any step, and another
  may do the same at the same time. So the state records, for each plan and epoch, what some opener may have
  read and decided by now. That only grows.
- Crashes, lost replies and cleanups are not counted.
- Cleanup moves the boundary to any manifest, and deletes every version that no retained manifest pins.
- A plan that removes rows may follow any other plan, because a catalog has more rows than one.

A writer, as far as the store can show it. Lower case is hidden, a star marks states that a crash leaves:

            SIDECAR LANDS            LAST HEAD              MANIFEST
    new ------------------> heads* -----------> commit* -------------> created*
                              |                  | ^ retry on newest      |
                 refused      |          refused | +----------------------+ (id deleted before)
              +---------------+------+           |                        | published
              | no head              | a head    v                        v
              |                      +-------> undo* ----------> owes-retiring ----> over
              +----------------------------------------------------^         RETIRES

A writer that crashed, or ended with an unknown outcome, sends nothing new. Its last requests are under way:
heads (`heads-under-way`) or a manifest (`manifest-under-way`). Each lands at any later step, or never.
"""

from typing import ClassVar

from fencepost.model import *
from fencepost.model.store import Key, KeyView

TABLES = ("nodes", "edges")
KINDS = ("link", "drop", "add", "both")
AT_WORK = ("heads", "commit", "created", "undo")
NEW_WRITER = -1
RESTORED = {"nodes": ("nodes",), "edges": ("edges",), "both": TABLES}
"""The tables that an undo restores, by name."""
TWO_PLANS = {"writers": 2, "claims": 0}


class PublishObserved(Machine):
    """Writes to several tables that become visible all at once, by what the store shows of them."""

    # Constants.

    writers = Size(1, most=8, doc="plans in one run, each with its own writer")
    claims = Size(1, least=0, most=6, doc="epochs claimed in one run: keeps the space finite")
    ids = 1 + claims + 3 * writers
    numbers = 2 * writers
    epochs = 1 + claims

    assumptions: ClassVar = {
        "bounded-skew": "the grace window is over only when the writer is no longer at work",
    }

    # State: the chain of manifests.

    last = Int(1, ids, start=1)  # the newest id
    epoch = Int(0, claims)  # of the newest manifest
    pin = Each(TABLES, Int(0, numbers))  # of the newest manifest
    epoch_at = Each(ids, Int(0, claims))  # of manifest id, at id - 1
    pins_at = Each(ids, Each(TABLES, Int(0, numbers)))  # of manifest id, at id - 1
    boundary = Int(0, ids)  # ids up to it may be deleted
    deleted = Int(0, ids)  # ids up to it are deleted

    # State: the versions of the tables. Version n of table t is `version[t][n - 1]`: the plan that created
    # it, for itself or to undo itself, and the epoch that the object names.

    version = Each(TABLES, Each(numbers, Key(plan=Id(writers), undo=Bool(), epoch=Int(0, claims))))

    # State: the plans and their writers.

    plan = Role(
        writers,
        kind=Enum(*KINDS),
        base=Each(TABLES, Int(0, numbers)),  # the pins that the plan is made on
        began=Int(0, claims),  # the epoch in which the plan was made
        sidecar=Bool(),
        manifest=Int(0, ids),  # the id that published the plan; 0 for none
    )
    writer = Role(
        writers,
        at=Enum("new", *AT_WORK, "owes-retiring", "over", "heads-under-way", "manifest-under-way"),
        parent=Int(0, ids),  # the manifest behind which the writer creates its own
        outcome=Enum("nothing", "published", "refused"),  # as reported to the caller
    )

    # State: what some opener may have read and decided, by plan and by the epoch in which it acts.

    recovery = Role(
        writers,
        read=Each(epochs, Bool()),  # an opener has read the sidecar
        seen_moved=Each(epochs, Each(TABLES, Bool())),  # it may have found a head to restore
        seen_still=Each(epochs, Each(TABLES, Bool())),  # it may have found none to restore
        undoing=Each(epochs, Each(tuple(RESTORED), Bool())),  # it may restore these tables
        owed=Bool(),  # an opener may retire the sidecar
    )

    # For properties only: recovery has undone the plan, or promised that it never commits.
    ghost = Role(writers, dropped=Bool())

    # Definitions: heads.

    def versions(s, t: str) -> enumerate[KeyView]:
        return enumerate(s.version[t], start=1)

    def head(s, t: str, w: int, *, undo: bool = False) -> Number:
        """The highest number of a head of plan w; 0 for none."""
        return most(pick(v.holds(plan=w, undo=undo), n, 0) for n, v in s.versions(t))

    def is_later(s, v: KeyView, epoch: Number | int) -> Truth:
        return v.epoch > epoch

    def gone_plans(s, t: str, base: Number, undone: int = NEW_WRITER) -> list[Truth]:
        """Return for each plan whether it can never pin the table: it is undone, or its base is gone."""
        return [(s.plan[w].base[t] < base) | (w == undone) for w in range(s.writers)]

    def is_dead(s, v: KeyView, gone: list[Truth], epoch: Number | int) -> Truth:
        """Version v can never be pinned: its plan is gone, or of an earlier epoch than this."""
        return any_of((v.plan == w) & is_gone for w, is_gone in enumerate(gone)) | (epoch > v.epoch)

    def place(s, t: str, w: int, epoch: Number | int, *, undo: bool = False) -> Choice:
        """Return what an executor of this epoch meets where it would create the head of plan w.

        The lowest version above the base of the plan that is not dead decides. Without one there is no place.
        """
        base = s.pin[t] if w == NEW_WRITER else s.plan[w].base[t]
        gone = s.gone_plans(t, base, w if undo else NEW_WRITER)
        met: Choice | str = "full"
        for n, v in reversed([*s.versions(t)]):
            met = case(
                (n <= base, met),
                (~v.is_there, "free"),
                ((v.plan == w) & (v.undo == undo), "own"),
                (s.is_later(v, epoch), "later"),
                (s.is_dead(v, gone, epoch), met),
                otherwise="rival",
            )
        assert isinstance(met, Choice)
        return met

    def create_head(s, t: str, w: int, epoch: Number | int, *, undo: bool = False) -> None:
        """Create version n, the first free number above the base of plan w."""
        first = least(pick((s.plan[w].base[t] < n) & ~v.is_there, n, 2 * s.writers) for n, v in s.versions(t))
        s.version[t][first - 1].create("done", plan=w, undo=undo, epoch=epoch)

    # Definitions: plans and their expectations.

    def touches(s, w: int, t: str) -> Truth:
        return s.plan[w].kind != "link" if t == "nodes" else s.plan[w].kind.is_in("link", "both")

    def reads(s, w: int, t: str) -> Truth:
        return s.plan[w].kind == ("link" if t == "nodes" else "drop")

    def is_current(s, w: int, t: str) -> Truth:
        """The table is still pinned as in the base of the plan."""
        return s.pin[t] == s.plan[w].base[t]

    def expectations_hold(s, w: int) -> Truth:
        """All tables that the plan touches or has read are pinned as in its base."""
        return all_of(implies(s.touches(w, t) | s.reads(w, t), s.is_current(w, t)) for t in TABLES)

    def may_commit(s, w: int) -> Truth:
        """The plan's own writer may commit it on the newest manifest."""
        return s.expectations_hold(w) & (s.plan[w].began >= s.epoch)

    def is_complete(s, w: int) -> Truth:
        return all_of(implies(s.touches(w, t), s.head(t, w) > 0) for t in TABLES)

    def shows(s, w: int, t: str) -> Truth:
        """The newest manifest pins the plan's head of the table."""
        return (s.pin[t] == s.head(t, w)) & (s.pin[t] > s.plan[w].base[t])

    def is_pinned(s, w: int) -> Truth:
        return any_of(s.touches(w, t) & s.shows(w, t) for t in TABLES)

    def is_settled(s, w: int) -> Truth:
        """Every pin that the plan would replace has moved on: published, undone or superseded."""
        return ~any_of(s.touches(w, t) & s.is_current(w, t) for t in TABLES)

    def is_undone(s, w: int, t: str) -> Truth:
        """The head that undoes the plan in this table exists."""
        return s.head(t, w, undo=True) > s.plan[w].base[t]

    def must_undo(s, w: int, t: str) -> Truth:
        """A head of the plan is ahead of its pin. The writer that created it restores the table."""
        return s.touches(w, t) & s.is_current(w, t) & (s.head(t, w) > 0)

    def is_at_work(s, w: int) -> Truth:
        """The writer has neither crashed nor reported to its caller."""
        return s.writer[w].at.is_in(*AT_WORK)

    def is_left_alone(s, w: int) -> Truth:
        """The plan is of the present epoch, and the grace window is not over."""
        return (s.plan[w].began >= s.epoch) & s.is_at_work(w)

    @without("bounded-skew", replaces=is_left_alone)
    def is_never_left_alone(s, w: int) -> bool:
        return False

    def may_roll_forward(s, w: int, epoch: int) -> Truth:
        """All heads exist, and an executor of this epoch may commit the plan on the newest manifest."""
        own = all_of(implies(s.touches(w, t), s.place(t, w, epoch) == "own") for t in TABLES)
        return own & s.expectations_hold(w) & (s.epoch <= epoch)

    def must_restore(s, w: int, epoch: int, t: str) -> Truth:
        """A head of the plan is in the way of others, is being undone, or can still appear."""
        place = s.place(t, w, epoch)
        may_appear = (place == "free") & (s.plan[w].began == epoch)
        is_in_the_way = (place == "own") | may_appear | s.is_undone(w, t)
        return s.touches(w, t) & s.is_current(w, t) & is_in_the_way

    # Actions: the chain and its cleanup.

    def add_manifest(s, new: Truth | bool = True) -> None:
        """Where `new`: append a manifest with the present pins and epoch."""
        s.last = pick(new, s.last + 1, s.last)
        s.pins_at[s.last - 1] = s.pin
        s.epoch_at[s.last - 1] = s.epoch

    def pin_heads(
        s, w: int, tables: list[Truth | bool], new: Truth | bool = True, *, undo: bool = False
    ) -> None:
        """Where `new`: append a manifest that pins the plan's heads, or those of its undo, in the tables."""
        for t, shown in zip(TABLES, tables, strict=True):
            s.pin[t] = pick(new & shown, s.head(t, w, undo=undo), s.pin[t])
        s.add_manifest(new)

    def publish(s, w: int, new: Truth | bool = True) -> None:
        s.pin_heads(w, [s.touches(w, t) for t in TABLES], new)
        s.plan[w].manifest = pick(new, s.last, s.plan[w].manifest)

    @action
    def claim(s) -> None:
        """An opener claims the next epoch by a manifest, which fences all writers of earlier epochs."""
        s.require(s.epoch < s.claims)
        s.epoch += 1
        s.add_manifest()

    @action(to=ids)
    def move_boundary(s, to: int) -> None:
        """Cleanup, first step: all manifests before `to + 1` may be deleted."""
        s.require(s.boundary < to)
        s.require(s.last > to)
        s.boundary = to

    @action
    def delete_manifests(s) -> None:
        """Cleanup, second step."""
        s.require(s.deleted < s.boundary)
        s.deleted = s.boundary

    @action(table=TABLES, number=numbers)
    def delete_version(s, table: str, number: int) -> None:
        """Cleanup, third step: version `number + 1`, which no retained manifest pins and a pin has passed."""
        s.require(s.version[table][number].is_there)
        s.require(s.pin[table] > number + 1)
        for id_, pins in enumerate(s.pins_at, start=1):
            is_retained = (s.boundary < id_) & (s.last >= id_)
            s.require(implies(is_retained, pins[table] != number + 1))
        s.version[table][number].delete()

    # Actions: a writer stages its plan and moves heads.

    @action(w=among(writer, at="new"), kind=KINDS, parent=ids)
    def stage(s, w: int, kind: str, parent: int) -> None:
        """The sidecar lands of a plan that was made on manifest `parent + 1`."""
        s.require(s.last > parent)
        s.writer[w].at = "heads"
        s.plan[w].kind = kind
        s.writer[w].parent = parent + 1
        s.plan[w].began = s.epoch_at[parent]
        s.plan[w].base = s.pins_at[parent]
        s.plan[w].sidecar = True

    @action(w=writers)
    def stage_again(s, w: int) -> None:
        """The sidecar lands once more, after the plan was settled and its sidecar retired.

        The first create had an unknown outcome: the writer repeats it, or it lands late.
        """
        s.require(s.writer[w].at != "new")
        s.require(~s.plan[w].sidecar)
        s.plan[w].sidecar = True

    @action(w=among(writer, at="heads"), table=TABLES)
    def move_head(s, w: int, table: str) -> None:
        s.require(s.touches(w, table))
        s.require(s.place(table, w, s.plan[w].began) == "free")
        s.create_head(table, w, s.plan[w].began)
        s.writer[w].at = pick(s.is_complete(w), "commit", "heads")

    @action(w=among(writer, at="heads"))
    def probe_finds_winner(s, w: int) -> None:
        """Hidden. Before a head moved, the writer finds a manifest on which its plan may not commit."""
        s.require(s.writer[w].parent < s.last)
        s.require(~s.may_commit(w))
        s.require(*(s.head(t, w) == 0 for t in TABLES))
        s.writer[w].at = "owes-retiring"
        s.writer[w].outcome = "refused"

    @action(w=among(writer, at="heads"))
    def heads_blocked(s, w: int) -> None:
        """Hidden. A head of a rival or of a later epoch is in the way, and all creates are answered."""
        met = [s.met(w, t) for t in TABLES]
        s.require(*(place != "free" for place in met))
        s.require(any_of(place.is_in("later", "rival") for place in met))
        if not any_of(place == "own" for place in met):
            s.writer[w].at = "owes-retiring"
            s.writer[w].outcome = "refused"
        elif any_of(place == "later" for place in met):
            s.writer[w].at = "over"
            s.writer[w].outcome = "refused"
        else:
            s.writer[w].at = "undo"

    def met(s, w: int, t: str) -> Choice:
        """Return what the writer meets where it would create its head; "full" for a table that it leaves."""
        return pick(s.touches(w, t), s.place(t, w, s.plan[w].began), "full")

    # Actions: a writer commits.

    def is_taken(s, w: int) -> Truth:
        """The id behind the writer's parent exists."""
        return (s.writer[w].parent < s.last) & (s.writer[w].parent >= s.deleted)

    @action(w=among(writer, at=("commit", "created")))
    def create_manifest(s, w: int) -> None:
        """The id is free: it is the next one, or it was deleted, and then no manifest shows the plan.

        The writer may send the create again, if it does not know the outcome and the id was deleted since.
        """
        s.require(~s.is_taken(w))
        s.publish(w, s.writer[w].parent == s.last)
        s.writer[w].at = "created"

    @action(w=among(writer, at=("commit", "created")))
    def retry(s, w: int) -> None:
        """Hidden. The id was taken, or had been deleted before: the writer goes on behind the newest one."""
        s.require((s.writer[w].parent < s.last) | (s.writer[w].at == "created"))
        s.require(s.may_commit(w))
        s.writer[w].at = "commit"
        s.writer[w].parent = s.last

    @action(w=among(writer, at=("commit", "created")))
    def learn_success(s, w: int) -> None:
        """Hidden. The plan is in a manifest, or the newest manifest pins its heads.

        A create on an id that cleanup has deleted puts the plan into no manifest.
        """
        s.require((s.plan[w].manifest > 0) | s.is_pinned(w))
        s.writer[w].at = "owes-retiring"
        s.writer[w].outcome = "published"

    @action(w=among(writer, at="commit"))
    def learn_refusal(s, w: int) -> None:
        """Hidden. The id was taken, and the plan may not commit on the newest manifest.

        The writer has seen all manifests since its parent: the boundary has not passed them.
        """
        s.require(s.writer[w].parent < s.last)
        s.require(s.boundary <= s.writer[w].parent)
        s.require(s.plan[w].manifest == 0)
        s.require(~s.may_commit(w))
        s.require(s.plan[w].began >= s.epoch)
        s.writer[w].at = "undo"

    # Actions: a writer undoes its plan after a refusal, retires its sidecar, or crashes.

    @action(w=among(writer, at="undo"), table=TABLES)
    def undo_own_head(s, w: int, table: str) -> None:
        s.require(s.must_undo(w, table))
        s.require(s.place(table, w, s.plan[w].began, undo=True) == "free")
        s.create_head(table, w, s.plan[w].began, undo=True)

    @action(w=among(writer, at="undo"))
    def undo_own_commit(s, w: int) -> None:
        needed: list[Truth | bool] = [s.must_undo(w, t) for t in TABLES]
        s.require(s.plan[w].began >= s.epoch)
        s.require(any_of(needed))
        s.require(*(implies(s.must_undo(w, t), s.is_undone(w, t)) for t in TABLES))
        s.pin_heads(w, needed, undo=True)
        s.writer[w].at = "owes-retiring"
        s.writer[w].outcome = "refused"

    @action(w=among(writer, at="undo"))
    def undo_own_ends(s, w: int) -> None:
        """Hidden. Nothing is left to undo, or another process will undo it: either way the plan is dead."""
        if not any(s.must_undo(w, t) for t in TABLES):
            s.writer[w].at = "owes-retiring"
        else:
            is_fenced = s.plan[w].began < s.epoch
            s.require(is_fenced or any(s.is_undo_blocked(w, t) for t in TABLES))
            s.writer[w].at = "over"
        s.writer[w].outcome = "refused"

    def is_undo_blocked(s, w: int, t: str) -> Truth:
        """The head that would undo the plan in this table cannot be created."""
        place = s.place(t, w, s.plan[w].began, undo=True)
        return s.must_undo(w, t) & place.is_in("later", "rival")

    @action(w=among(writer, at="owes-retiring"))
    def retire(s, w: int) -> None:
        s.writer[w].at = "over"
        s.plan[w].sidecar = False

    @action(w=among(writer, at=AT_WORK))
    def crash(s, w: int) -> None:
        """Hidden. A crash, or an end with an unknown outcome."""
        s.writer[w].at = case(
            (s.writer[w].at == "heads", "heads-under-way"),
            (s.writer[w].at == "commit", "manifest-under-way"),
            otherwise="over",
        )

    @action(w=among(writer, at="heads-under-way"), table=TABLES)
    def head_lands(s, w: int, table: str) -> None:
        s.require(s.touches(w, table))
        s.require(s.place(table, w, s.plan[w].began) == "free")
        s.create_head(table, w, s.plan[w].began)

    @action(w=among(writer, at="manifest-under-way"))
    def manifest_lands(s, w: int) -> None:
        """The create lands on the newest manifest. Landing on a deleted id shows nothing."""
        s.require(s.writer[w].parent == s.last)
        s.publish(w)
        s.writer[w].at = "over"

    # Actions: some opener, or a writer that met a rival's head, settles a plan whose sidecar it has read.

    @action(w=among(plan, sidecar=True))
    def recovery_reads(s, w: int) -> None:
        """Hidden. An opener of the present epoch reads the sidecar.

        It leaves a plan of its own epoch alone during the grace window.
        """
        s.require(~s.is_left_alone(w))
        s.recovery[w].read[s.epoch] = True

    @action(w=writers)
    def recovery_settles(s, w: int) -> None:
        """Hidden. An opener finds the plan settled: its sidecar may be retired."""
        s.require(any_of(s.recovery[w].read))
        s.require(s.is_settled(w))
        s.recovery[w].owed = True

    @action(w=writers, epoch=epochs)
    def recovery_judges(s, w: int, epoch: int) -> None:
        """Hidden. An opener of this epoch classifies the plan, which is not settled.

        It rolls the plan forward, or restores the tables where a head is in the way, or retires the sidecar
        if there is none. It reads the heads one by one, and they move meanwhile. So it may have read one
        table before its head moved and the other one after: `seen_moved` and `seen_still` keep what an opener
        may have found in each table at some time.
        """
        s.require(s.recovery[w].read[epoch])
        s.require(~s.is_settled(w))
        forward = s.may_roll_forward(w, epoch)
        restored = {t: s.must_restore(w, epoch, t) for t in TABLES}
        moved = {t: s.recovery[w].seen_moved[epoch][t] | restored[t] for t in TABLES}
        still = {t: s.recovery[w].seen_still[epoch][t] | (s.touches(w, t) & ~restored[t]) for t in TABLES}
        nothing = ~forward & ~any_of(restored.values())
        promised = nothing & (s.plan[w].began == s.epoch)
        undoing = {"both": all_of(restored.values()) & ~forward}
        for t, other in (TABLES, TABLES[::-1]):
            alone = restored[t] & ~s.touches(w, other) & ~forward
            undoing[t] = alone | (moved[t] & still[other])
        s.recovery[w].owed |= nothing
        s.ghost[w].dropped |= promised
        for t in TABLES:
            s.recovery[w].seen_moved[epoch][t] = moved[t]
            s.recovery[w].seen_still[epoch][t] = still[t]
        for tables in RESTORED:
            s.recovery[w].undoing[epoch][tables] |= undoing[tables]

    @action(w=writers, epoch=epochs, table=TABLES)
    def recovery_leaves_to_rival(s, w: int, epoch: int, table: str) -> None:
        """Hidden. A rival occupies the number in one of two tables: the opener restores the other one.

        No late head of the plan can land where the rival's head is.
        """
        other = TABLES[1 - TABLES.index(table)]
        s.require(s.recovery[w].undoing[epoch]["both"])
        s.require(s.place(table, w, epoch, undo=True) == "rival")
        s.recovery[w].undoing[epoch][other] = True

    @action(w=writers, epoch=epochs)
    def recovery_rolls_forward(s, w: int, epoch: int) -> None:
        s.require(s.recovery[w].read[epoch])
        s.require(s.may_roll_forward(w, epoch))
        s.publish(w)
        s.recovery[w].owed = True

    @action(w=writers, epoch=epochs, table=TABLES)
    def recovery_undoes_head(s, w: int, epoch: int, table: str) -> None:
        s.require(s.recovery[w].undoing[epoch][table] | s.recovery[w].undoing[epoch]["both"])
        s.require(s.place(table, w, epoch, undo=True) == "free")
        s.create_head(table, w, epoch, undo=True)

    @action(w=writers, epoch=epochs, tables=tuple(RESTORED))
    def recovery_commits_undo(s, w: int, epoch: int, tables: str) -> None:
        s.require(s.recovery[w].undoing[epoch][tables])
        s.require(s.epoch <= epoch)
        s.require(*(s.is_current(w, t) & s.is_undone(w, t) for t in RESTORED[tables]))
        s.pin_heads(w, [t in RESTORED[tables] for t in TABLES], undo=True)
        s.recovery[w].owed = True
        s.ghost[w].dropped = True

    @action(w=among(plan, sidecar=True))
    def recovery_retires(s, w: int) -> None:
        s.require(s.recovery[w].owed)
        s.plan[w].sidecar = False

    @action(w=writers, table=TABLES)
    def finish_undo(s, w: int, table: str) -> None:
        """A writer commits the head of an undo whose sidecar is gone: it shows what is pinned already.

        The executor of the undo died, and another opener, which did not know of this table, has retired the
        sidecar.
        """
        s.require(~s.plan[w].sidecar)
        s.require(s.is_current(w, table))
        s.require(s.head(table, w, undo=True) > s.pin[table])
        s.require(s.place(table, NEW_WRITER, s.epoch) == "rival")
        s.require(s.place(table, w, s.epoch, undo=True) == "own")
        s.pin_heads(w, [t == table for t in TABLES], undo=True)
        s.ghost[w].dropped = True

    # Properties: never bad.

    @invariant(w=writers, t=TABLES)
    def atomic_visibility(s, w: int, t: str) -> Truth:
        """The manifest that publishes a plan shows all of it."""
        return implies((s.plan[w].manifest == s.last) & s.touches(w, t), s.shows(w, t))

    @invariant(w=writers)
    def no_lost_write(s, w: int) -> Truth:
        """An acknowledged plan is in the chain, and the pins of the newest manifest go on from it."""
        moved = all_of(implies(s.touches(w, t), s.pin[t] > s.plan[w].base[t]) for t in TABLES)
        return implies(s.writer[w].outcome == "published", (s.plan[w].manifest > 0) & moved)

    @invariant(w=writers)
    def no_phantom(s, w: int) -> Truth:
        """A plan that was refused to its caller is invisible for ever."""
        return implies(s.writer[w].outcome == "refused", s.plan[w].manifest == 0)

    @step(w=writers)
    def fenced(before, after: "PublishObserved", w: int) -> Truth:
        """Once a later epoch is visible, no writer of an earlier one commits."""
        commits = (after.writer[w].at != before.writer[w].at) & (
            after.plan[w].manifest != before.plan[w].manifest
        )
        return implies(commits, before.plan[w].began == before.epoch)

    @invariant(t=TABLES, number=numbers)
    def no_head_ahead(s, t: str, number: int) -> Truth:
        """A head ahead of its pin is dead, or its writer is at work, or its sidecar exists."""
        v = s.version[t][number]
        is_ahead = (s.pin[t] <= number) & ~v.undo & ~s.is_dead(v, s.gone_plans(t, s.pin[t]), s.epoch)
        return ~any_of(
            is_ahead & (v.plan == w) & ~s.plan[w].sidecar & ~s.is_at_work(w) for w in range(s.writers)
        )

    @invariant(w=writers)
    def live_writer(s, w: int) -> Truth:
        """Recovery never drops a plan that its writer reports as published."""
        return implies(s.ghost[w].dropped, s.writer[w].outcome != "published")

    @step(w=writers)
    def left_alone(before, after: "PublishObserved", w: int) -> Truth:
        """Recovery reads no sidecar of the present epoch whose writer is at work."""
        is_protected = before.is_at_work(w) & (before.plan[w].began == before.epoch)
        is_read = any_of(
            now & ~was for was, now in zip(before.recovery[w].read, after.recovery[w].read, strict=True)
        )
        return ~(is_protected & is_read)

    @invariant(t=TABLES)
    def cleanup_safe(s, t: str) -> Truth:
        """Every version that a retained manifest pins exists."""
        retained = [
            ((s.boundary < id_) & (s.last >= id_), pins[t]) for id_, pins in enumerate(s.pins_at, start=1)
        ]
        return all_of(
            implies(any_of(is_retained & (pin == n) for is_retained, pin in retained), v.is_there)
            for n, v in s.versions(t)
        )

    @invariant(w=writers, undo=(False, True), t=TABLES)
    def same_plan(s, w: int, undo: bool, t: str) -> Truth:
        """However many execute a plan, and however often, it has one head a table above the pin."""
        return count_of((s.pin[t] < n) & v.holds(plan=w, undo=undo) for n, v in s.versions(t)) <= 1

    @always_recoverable
    def no_wedge(s) -> Truth:
        """However writers crash, no head is in the way of a new one in some later state without work."""
        places = [s.place(t, NEW_WRITER, s.epoch) for t in TABLES]
        is_free = ~any_of(place.is_in("rival", "later") for place in places)
        return is_free & ~any_of(s.is_at_work(w) for w in range(s.writers))

    # Properties: sometimes good.

    @reachable
    def all_published(s) -> Truth:
        """All plans can be reported as published."""
        return s.writer.all(outcome="published")

    @reachable(w=writers)
    def rolled_forward(s, w: int) -> Truth:
        """Recovery can publish the plan of a writer that crashed."""
        return (
            (s.plan[w].manifest > 0)
            & (s.writer[w].at == "manifest-under-way")
            & (s.writer[w].outcome == "nothing")
        )

    @reachable(w=writers)
    def rolled_back(s, w: int) -> Truth:
        """Recovery can undo the plan of a writer that crashed."""
        is_crashed = s.writer[w].at == "heads-under-way"
        return is_crashed & s.ghost[w].dropped & ~s.plan[w].sidecar

    @reachable(w=writers, t=TABLES)
    def late_head_stepped_over(s, w: int, t: str) -> Truth:
        """A head of a fenced writer can stay below the one that is pinned."""
        below = any_of(v.holds(plan=w, undo=False) & (s.pin[t] > n) for n, v in s.versions(t))
        return below & (s.plan[w].began < s.epoch) & (s.plan[w].manifest == 0)

    @reachable(w=writers)
    def false_success(s, w: int) -> Truth:
        """A create can succeed on an id that was deleted, and then no manifest shows the plan."""
        return (s.writer[w].at == "created") & (s.plan[w].manifest == 0)

    @may_end
    def done(s) -> Truth:
        return ~any_of(s.is_at_work(w) for w in range(s.writers)) & ~s.plan.any(sidecar=True)

    # Actions and fields that need two plans.

    fires_at: ClassVar = {
        "retry": TWO_PLANS,
        "learn_refusal": TWO_PLANS,
        "undo_own_head": TWO_PLANS,
        "undo_own_commit": TWO_PLANS,
        "undo_own_ends": TWO_PLANS,
        "recovery_leaves_to_rival": TWO_PLANS,
    }
    changes_at: ClassVar = {"plan.base": TWO_PLANS}
