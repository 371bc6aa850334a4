"""Publish: a write to several tables becomes visible all at once, through a chain of manifests.

The protocol of docs/decisions/0010-publish-protocol.md for one branch and two tables. "The steps of the
model" there argues for each action that one step loses nothing. A table is a sequence of versions, each
created once, and a manifest pins one version of every table. A plan creates the next version of each table
that it touches, its *heads*, and then the next manifest, which pins them. Its *sidecar* holds the plan until
it is over, so that others can complete or undo it.

An edge points at a node, so a write to one table may depend on the other:

    kind    adds or removes       touches          reads
    add     a node                nodes
    drop    the node              nodes            edges
    link    an edge               edges            nodes
    both    a node and its edge   nodes, edges

Manifest 1 is the empty catalog. A manifest is a function of its parent and of one plan, so the state keeps
the newest manifest only, and for each plan the id that published it. Version n of table t is
`version[t][n - 1]`.

A writer, by `writer[w].at`:

    new
     | begin
     v   stage           last head            create answered        above the boundary
  staging -----> heads ------------> commit ------------------> created -----------+
                   |                 ^ |  ^ \\                     |                 |
                   |    may commit   | |  |  \\ no answer          | id was deleted  |
                   |    on newest    +-+  |   +-> unsure -+       |                 |
                   |                      +---------------+-------+                 |
                   | refused           | refused                                    |
                   |  a head moved     v                                            v
                   +---------------> undo ---------------------------> owes-retiring ---> over
                   |  none did                                             ^
                   +-------------------------------------------------------+

Beside the heads, a writer reads the boundary. If that is below the id that the writer is going to create, the
writer is `guarded`: cleanup meets its sidecar before it can delete that id. A guarded writer goes from
`commit` to `owes-retiring` as soon as its create is answered. Any other looks at the boundary again, at
`created`.

A crash at `heads` leads to `heads-under-way`, one at `commit` or `unsure` to `manifest-under-way`, any other
to `over`. A crashed writer has sent the requests of its step and keeps no state. Each of them lands at any
later step, or never.

An opener, by `opener[o].work`:

          read_sidecar           nothing to restore
    idle -------------> has-read -------------------------> retires ---> idle
                          |   ^                               ^
            a head is in  |   | a pin has moved, or           | undo_commit
            the way       v   | rivals have every number      |
                         undoes ------------------------------+

An opener may stop after any step: `give_up` is its crash, its being fenced, or its being overtaken again and
again.
"""

from typing import ClassVar

from fencepost.model import *
from fencepost.model.publish_observed import PublishObserved
from fencepost.model.store import Budget, Key, KeyView, restart

TABLES = ("nodes", "edges")
KINDS = ("link", "drop", "add", "both")
AT_WORK = ("heads", "commit", "unsure", "created", "undo")
UNDER_WAY = ("heads-under-way", "manifest-under-way")
OPENER = ("work", "whose", "epoch", "restores")
RECOVERY = ("read", "seen_moved", "seen_still", "undoing", "owed")
"""Fields of the observed machine on what some opener may have read and decided."""
NEW_WRITER = -1
Tables = list[Truth | bool]
"""A condition for each table."""


class Publish(Machine):
    """Writes to several tables that become visible all at once, over manifests, heads and sidecars."""

    # Constants.

    writers = Size(2, most=8, doc="plans in one run, each with its own writer")
    claims = Size(1, least=0, most=6, doc="epochs claimed in one run: keeps the space finite")
    troubles = Size(1, least=0, most=6, doc="crashes of writers, lost replies and cleanups in one run")
    openers = Size(1, most=4, doc="processes that can undo a plan at the same time")
    ids = 1 + claims + 3 * writers
    numbers = 2 * writers
    reach = 2  # ids that cleanup keeps for one plan; the code keeps more

    safeguards: ClassVar = {
        "create-only-manifest": "a manifest id is written once: the create decides between rivals",
        "sidecar-before-heads": "the sidecar holds the plan before the first head moves",
        "whole-plan-in-sidecar": "the sidecar holds the plan of every table",
        "epoch-check": "an executor looks for later epochs on every new parent and in heads that it meets",
        "grace-window": "recovery leaves the sidecar of an unfenced writer alone while it may be alive",
        "shared-head": "a writer that loses the manifest to any plan evaluates all its expectations again",
        "pins-re-evaluated-on-retry": "tables that were only read must still be as they were read",
        "inbound-check-on-removal": "a node is not removed while an edge points at it",
        "boundary-check-after-sidecar": "a create needs no further check if cleanup met the sidecar first",
        "manifests-held-for-plans": "cleanup deletes none of the first manifests after a staged plan's base",
        "retired-plans-recorded": "recovery leaves a record of the ids that the writer may still create",
        "boundary-check-after-create": "any other create is a success only if its id is above the boundary",
        "read-back-on-unknown": "a writer whose manifest create has an unknown outcome reads the manifest",
        "late-head": "a head whose plan can never commit is stepped over",
    }
    assumptions: ClassVar = {
        "linearizable-create": "the store never creates over a manifest, not even of two requests at once",
        "bounded-skew": "the grace window is over only when the writer is no longer at work",
        "bounded-landing": "the requests of a crashed writer land before recovery retires its sidecar",
    }

    # State: the chain of manifests and the tables.

    last = Int(1, ids, start=1)  # the newest id
    epoch = Int(0, claims)  # of the newest manifest
    boundary = Int(0, ids)  # ids up to it may be deleted
    deleted = Int(0, ids)  # cleanup has looked for ids to delete up to it
    free = Each(ids, Bool())  # cleanup found that it may delete manifest id, at id - 1: it may be gone by now
    trouble = Budget(troubles)
    pin = Each(TABLES, Int(0, numbers))  # of the newest manifest
    # The plan that created the version, for itself or to undo itself, and the epoch that the object names.
    version = Each(TABLES, Each(numbers, Key(plan=Id(writers), undo=Bool(), epoch=Int(0, claims))))
    kept = Each(TABLES, Int(0, numbers))  # the oldest pins of a retained manifest

    # State: the plans, their writers, and the openers.

    plan = Role(
        writers,
        base=Each(TABLES, Int(0, numbers)),  # the pins that the plan is made on
        kind=Enum(*KINDS),
        began=Int(0, claims),  # the epoch in which the plan was made
        made_on=Int(0, ids),  # the manifest with these pins
        sidecar=Bool(),
        recorded=Int(0, ids),  # the ids after `made_on` and up to it are held by a record; 0 for none
        manifest=Int(0, ids),  # the id that published the plan; 0 for none
    )
    writer = Role(
        writers,
        at=Enum("new", "staging", *AT_WORK, "owes-retiring", "over", *UNDER_WAY),
        guarded=Bool(),  # it read a boundary below its next id, after the sidecar was written
        parent=Int(0, ids),  # the manifest behind which the writer creates its own
        outcome=Enum("nothing", "published", "refused", "unknown"),  # as reported to the caller
    )
    opener = Role(
        openers,
        work=Enum("idle", "has-read", "undoes", "retires"),
        whose=Id(writers, nobody=True),  # the plan whose sidecar the opener has read
        epoch=Int(0, claims),  # the epoch in which the opener acts
        restores=Each(TABLES, Bool()),
    )
    # For properties only: recovery has undone the plan, or promised that it never commits.
    ghost = Role(writers, dropped=Bool())

    # Definitions: heads.

    def versions(s, t: str) -> enumerate[KeyView]:
        """Number the versions of a table from 1."""
        return enumerate(s.version[t], start=1)

    def head(s, t: str, w: int, *, undo: bool = False) -> Number:
        """Return the highest number of a head of plan w, or of its undo; 0 for none."""
        return most(pick(v.holds(plan=w, undo=undo), n, 0) for n, v in s.versions(t))

    def is_fenced(s, epoch: Number, newest: Number) -> Truth:
        """An executor of this epoch meets a later one."""
        return newest > epoch

    @without("epoch-check", replaces=is_fenced)
    def is_never_fenced(s, epoch: Number, newest: Number) -> bool:
        return False

    def is_later(s, v: KeyView, epoch: Number) -> Truth:
        """Version v is of a later epoch than its reader."""
        return s.is_fenced(epoch, v.epoch)

    @without("late-head", replaces=is_later)
    def is_never_later(s, v: KeyView, epoch: Number) -> bool:
        return False

    def is_dead(s, t: str, v: KeyView, base: Number, epoch: Number, undone: int = NEW_WRITER) -> Truth:
        """Version v can never be pinned: its plan is fenced, is being undone, or has a base that is gone."""
        gone = any_of((v.plan == w) & ((s.plan[w].base[t] < base) | (w == undone)) for w in range(s.writers))
        return gone | s.is_fenced(v.epoch, epoch)

    @without("late-head", replaces=is_dead)
    def is_never_dead(s, t: str, v: KeyView, base: Number, epoch: Number, undone: int = NEW_WRITER) -> bool:
        return False

    def place(s, t: str, w: int, epoch: Number, *, undo: bool = False) -> Choice:
        """Return what an executor of this epoch meets where it would create the head of plan w.

        The lowest version above the base of the plan that is not dead decides. Without one there is no place.
        """
        base = s.pin[t] if w == NEW_WRITER else s.plan[w].base[t]
        undone = w if undo else NEW_WRITER
        met: Choice | str = "full"
        for n, v in reversed([*s.versions(t)]):
            met = case(
                (n <= base, met),
                (~v.is_there, "free"),
                ((v.plan == w) & (v.undo == undo), "own"),
                (s.is_later(v, epoch), "later"),
                (s.is_dead(t, v, base, epoch, undone), met),
                otherwise="rival",
            )
        assert isinstance(met, Choice)
        return met

    def create_head(s, t: str, w: int, epoch: Number, *, undo: bool = False) -> None:
        """Create the first version above the base of plan w that does not exist."""
        first = least(pick((s.plan[w].base[t] < n) & ~v.is_there, n, 2 * s.writers) for n, v in s.versions(t))
        s.version[t][first - 1].create("done", plan=w, undo=undo, epoch=epoch)

    # Definitions: plans and their expectations.

    def touches(s, w: int, t: str) -> Truth:
        """Plan w makes a new version of the table."""
        return s.plan[w].kind != "link" if t == "nodes" else s.plan[w].kind.is_in("link", "both")

    def reads(s, w: int, t: str) -> Truth:
        """Plan w depends on the table without touching it."""
        return s.plan[w].kind == ("link" if t == "nodes" else "drop")

    def is_current(s, w: int, t: str) -> Truth:
        """The newest manifest pins the version that the plan is made on."""
        return s.pin[t] == s.plan[w].base[t]

    def touched_hold(s, w: int) -> Truth:
        """All tables that plan w touches are pinned as in its base."""
        return all_of(implies(s.touches(w, t), s.is_current(w, t)) for t in TABLES)

    def reads_hold(s, w: int) -> Truth:
        """All tables that plan w has read are pinned as in its base."""
        return all_of(implies(s.reads(w, t), s.is_current(w, t)) for t in TABLES)

    @without("pins-re-evaluated-on-retry", replaces=reads_hold)
    def reads_are_ignored(s, w: int) -> bool:
        return True

    def is_at_work(s, w: int) -> Truth:
        """The writer has neither crashed nor reported to its caller."""
        return s.writer[w].at.is_in(*AT_WORK)

    def shows(s, w: int, t: str) -> Truth:
        """The newest manifest pins the plan's head of the table."""
        return (s.pin[t] == s.head(t, w)) & (s.pin[t] > s.plan[w].base[t])

    def is_pinned(s, w: int) -> Truth:
        return any_of(s.touches(w, t) & s.shows(w, t) for t in TABLES)

    def is_visible(s, kind: str) -> Truth:
        """A plan of this kind is published."""
        return any_of((s.plan[w].manifest > 0) & (s.plan[w].kind == kind) for w in range(s.writers))

    def must_undo(s, w: int, t: str) -> Truth:
        """A head of the plan is ahead of its pin, where it could be in the way of others.

        It occupies the number, so no rival's head does.
        """
        return s.touches(w, t) & s.is_current(w, t) & (s.head(t, w) > 0)

    def is_undone(s, w: int, t: str) -> Truth:
        """The head that undoes the plan in this table exists."""
        return s.head(t, w, undo=True) > s.plan[w].base[t]

    # Definitions: a writer's decisions.

    def may_be_free(s, w: int) -> Truth:
        """The id behind the writer's parent is the next one, or cleanup may have deleted it."""
        is_deleted = any_of((s.writer[w].parent == at) & free for at, free in enumerate(s.free))
        return (s.writer[w].parent == s.last) | is_deleted

    def may_commit(s, w: int) -> Truth:
        """The newest manifest, as a new parent, meets the plan's expectations."""
        return s.touched_hold(w) & s.reads_hold(w) & ~s.is_fenced(s.plan[w].began, s.epoch)

    @without("shared-head", replaces=may_commit)
    def may_commit_beside_others(s, w: int) -> Truth:
        """The winners have touched none of the plan's tables."""
        return s.touched_hold(w)

    def is_below_next(s, w: int) -> Truth:
        """The boundary is below the id that the writer is going to create.

        Otherwise the cleanup that moved it may have listed the sidecars before this one was written.
        """
        return s.boundary <= s.writer[w].parent

    @without("boundary-check-after-sidecar", replaces=is_below_next)
    def is_below_anything(s, w: int) -> bool:
        return True

    def is_above_boundary(s, w: int) -> Truth:
        """The id that the writer has created is above the boundary."""
        id_ = pick(s.plan[w].manifest > 0, s.plan[w].manifest, s.writer[w].parent + 1)
        return id_ > s.boundary

    @without("boundary-check-after-create", replaces=is_above_boundary)
    def is_anywhere(s, w: int) -> bool:
        return True

    # Definitions: cleanup.

    def reaches(s, w: int, id_: int) -> Truth:
        """The manifest is one of the first after the base of the plan."""
        base: Number = s.plan[w].made_on
        return (base < id_) & (base + s.reach >= id_)

    def holds_manifests(s, w: int, id_: int) -> Truth:
        """The sidecar of the plan holds this manifest: the writer may still create the id."""
        staged: Truth = s.plan[w].sidecar
        return staged & s.reaches(w, id_)

    @without("manifests-held-for-plans", replaces=holds_manifests)
    def holds_nothing(s, w: int, id_: int) -> bool:
        return False

    def is_recorded(s, w: int, id_: int) -> Truth:
        return s.reaches(w, id_) & (s.plan[w].recorded >= id_)

    # Definitions: recovery, which knows a plan by its sidecar.

    def sidecar_touches(s, w: int, t: str) -> Truth:
        """The sidecar of plan w has a head for the table."""
        return s.touches(w, t)

    @without("whole-plan-in-sidecar", replaces=sidecar_touches)
    def sidecar_touches_one(s, w: int, t: str) -> Truth:
        """The sidecar holds one table of the plan, for `both` the nodes."""
        return (s.plan[w].kind == "link") ^ (t == "nodes")

    def is_settled(s, w: int) -> Truth:
        """Every pin that the plan would replace has moved on: published, undone or superseded."""
        return ~any_of(s.sidecar_touches(w, t) & s.is_current(w, t) for t in TABLES)

    def is_young(s, w: int) -> Truth:
        """The sidecar is younger than the window. If clocks agree, it is as long as its writer is at work."""
        return s.is_at_work(w)

    @without("bounded-skew", replaces=is_young)
    def seems_old(s, w: int) -> bool:
        return False

    def is_left_alone(s, w: int) -> Truth:
        """The plan is not fenced, and its writer may be alive."""
        return (s.plan[w].began >= s.epoch) & (s.is_young(w) | (s.writer[w].at == "owes-retiring"))

    @without("grace-window", replaces=is_left_alone)
    def is_never_left_alone(s, w: int) -> bool:
        return False

    def may_appear(s, w: int, epoch: Number) -> Truth:
        """A writer of the present epoch may still create its heads after the window."""
        return s.plan[w].began == epoch

    @without("grace-window", replaces=may_appear)
    def never_appears(s, w: int, epoch: Number) -> bool:
        return False

    def may_roll_forward(s, w: int, epoch: Number) -> Truth:
        """All heads are the plan's, and an executor of this epoch may commit it on the newest manifest."""
        own = all_of(implies(s.sidecar_touches(w, t), s.place(t, w, epoch) == "own") for t in TABLES)
        touched = all_of(implies(s.sidecar_touches(w, t), s.is_current(w, t)) for t in TABLES)
        return own & touched & s.reads_hold(w) & ~s.is_fenced(epoch, s.epoch)

    def must_restore(s, w: int, epoch: Number, t: str) -> Truth:
        """A head of the plan is in the way of others, is being undone, or can still appear."""
        place = s.place(t, w, epoch)
        is_in_the_way = (place == "own") | ((place == "free") & s.may_appear(w, epoch))
        return s.sidecar_touches(w, t) & s.is_current(w, t) & (is_in_the_way | s.is_undone(w, t))

    # Actions: the chain and its cleanup.

    @action
    def claim(s) -> None:
        """Open the catalog for writing: one manifest, which fences all earlier writers."""
        s.require(s.epoch < s.claims)
        s.epoch += 1
        s.last += 1

    @action
    def delete_manifests(s) -> None:
        """Cleanup, second step: of the ids up to the boundary, all that no sidecar and no record holds.

        The sidecars and the records are listed after the boundary was moved. From here on each of the ids is
        deleted at any time, or never.
        """
        new: list[Truth] = []
        for at, was_free in enumerate(s.free):
            id_ = at + 1
            is_held = any_of(s.holds_manifests(w, id_) | s.is_recorded(w, id_) for w in range(s.writers))
            new.append((s.boundary >= id_) & ~is_held & ~was_free)
        s.require(any_of(new))
        for at, is_new in enumerate(new):
            s.free[at] |= is_new
        s.deleted = s.boundary

    @action
    def move_boundary(s) -> None:
        """Cleanup, first step: all manifests but the newest may go, and with them what only they pinned."""
        s.require(s.boundary < s.last - 1)
        s.trouble.spend()
        s.boundary = s.last - 1
        s.kept = s.pin

    @action(table=TABLES, number=numbers)
    def delete_version(s, table: str, number: int) -> None:
        """Cleanup, third step: version `number + 1`, older than any that a retained manifest pins."""
        s.require(s.version[table][number].is_there, s.kept[table] > number + 1)
        s.version[table][number].delete()

    # Actions: a writer stages its plan and moves heads.

    @action(w=writers, kind=KINDS)
    def begin(s, w: int, kind: str) -> None:
        """Capture the newest manifest, and check the write against it."""
        s.require(s.writer[w].at == "new")
        s.require(w == 0 or s.writer[w - 1].at != "new")  # plans are numbered as they begin
        s.require(kind not in ("link", "drop") or ~s.is_visible("drop"))  # the node exists
        s.require(kind != "drop" or s.may_remove())
        s.writer[w].at = "staging"
        s.plan[w].kind = kind
        s.plan[w].began = s.epoch
        s.plan[w].made_on = s.last
        s.writer[w].parent = s.last
        s.plan[w].base = s.pin

    def may_remove(s) -> Truth:
        """No edge points at the node."""
        return ~s.is_visible("link")

    @without("inbound-check-on-removal", replaces=may_remove)
    def may_always_remove(s) -> bool:
        return True

    @action(w=among(writer, at="staging"))
    def stage(s, w: int) -> None:
        """The sidecar is written. Others may have published, and cleaned up, since the capture.

        The boundary is read beside the heads. The earlier, the less it proves: this step reads it at once.
        """
        s.writer[w].at = "heads"
        s.writer[w].guarded = s.is_below_next(w)
        s.write_sidecar(w)

    def write_sidecar(s, w: int) -> None:
        s.plan[w].sidecar = True

    @without("sidecar-before-heads", replaces=write_sidecar)
    def write_no_sidecar(s, w: int) -> None:
        s.plan[w].sidecar = False

    @action(w=among(writer, at=("heads", "commit"), guarded=True))
    def read_boundary_later(s, w: int) -> None:
        """The boundary is read only now, and it has moved."""
        s.require(~s.is_below_next(w))
        s.writer[w].guarded = False

    @without("boundary-check-after-sidecar", replaces=read_boundary_later)
    def never_read_boundary(s, w: int) -> None:
        s.require(False)

    @action(w=among(writer, at="heads"))
    def probe_finds_winner(s, w: int) -> None:
        """Another plan was published before a head moved, and an expectation fails: nothing to undo."""
        s.require(s.writer[w].parent < s.last, ~s.may_commit(w), *(s.head(t, w) == 0 for t in TABLES))
        s.report(w, "owes-retiring", "refused")

    @action(w=writers)
    def stage_again(s, w: int) -> None:
        """After an unknown outcome, the writer creates anew a sidecar that recovery has retired meanwhile."""
        s.require(s.writer[w].at == "heads", ~s.plan[w].sidecar)
        s.require(*(s.head(t, w) == 0 for t in TABLES))
        s.trouble.spend()
        s.plan[w].sidecar = True
        s.writer[w].guarded = s.is_below_next(w)

    @without("sidecar-before-heads", replaces=stage_again)
    def never_stage_again(s, w: int) -> None:
        s.require(False)

    @action(w=among(writer, at="heads"), table=TABLES)
    def move_head(s, w: int, table: str) -> None:
        """Create the head of one table. With the last one the writer goes on to the manifest."""
        s.require(s.touches(w, table), s.place(table, w, s.plan[w].began) == "free")
        s.create_head(table, w, s.plan[w].began)
        is_complete = all_of(implies(s.touches(w, t), s.head(t, w) > 0) for t in TABLES)
        s.writer[w].at = pick(is_complete, "commit", "heads")

    @without("sidecar-before-heads", replaces=move_head)
    def move_head_before_sidecar(s, w: int, table: str) -> None:
        """Write the sidecar after the last head."""
        Publish.move_head(s, w, table)
        s.plan[w].sidecar = s.writer[w].at == "commit"

    @action(w=among(writer, at="heads"))
    def heads_blocked(s, w: int) -> None:
        """The head of a rival or of a later epoch is in the way; the other head is answered too."""
        met = [pick(s.touches(w, t), s.place(t, w, s.plan[w].began), "full") for t in TABLES]
        s.require(*(place != "free" for place in met))
        s.require(any_of(place.is_in("later", "rival") for place in met))
        if not any_of(place == "own" for place in met):
            s.report(w, "owes-retiring", "refused")
        elif any_of(place == "later" for place in met):
            s.report(w, "over", "refused")
        else:
            s.writer[w].at = "undo"

    # Actions: a writer commits.

    @action(w=among(writer, at="commit"), answer=("done", "exists", "reply_lost", "request_lost"))
    def create_manifest(s, w: int, answer: str) -> None:
        """Create the id behind the parent. The loser evaluates all expectations on the newest manifest."""
        s.trouble.spend(answer)
        if answer == "exists":
            s.require(s.writer[w].parent < s.last)
            s.lose(w)
        elif answer == "done":
            s.put_manifest(w)
            s.conclude(w)
        elif answer == "reply_lost":
            s.put_manifest(w)
            s.get_no_answer(w)
        else:
            s.get_no_answer(w)

    def report(s, w: int, at: str, outcome: str) -> None:
        """Tell the caller."""
        s.writer[w].at = at
        s.writer[w].outcome = outcome
        s.writer[w].guarded = False

    def conclude(s, w: int) -> None:
        """The create succeeded."""
        if s.writer[w].guarded & (s.writer[w].parent < s.plan[w].made_on + s.reach):
            s.report(w, "owes-retiring", "published")
        else:
            s.writer[w].at = "created"

    def get_no_answer(s, w: int) -> None:
        s.writer[w].at = "unsure"

    @without("read-back-on-unknown", replaces=get_no_answer)
    def take_no_answer_for_refusal(s, w: int) -> None:
        s.writer[w].at = "undo"

    def put_manifest(s, w: int) -> None:
        """The create takes effect: the id is the next one, or was deleted, and then no reader finds it."""
        s.require(s.may_be_free(w))
        s.publish(w, [s.touches(w, t) for t in TABLES], s.writer[w].parent == s.last)

    def lose(s, w: int) -> None:
        """Read the manifests since the parent. The plan itself may be among them."""
        is_whole = s.boundary <= s.writer[w].parent  # otherwise a part of the history is out of sight
        if is_whole and s.plan[w].manifest > 0:
            s.conclude(w)
        elif s.is_pinned(w):
            s.report(w, "owes-retiring", "published")
        elif s.may_commit(w):
            s.writer[w].parent = s.last
        elif is_whole and not s.is_fenced(s.plan[w].began, s.epoch):
            s.writer[w].at = "undo"
        else:
            s.report(w, "over", "unknown")

    def publish(s, w: int, tables: Tables, new: Truth | bool = True) -> None:
        """Where `new`: the next manifest pins the plan's heads in these tables."""
        s.pin_heads(w, tables, new)
        s.plan[w].manifest = pick(new, s.last, s.plan[w].manifest)

    def pin_heads(s, w: int, tables: Tables, new: Truth | bool = True, *, undo: bool = False) -> None:
        """Where `new`: the next manifest pins the heads of the plan, or of its undo, in these tables."""
        for t, is_shown in zip(TABLES, tables, strict=True):
            s.pin[t] = pick(new & is_shown, s.head(t, w, undo=undo), s.pin[t])
        s.last = pick(new, s.last + 1, s.last)

    @without("create-only-manifest", "linearizable-create", replaces=put_manifest)
    def overwrite_manifest(s, w: int) -> None:
        """A manifest that took the id is lost, and the newest one was perhaps built on another parent."""
        me = s.writer[w]
        is_taken = (me.parent < s.last) & ~any_of((me.parent == at) & free for at, free in enumerate(s.free))
        is_newest = is_taken & (me.parent == s.last - 1)
        for other in range(s.writers):
            is_lost = is_taken & (s.plan[other].manifest == me.parent + 1)
            s.plan[other].manifest = pick(is_lost, 0, s.plan[other].manifest)
        s.plan[w].manifest = pick(is_taken, me.parent + 1, s.plan[w].manifest)
        for t in TABLES:
            s.pin[t] = pick(is_newest, s.plan[w].base[t], s.pin[t])
        s.last = pick(is_newest, me.parent, s.last)
        s.epoch = pick(is_newest, s.plan[w].began, s.epoch)
        s.publish(w, [s.touches(w, t) for t in TABLES], me.parent == s.last)

    @action(w=among(writer, at="unsure"))
    def look_again(s, w: int) -> None:
        """After an unknown outcome: read whose manifest it is, and create it again where there is none."""
        if (s.plan[w].manifest > 0) & (s.plan[w].manifest == s.writer[w].parent + 1):
            s.conclude(w)
        else:
            s.writer[w].at = "commit"

    @action(w=among(writer, at="created"))
    def check_boundary(s, w: int) -> None:
        """Without a guard: an id up to the boundary may have been deleted before it was created."""
        if s.is_above_boundary(w) or s.is_pinned(w):
            s.report(w, "owes-retiring", "published")
        elif s.may_commit(w):
            s.writer[w].at = "commit"
            s.writer[w].parent = s.last
        else:
            s.report(w, "over", "unknown")

    # Actions: a writer undoes its plan after a refusal, retires its sidecar, or crashes.

    @action(w=among(writer, at="undo"), table=TABLES)
    def undo_own_head(s, w: int, table: str) -> None:
        """Create the content of the pinned version anew, above the head that is in the way."""
        s.require(s.must_undo(w, table) & (s.place(table, w, s.plan[w].began, undo=True) == "free"))
        s.create_head(table, w, s.plan[w].began, undo=True)

    @action(w=among(writer, at="undo"))
    def undo_own_commit(s, w: int) -> None:
        """Publish the heads of the undo: from here on the plan can never commit."""
        needed: Tables = [s.must_undo(w, t) for t in TABLES]
        s.require(~s.is_fenced(s.plan[w].began, s.epoch), any_of(needed))
        s.require(*(implies(s.must_undo(w, t), s.is_undone(w, t)) for t in TABLES))
        s.pin_heads(w, needed, undo=True)
        s.report(w, "owes-retiring", "refused")

    @action(w=among(writer, at="undo"))
    def undo_own_ends(s, w: int) -> None:
        """Nothing is left to undo, or another process will undo it: either way the plan is dead."""
        if not any_of(s.must_undo(w, t) for t in TABLES):
            s.report(w, "owes-retiring", "refused")
        else:
            is_blocked = any_of(s.is_undo_blocked(w, t) for t in TABLES)
            s.require(is_blocked | s.is_fenced(s.plan[w].began, s.epoch))
            s.report(w, "over", "refused")

    def is_undo_blocked(s, w: int, t: str) -> Truth:
        """The head that would undo the plan in this table cannot be created."""
        place = s.place(t, w, s.plan[w].began, undo=True)
        return s.must_undo(w, t) & place.is_in("later", "rival")

    @action(w=among(writer, at="owes-retiring"))
    def retire(s, w: int) -> None:
        """Delete the sidecar of a plan that is over."""
        s.writer[w].at = "over"
        s.plan[w].sidecar = False

    @action(w=among(writer, at=AT_WORK))
    def crash(s, w: int) -> None:
        """The requests of the step that the writer was at are under way."""
        s.trouble.spend()
        s.writer[w].guarded = False
        if s.writer[w].at == "heads":
            s.writer[w].at = "heads-under-way"
        elif s.writer[w].at.is_in("commit", "unsure"):
            s.writer[w].at = "manifest-under-way"
        else:
            s.writer[w].at = "over"

    def may_land(s, w: int) -> Truth:
        """The requests of a crashed writer land while its sidecar exists."""
        return s.plan[w].sidecar

    @without("bounded-landing", replaces=may_land)
    def may_always_land(s, w: int) -> bool:
        return True

    @action(w=among(writer, at="heads-under-way"), table=TABLES)
    def head_lands(s, w: int, table: str) -> None:
        """A head of a crashed writer lands."""
        s.require(s.may_land(w))
        s.require(s.touches(w, table), s.place(table, w, s.plan[w].began) == "free")
        s.create_head(table, w, s.plan[w].began)

    @action(w=among(writer, at="manifest-under-way"))
    def manifest_lands(s, w: int) -> None:
        """The manifest of a crashed writer lands. On a deleted id no reader would find it."""
        s.require(s.writer[w].parent == s.last)
        s.require(s.may_land(w))
        s.put_manifest(w)
        s.writer[w].at = "over"

    # Actions: an opener, or a writer that met a rival's head, settles a plan whose sidecar it has read.

    @action(o=among(opener, work="idle"), w=among(plan, sidecar=True))
    def read_sidecar(s, o: int, w: int) -> None:
        """Take up a plan, with or without a claim before. One that may be alive is left alone."""
        s.require(~s.is_left_alone(w))
        s.opener[o].work = "has-read"
        s.opener[o].whose = w
        s.opener[o].epoch = s.epoch

    @action(o=among(opener, work="has-read", whose="w"), w=writers)
    def roll_forward(s, o: int, w: int) -> None:
        """Publish a plan whose heads all exist."""
        s.require(s.may_roll_forward(w, s.opener[o].epoch))
        s.publish(w, [s.sidecar_touches(w, t) for t in TABLES])
        s.opener[o].work = "retires"
        s.record(w)

    def record(s, w: int) -> None:
        """Record the ids that the writer may still create, if it is alive: none is newer than the newest.

        The plan is refused on every manifest from now on. So the record, like the plan's sidecar before,
        holds each of these ids, and the writer's create cannot succeed where a manifest was deleted.
        """
        s.plan[w].recorded = pick(s.plan[w].recorded > s.last, s.plan[w].recorded, s.last)

    @without("retired-plans-recorded", replaces=record)
    def record_nothing(s, w: int) -> None:
        s.plan[w].recorded = 0

    @action(o=among(opener, work="has-read", whose="w"), w=writers)
    def classify(s, o: int, w: int) -> None:
        """Restore the tables where a head is in the way. Where none is, retire the sidecar.

        A fenced plan may then still be rolled forward: its requests may land, and another opener may have
        read it. Any other plan is promised never to commit.
        """
        s.require(~s.is_settled(w) & ~s.may_roll_forward(w, s.opener[o].epoch))
        restores = tuple(s.must_restore(w, s.opener[o].epoch, t) for t in TABLES)
        s.opener[o].restores = restores
        s.opener[o].work = pick(any_of(restores), "undoes", "retires")
        s.ghost[w].dropped |= ~any_of(restores) & (s.plan[w].began == s.epoch)
        if not any_of(restores):
            s.record(w)

    @action(o=among(opener, work="undoes", whose="w"), w=writers, table=TABLES)
    def undo_head(s, o: int, w: int, table: str) -> None:
        """Create the content of the pinned version anew, where a late head of the plan could land."""
        s.require(s.opener[o].restores[table])
        s.require(s.place(table, w, s.opener[o].epoch, undo=True) == "free")
        s.create_head(table, w, s.opener[o].epoch, undo=True)

    @action(o=among(opener, work="undoes", whose="w"), w=writers, table=TABLES)
    def leave_to_rival(s, o: int, w: int, table: str) -> None:
        """A rival occupies the number: no late head of this plan can land there; the other is restored."""
        s.require(s.opener[o].restores.all(True))
        s.require(s.place(table, w, s.opener[o].epoch, undo=True) == "rival")
        s.opener[o].restores[table] = False

    @action(o=among(opener, work="undoes", whose="w"), w=writers)
    def undo_commit(s, o: int, w: int) -> None:
        """Publish the heads of the undo: from here on the plan can never commit."""
        restores = s.opener[o].restores
        s.require(~s.is_fenced(s.opener[o].epoch, s.epoch))
        s.require(*(implies(restores[t], s.is_current(w, t) & s.is_undone(w, t)) for t in TABLES))
        s.pin_heads(w, [*restores], undo=True)
        s.opener[o].work = "retires"
        s.opener[o].restores = (False, False)
        s.ghost[w].dropped = True
        s.record(w)

    @action(o=among(opener, work="undoes", whose="w"), w=writers)
    def undo_lost(s, o: int, w: int) -> None:
        """A pin has moved, or a rival occupies the only number: classify again."""
        me = s.opener[o]
        met = {t: s.place(t, w, me.epoch, undo=True) == "rival" for t in TABLES}
        moved = any_of(me.restores[t] & ~s.is_current(w, t) for t in TABLES)
        s.require(moved | all_of(implies(me.restores[t], met[t]) for t in TABLES))
        me.work = "has-read"
        me.restores = (False, False)

    @action(o=among(opener, work=("has-read", "retires"), whose="w"), w=writers)
    def retire_settled(s, o: int, w: int) -> None:
        """Delete the sidecar of a plan that is settled, or that is in no other writer's way."""
        s.require((s.opener[o].work == "retires") | s.is_settled(w))
        if s.opener[o].work == "has-read":
            s.record(w)
        s.plan[w].sidecar = False
        restart(s.opener[o], *OPENER)

    @action(w=writers, table=TABLES)
    def finish_undo(s, w: int, table: str) -> None:
        """A writer commits the head of an undo whose sidecar is gone: it shows what is pinned already.

        Its executor died, and another opener, which did not know of this table, has retired the sidecar.
        """
        s.require(~s.plan[w].sidecar & s.is_current(w, table))
        s.require(s.head(table, w, undo=True) > s.pin[table])
        s.require(s.place(table, NEW_WRITER, s.epoch) == "rival")
        s.require(s.place(table, w, s.epoch, undo=True) == "own")
        s.pin_heads(w, [t == table for t in TABLES], undo=True)
        s.ghost[w].dropped = True

    @action(o=among(opener, work=("has-read", "undoes", "retires")))
    def give_up(s, o: int) -> None:
        """The opener crashes, is fenced, or stops."""
        restart(s.opener[o], *OPENER)

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
    def fenced(before, after: "Publish", w: int) -> Truth:
        """Once a later epoch is visible, no writer of an earlier one commits."""
        acts = after.writer[w].at != before.writer[w].at
        commits = acts & (after.plan[w].manifest != before.plan[w].manifest)
        return implies(commits, before.plan[w].began == before.epoch)

    @invariant(t=TABLES, number=numbers)
    def no_head_ahead(s, t: str, number: int) -> Truth:
        """A head ahead of its pin can be stepped over, or its writer is at work, or its sidecar exists."""
        v = s.version[t][number]
        is_ahead = (s.pin[t] <= number) & ~v.undo & ~s.is_dead(t, v, s.pin[t], s.epoch)
        is_left = [~s.plan[w].sidecar & ~s.is_at_work(w) for w in range(s.writers)]
        return ~any_of(is_left[w] & is_ahead & (v.plan == w) for w in range(s.writers))

    @invariant(w=writers)
    def live_writer(s, w: int) -> Truth:
        """Recovery never drops a plan that its writer reports as published."""
        return implies(s.ghost[w].dropped, s.writer[w].outcome != "published")

    @step(o=openers, w=writers)
    def left_alone(before, after: "Publish", o: int, w: int) -> Truth:
        """Recovery takes up no plan of the present epoch whose writer is at work: the window is for this."""
        # Without the window, `live_writer` shows the cost.
        is_protected = before.is_at_work(w) & before.may_appear(w, before.epoch)
        return ~(is_protected & (before.opener[o].whose != w) & (after.opener[o].whose == w))

    @invariant
    def referential_integrity(s) -> Truth:
        """No visible edge points at a node that is gone."""
        return ~(s.is_visible("link") & s.is_visible("drop"))

    @invariant(t=TABLES)
    def cleanup_safe(s, t: str) -> Truth:
        """The versions that the newest manifest and the oldest retained one pin are there."""
        return all_of(implies((s.pin[t] == n) | (s.kept[t] == n), v.is_there) for n, v in s.versions(t))

    @invariant(w=writers, undo=(False, True), t=TABLES)
    def same_plan(s, w: int, undo: bool, t: str) -> Truth:
        """However many execute a plan, and however often, it has one head a table above the pin."""
        return count_of((s.pin[t] < n) & v.holds(plan=w, undo=undo) for n, v in s.versions(t)) <= 1

    @always_recoverable
    def no_wedge(s) -> Truth:
        """However writers crash, no head is in the way of a new one in some later state without work."""
        is_free = all_of(~s.place(t, NEW_WRITER, s.epoch).is_in("rival", "later") for t in TABLES)
        return is_free & ~s.writer.any(at=AT_WORK)

    # Properties: sometimes good.

    @reachable
    def all_published(s) -> Truth:
        """All plans can be reported as published."""
        return s.writer.all(outcome="published")

    @reachable(w=writers, q=writers)
    def retry_succeeds(s, w: int, q: int) -> Truth:
        """A writer that lost the race for a manifest can win the next one."""
        same_base = any_of(s.touches(q, t) & (s.plan[q].base[t] == s.plan[w].base[t]) for t in TABLES)
        lost = same_base & (s.plan[q].manifest > 0)
        won = (s.writer[w].outcome == "published") & (s.plan[w].manifest == s.writer[w].parent + 1)
        return lost & won & (s.plan[q].manifest < s.plan[w].manifest)

    @reachable
    def conflict(s) -> Truth:
        """A writer can be refused and take its heads back while another one publishes."""
        both = s.writer.any(outcome="refused") & s.writer.any(outcome="published")
        return both & (s.last > 2 + s.claims)

    @reachable(w=writers)
    def rolled_forward(s, w: int) -> Truth:
        """Recovery can publish the plan of a writer that crashed."""
        crashed = (s.writer[w].at == "manifest-under-way") & (s.writer[w].outcome == "nothing")
        return crashed & (s.plan[w].manifest > 0)

    @reachable(w=writers)
    def rolled_back(s, w: int) -> Truth:
        """Recovery can undo the plan of a writer that crashed."""
        is_crashed = s.writer[w].at == "heads-under-way"
        return is_crashed & s.ghost[w].dropped & ~s.plan[w].sidecar

    @reachable(w=writers)
    def unknown_outcome(s, w: int) -> Truth:
        """A fenced writer can report an unknown outcome of a plan that is published after all."""
        return (s.writer[w].outcome == "unknown") & (s.plan[w].manifest > 0)

    @reachable(w=writers, t=TABLES)
    def late_head_stepped_over(s, w: int, t: str) -> Truth:
        """A head of a fenced writer can remain below the one that is pinned."""
        below = any_of(v.holds(plan=w, undo=False) & (s.pin[t] > n) for n, v in s.versions(t))
        return below & (s.plan[w].began < s.epoch) & (s.plan[w].manifest == 0)

    @reachable(w=writers)
    def false_success(s, w: int) -> Truth:
        """A create can succeed on an id that was deleted, and then no manifest shows the plan."""
        return (s.writer[w].at == "created") & (s.plan[w].manifest == 0)

    @may_end
    def done(s) -> Truth:
        """No writer is at work. A sidecar needs only an opener, and there is always one."""
        return ~s.writer.any(at=AT_WORK) & ~s.plan.any(sidecar=True)

    # Refinement.

    def decides(after, before: "Publish", w: int) -> tuple[object, ...]:
        """Return the decision of a writer that has read the newest manifest, in observed labels."""
        at = after.writer[w].at
        return (
            does("learn_success", w=w, when=at == "owes-retiring"),
            does("retry", w=w, when=at == "commit"),
            does("learn_refusal", w=w, when=at == "undo"),
            does("crash", w=w, when=at == "over"),
        )

    def concludes(after, w: int) -> tuple[object, ...]:
        """Return the end of a guarded writer whose create has succeeded."""
        return (does("learn_success", w=w, when=after.writer[w].at == "owes-retiring"),)

    def undoes(s, o: int, w: int) -> tuple[object, ...]:
        """Return the undo of the tables that the opener restores."""
        nodes = s.opener[o].restores["nodes"]
        edges = s.opener[o].restores["edges"]
        of_tables = {"both": nodes & edges, "nodes": nodes & ~edges, "edges": edges & ~nodes}
        return tuple(
            does("recovery_commits_undo", w=w, epoch=s.opener[o].epoch, tables=tables, when=restored)
            for tables, restored in of_tables.items()
        )

    @refines(
        PublishObserved,
        {
            "claim": "claim",
            "move_boundary": lambda s: does("move_boundary", to=s.last - 1),
            "delete_manifests": lambda s: does("delete_manifests", when=s.deleted < s.boundary),
            "delete_version": "delete_version",
            "begin": (),
            "stage": lambda s, w: does("stage", w=w, kind=s.plan[w].kind, parent=s.writer[w].parent - 1),
            "read_boundary_later": (),
            "probe_finds_winner": "probe_finds_winner",
            "stage_again": "stage_again",
            "move_head": "move_head",
            "heads_blocked": "heads_blocked",
            "create_manifest": lambda before, after, w, answer: {
                "done": (does("create_manifest", w=w), *after.concludes(w)),
                "reply_lost": does("create_manifest", w=w),
                "request_lost": (),
                "exists": after.decides(before, w),
            }[answer],
            "look_again": lambda before, after, w: after.concludes(w),
            "check_boundary": lambda before, after, w: after.decides(before, w),
            "undo_own_head": "undo_own_head",
            "undo_own_commit": "undo_own_commit",
            "undo_own_ends": "undo_own_ends",
            "retire": "retire",
            "crash": "crash",
            "head_lands": "head_lands",
            "manifest_lands": "manifest_lands",
            "read_sidecar": "recovery_reads",
            "roll_forward": lambda s, o, w: does("recovery_rolls_forward", w=w, epoch=s.opener[o].epoch),
            "classify": lambda s, o, w: does("recovery_judges", w=w, epoch=s.opener[o].epoch),
            "undo_head": lambda s, o, w, table: does(
                "recovery_undoes_head", w=w, epoch=s.opener[o].epoch, table=table
            ),
            "leave_to_rival": lambda s, o, w, table: does(
                "recovery_leaves_to_rival", w=w, epoch=s.opener[o].epoch, table=table
            ),
            "undo_commit": lambda s, o, w: s.undoes(o, w),
            "retire_settled": lambda s, w: (
                does("recovery_settles", w=w, when=s.is_settled(w)),
                does("recovery_retires", w=w, when=s.plan[w].sidecar),
            ),
            "finish_undo": "finish_undo",
        },
        at={"troubles": 0},
        writers=writers,
        claims=claims,
    )
    def observed(s, observed: PublishObserved) -> dict[str, object]:
        """Every step shows in the store as a step of the observed machine, or not at all."""
        versions = [
            (ours.is_there == theirs.is_there)
            & (ours.plan == theirs.plan)
            & (ours.undo == theirs.undo)
            & (ours.epoch == theirs.epoch)
            for t in TABLES
            for ours, theirs in zip(s.version[t], observed.version[t], strict=True)
        ]
        outcomes = [
            (s.writer[w].outcome == outcome) == (observed.writer[w].outcome == outcome)
            for w in range(s.writers)
            for outcome in ("published", "refused")
        ]
        # A plan that is not staged yet is seen by its writer alone.
        plans = {
            name: all_of(
                implies(
                    s.writer[w].at != "staging", getattr(s.plan[w], name) == getattr(observed.plan[w], name)
                )
                for w in range(s.writers)
            )
            for name in ("kind", "began")
        }
        plans["base"] = all_of(
            implies(s.writer[w].at != "staging", s.plan[w].base[t] == observed.plan[w].base[t])
            for w in range(s.writers)
            for t in TABLES
        )
        return {
            "version": related(all_of(versions)),
            **{f"plan.{name}": related(agrees) for name, agrees in plans.items()},
            "writer.at": HISTORY,
            "writer.parent": HISTORY,
            "writer.outcome": related(all_of(outcomes)),  # an unknown outcome shows in no request
            "epoch_at": HISTORY,
            "pins_at": HISTORY,
            **{f"recovery.{name}": HISTORY for name in RECOVERY},
        }

    # Where the checker shows what.

    races = ("create-only-manifest", "shared-head", "linearizable-create")
    """Switches whose failure writers alone show."""
    cleanups = (
        "boundary-check-after-sidecar",
        "manifests-held-for-plans",
        "retired-plans-recorded",
        "boundary-check-after-create",
    )
    """Switches whose failure takes a cleanup that passes the next id of one writer."""
    shown_at: ClassVar = {
        "grace-window": {"troubles": 0},
        **{name: {"claims": 0, "troubles": 0} for name in races},
        **{name: {"writers": 1, "claims": 2} for name in cleanups},
    }
    fires_at: ClassVar = {"finish_undo": {"writers": 1, "openers": 2}}
