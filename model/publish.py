"""Publish: a write to several tables becomes visible all at once, through a chain of manifests.

The protocol of docs/decisions/0010-publish-protocol.md for one branch and two tables; "The steps of the
model" there says why what is one step here loses nothing. An edge points at a node, so a write to one table
reads the other: `link` adds an edge (touches edges, reads nodes), `drop` removes the node (touches nodes,
reads edges), `add` adds a node, `both` adds a node and its edge. A manifest is a function of its parent and
one plan, so the state of the chain is the content of its newest manifest and the id that published each plan;
id 1 is the empty catalog. Version n of table t is `version[t][n - 1]`, created once.

A crashed writer has sent the requests of its step and keeps no state, so `heads-under-way` and `manifest-
under-way` describe it: each request lands at any later step, or never. An opener may stop after any step:
`give_up` is its crash, its being fenced, or its being overtaken again and again.
"""

from fencepost.model import *
from fencepost.model.publish_observed import PublishObserved
from fencepost.model.store import Budget, Key, KeyView, restart

TABLES = ("nodes", "edges")
KINDS = ("link", "drop", "add", "both")
AT_WORK = ("heads", "commit", "unsure", "created", "undo")
UNDER_WAY = ("heads-under-way", "manifest-under-way")
OPENER = ("work", "whose", "epoch_of", "restores")
NOBODY = -1
Tables = list[Truth | bool]  # a condition for each table


class Publish(Machine):
    """Writes to several tables that become visible all at once, over manifests, heads and sidecars."""

    # Constants.
    writers = Size(2, most=8, doc="plans in one run, each with its own writer")
    claims = Size(1, least=0, most=6, doc="epochs claimed in one run: keeps the space finite")
    troubles = Size(1, least=0, most=6, doc="crashes of writers, lost replies and cleanups in one run")
    openers = Size(1, most=4, doc="processes that can undo a plan at the same time")
    ids, numbers = 1 + claims + 3 * writers, 2 * writers

    safeguards = {
        "create-only-manifest": "a manifest id is written once: the create decides between rivals",
        "sidecar-before-heads": "the sidecar holds the plan before the first head moves",
        "whole-plan-in-sidecar": "the sidecar holds the plan of every table",
        "epoch-check": "an executor looks for later epochs on every new parent and in heads that it meets",
        "grace-window": "recovery leaves the sidecar of an unfenced writer alone while it may be alive",
        "shared-head": "a writer that loses the manifest to any plan evaluates all its expectations again",
        "pins-re-evaluated-on-retry": "tables that were only read must still be as they were read",
        "inbound-check-on-removal": "a node is not removed while an edge points at it",
        "boundary-check-after-create": "a create is a success only if its id is above the boundary",
        "read-back-on-unknown": "a writer whose manifest create has an unknown outcome reads the manifest",
        "late-head": "a head whose plan can never commit is stepped over",
    }
    assumptions = {
        "linearizable-create": "the store never creates over a manifest, not even of two requests at once",
        "bounded-skew": "the grace window is over only when the writer is no longer at work",
        "bounded-landing": "the requests of a crashed writer land before recovery retires its sidecar",
    }
    races = ("create-only-manifest", "shared-head", "linearizable-create")  # writers alone show these
    shown_at = {"grace-window": {"troubles": 0}, **{name: {"claims": 0, "troubles": 0} for name in races}}
    fires_at = {"finish_undo": {"writers": 1, "openers": 2}}

    # State: the chain, the tables, the plans with their writers, the openers.
    last = Int(1, ids, start=1)  # the newest id
    epoch = Int(0, claims)  # of the newest manifest
    boundary, deleted = Int(0, ids), Int(0, ids)  # ids up to the boundary may be, up to `deleted` are deleted
    trouble = Budget(troubles)
    pin = Each(TABLES, Int(0, numbers))  # of the newest manifest
    # The plan that created the version, for itself or to undo itself, and the epoch that the object names.
    version = Each(TABLES, Each(numbers, Key(plan=Id(writers), undo=Bool(), epoch=Int(0, claims))))
    kept = Each(TABLES, Int(0, numbers))  # the oldest pins of a retained manifest
    base = Each(writers, Each(TABLES, Int(0, numbers)))  # the pins that a plan stands on
    kind = Each(writers, Enum(*KINDS))
    began = Each(writers, Int(0, claims))  # the epoch in which the plan was made
    sidecar = Each(writers, Bool())
    manifest = Each(writers, Int(0, ids))  # the id that published the plan; 0 for none
    at = Each(writers, Enum("new", *AT_WORK, "owes-retiring", "over", *UNDER_WAY))
    parent = Each(writers, Int(0, ids))
    outcome = Each(writers, Enum("nothing", "published", "refused", "unknown"))  # as reported to the caller
    work = Each(openers, Enum("idle", "has-read", "undoes", "retires"))
    whose = Each(openers, Id(writers, nobody=True))
    epoch_of = Each(openers, Int(0, claims))  # the epoch in which the opener acts
    restores = Each(openers, Each(TABLES, Bool()))
    dropped = Each(writers, Bool())  # ghost: recovery has undone the plan, or promised that it never commits

    # Definitions: heads.
    def versions(s, t: str) -> enumerate[KeyView]:
        return enumerate(s.version[t], start=1)

    def head(s, t: str, w: int, *, undo: bool = False) -> Number:
        """The highest number at which a head of plan w stands; 0 for none."""
        return most(pick(v.holds(plan=w, undo=undo), n, 0) for n, v in s.versions(t))

    def place(s, t: str, w: int, epoch: Number | int, *, undo: bool = False) -> Choice:
        """What an executor of plan w meets where it would create its head; a new writer is NOBODY."""
        base = s.pin[t] if w == NOBODY else s.base[w][t]
        found: Choice | str = "full"
        for n, v in reversed([*s.versions(t)]):
            below, dead = n <= base, s.is_dead(t, v, base, epoch, w if undo else NOBODY)
            own, later = (v.plan == w) & (v.undo == undo), s.is_later(v, epoch)
            cases = (below, found), (~v.is_there, "free"), (own, "own"), (later, "later"), (dead, found)
            found = case(*cases, otherwise="rival")
        assert isinstance(found, Choice)
        return found

    is_fenced = define(lambda s, epoch, newest: newest > epoch, without={"epoch-check": False})
    is_later = define(lambda s, v, epoch: s.is_fenced(epoch, v.epoch), without={"late-head": False})

    @define(without={"late-head": False})
    def is_dead(s, t: str, v: KeyView, base: Number, epoch: Number | int, undone: int = NOBODY) -> Truth:
        """Version v can never be pinned: its plan is fenced, is undone, or stands on a pin that is gone."""
        gone = any_of((v.plan == w) & ((s.base[w][t] < base) | (w == undone)) for w in range(s.writers))
        return gone | s.is_fenced(v.epoch, epoch)

    def create_head(s, t: str, w: int, epoch: Number | int, *, undo: bool = False) -> None:
        """At the first free number above the plan's base: the place is free."""
        first = least(pick((s.base[w][t] < n) & ~v.is_there, n, 2 * s.writers) for n, v in s.versions(t))
        s.version[t][first - 1].create("done", plan=w, undo=undo, epoch=epoch)

    # Definitions: plans, their expectations, and recovery, which knows a plan by its sidecar.
    is_at_work = define(lambda s, w: s.at[w].is_in(*AT_WORK))  # neither crashed nor done with its caller
    touches = define(lambda s, w, t: s.kind[w] != "link" if t == "nodes" else s.kind[w].is_in("link", "both"))
    reads = define(lambda s, w, t: s.kind[w] == ("link" if t == "nodes" else "drop"))
    is_current = define(lambda s, w, t: s.pin[t] == s.base[w][t])  # the pin is what the plan stands on
    hold = define(lambda s, w, uses: all_of(implies(uses(w, t), s.is_current(w, t)) for t in TABLES))
    touched_hold = define(lambda s, w: s.hold(w, s.touches))
    reads_hold = define(lambda s, w: s.hold(w, s.reads), without={"pins-re-evaluated-on-retry": True})
    is_taken = define(lambda s, w: (s.parent[w] < s.last) & (s.parent[w] >= s.deleted))  # the id parent + 1
    # A head of one's own could be in the way of others. It occupies the number: no rival does.
    must_undo = define(lambda s, w, t: s.touches(w, t) & s.is_current(w, t) & (s.head(t, w) > 0))
    shows = define(lambda s, w, t: (s.pin[t] == s.head(t, w)) & (s.pin[t] > s.base[w][t]))
    is_pinned = define(lambda s, w: any_of(s.touches(w, t) & s.shows(w, t) for t in TABLES))
    is_undone = define(lambda s, w, t: s.head(t, w, undo=True) > s.base[w][t])
    is_visible = define(lambda s, k: any_of((s.manifest[w] > 0) & (s.kind[w] == k) for w in range(s.writers)))
    after_unknown = define("unsure", without={"read-back-on-unknown": "undo"})
    sidecar_touches = define(  # without: one table of the plan, for `both` the nodes
        lambda s, w, t: s.touches(w, t),
        without={"whole-plan-in-sidecar": lambda s, w, t: (s.kind[w] == "link") ^ (t == "nodes")},
    )
    # Every touched pin has moved on.
    is_settled = define(lambda s, w: ~any_of(s.sidecar_touches(w, t) & s.is_current(w, t) for t in TABLES))
    # The grace window takes into account that a writer of this epoch may still create its heads.
    may_appear = define(lambda s, w, epoch: s.began[w] == epoch, without={"grace-window": False})
    # Younger than the window: with clocks that agree, as long as its writer is at work.
    is_young = define(lambda s, w: s.is_at_work(w), without={"bounded-skew": False})
    may_commit = define(  # the newest manifest, as a new parent, meets the plan's expectations
        lambda s, w: s.touched_hold(w) & s.reads_hold(w) & ~s.is_fenced(s.began[w], s.epoch),
        without={"shared-head": lambda s, w: s.touched_hold(w)},
    )
    is_above_boundary = define(
        lambda s, w: pick(s.manifest[w] > 0, s.manifest[w], s.parent[w] + 1) > s.boundary,
        without={"boundary-check-after-create": True},
    )

    def may_roll_forward(s, w: int, epoch: Number | int) -> Truth:
        """All heads are the plan's, and an executor of this epoch may commit it on the newest manifest."""
        own = all_of(implies(s.sidecar_touches(w, t), s.place(t, w, epoch) == "own") for t in TABLES)
        return own & s.hold(w, s.sidecar_touches) & s.reads_hold(w) & ~s.is_fenced(epoch, s.epoch)

    def must_restore(s, w: int, epoch: Number | int, t: str) -> Truth:
        """The plan's head stands, is being undone, or can still appear."""
        place = s.place(t, w, epoch)
        stands = (place == "own") | ((place == "free") & s.may_appear(w, epoch))
        return s.sidecar_touches(w, t) & s.is_current(w, t) & (stands | s.is_undone(w, t))

    # Actions: the chain and its cleanup.
    @action
    def claim(s) -> None:
        """Open the catalog for writing: one manifest, which fences all earlier writers."""
        s.require(s.epoch < s.claims)
        s.epoch += 1
        s.add_manifest()

    def add_manifest(s, new: Truth | bool = True) -> None:
        """Pins and epoch are set before."""
        s.last = pick(new, s.last + 1, s.last)

    @action
    def delete_manifests(s) -> None:
        """Cleanup, second step."""
        s.require(s.deleted < s.boundary)
        s.deleted = s.boundary

    @action
    def move_boundary(s) -> None:
        """Cleanup, first step: all manifests but the newest may go, and with them what only they pinned."""
        s.require(s.boundary < s.last - 1)
        s.trouble.spend()
        s.boundary, s.kept = s.last - 1, s.pin

    @action(table=TABLES, number=numbers)
    def delete_version(s, table: str, number: int) -> None:
        """Cleanup, third step. Number counts from 0 here, as in the state."""
        s.require(s.version[table][number].is_there, s.kept[table] > number + 1)
        s.version[table][number].delete()

    # Actions: a writer stages its plan and moves heads.
    @action(w=writers, kind=KINDS)
    def begin(s, w: int, kind: str) -> None:
        """Capture the newest manifest, check the write against it, write the sidecar."""
        s.require(s.at[w] == "new", w == 0 or s.at[w - 1] != "new")  # plans are numbered as they begin
        s.require(kind not in ("link", "drop") or ~s.is_visible("drop"))
        s.guard("inbound-check-on-removal", kind != "drop" or ~s.is_visible("link"))
        s.at[w], s.kind[w] = "heads", kind
        s.began[w], s.parent[w], s.base[w] = s.epoch, s.last, s.pin
        s.sidecar[w] = s.is_on("sidecar-before-heads")

    @action(w=among(writers, at="heads"))
    def probe_finds_winner(s, w: int) -> None:
        """Another plan was published before a head moved, and an expectation fails: nothing to undo."""
        s.require(s.parent[w] < s.last, ~s.may_commit(w), *(s.head(t, w) == 0 for t in TABLES))
        s.at[w], s.outcome[w] = "owes-retiring", "refused"

    @action(w=among(writers, at="heads", sidecar=False))
    def stage_again(s, w: int) -> None:
        """After an unknown outcome, the writer creates anew a sidecar that recovery has retired meanwhile."""
        s.require(s.is_on("sidecar-before-heads"), *(s.head(t, w) == 0 for t in TABLES))
        s.trouble.spend()
        s.sidecar[w] = True

    @action(w=among(writers, at="heads"), table=TABLES)
    def move_head(s, w: int, table: str) -> None:
        s.require(s.touches(w, table), s.place(table, w, s.began[w]) == "free")
        s.create_head(table, w, s.began[w])
        s.at[w] = pick(all_of(implies(s.touches(w, t), s.head(t, w) > 0) for t in TABLES), "commit", "heads")

    @without("sidecar-before-heads", replaces=move_head)
    def move_head_before_sidecar(s, w: int, table: str) -> None:
        Publish.move_head(s, w, table)
        s.sidecar[w] = s.at[w] == "commit"

    @action(w=among(writers, at="heads"))
    def heads_blocked(s, w: int) -> None:
        """The head of a rival or of a later epoch is in the way; the other head is answered too."""
        met = [pick(s.touches(w, t), s.place(t, w, s.began[w]), "full") for t in TABLES]
        s.require(*(place != "free" for place in met))
        later, rival, moved = (any_of(p == what for p in met) for what in ("later", "rival", "own"))
        s.require(later | rival)
        s.at[w] = case((moved & later, "over"), (moved, "undo"), otherwise="owes-retiring")
        s.outcome[w] = pick(moved & ~later, "nothing", "refused")

    # Actions: a writer commits.
    @action(w=among(writers, at="commit"), answer=("done", "exists", "reply_lost", "request_lost"))
    def create_manifest(s, w: int, answer: str) -> None:
        """The loser evaluates all expectations on the newest manifest. A winner may be the plan itself."""
        s.trouble.spend(answer)
        if answer in ("done", "reply_lost"):
            s.put_manifest(w)
        if answer == "exists":
            s.require(s.is_taken(w))
            whole = s.boundary <= s.parent[w]  # otherwise a part of the history is out of sight
            mine, undo = whole & (s.manifest[w] > 0), whole & ~s.is_fenced(s.began[w], s.epoch)
            pinned, may = (s.is_pinned(w), "owes-retiring"), (s.may_commit(w), "commit")
            s.conclude(w, case((mine, "created"), pinned, may, (undo, "undo"), otherwise="over"))
        else:
            s.at[w] = "created" if answer == "done" else s.after_unknown()

    def put_manifest(s, w: int) -> None:
        """The create takes effect: no other was first, or the id was deleted and nobody sees the manifest."""
        s.require(~s.is_taken(w))
        s.publish(w, [s.touches(w, t) for t in TABLES], s.parent[w] == s.last)

    def publish(s, w: int, tables: Tables, new: Truth | bool = True, *, undo: bool = False) -> None:
        """Where `new`, the next manifest pins the plan's heads, or its undo heads, in these tables."""
        for t, shown in zip(TABLES, tables, strict=True):
            s.pin[t] = pick(new & shown, s.head(t, w, undo=undo), s.pin[t])
        s.add_manifest(new)
        s.manifest[w] = s.manifest[w] if undo else pick(new, s.last, s.manifest[w])

    @without("create-only-manifest", "linearizable-create", replaces=put_manifest)
    def overwrite_manifest(s, w: int) -> None:
        """A manifest that took the id is lost, and the newest one was perhaps built on another parent."""
        taken, newest = s.is_taken(w), s.is_taken(w) & (s.parent[w] == s.last - 1)
        s.manifest = tuple(pick(taken & (id_ == s.parent[w] + 1), 0, id_) for id_ in s.manifest)
        s.manifest[w] = pick(taken, s.parent[w] + 1, s.manifest[w])
        s.pin = tuple(pick(newest, s.base[w][t], s.pin[t]) for t in TABLES)
        s.last, s.epoch = pick(newest, s.parent[w], s.last), pick(newest, s.began[w], s.epoch)
        s.publish(w, [s.touches(w, t) for t in TABLES], s.parent[w] == s.last)

    @action(w=among(writers, at="unsure"))
    def look_again(s, w: int) -> None:
        """After an unknown outcome: read whose manifest it is, and create it again where there is none."""
        s.at[w] = pick((s.manifest[w] > 0) & (s.manifest[w] == s.parent[w] + 1), "created", "commit")

    @action(w=among(writers, at="created"))
    def check_boundary(s, w: int) -> None:
        """An id up to the boundary may have been deleted before it was created."""
        published = s.is_above_boundary(w) | s.is_pinned(w)
        s.conclude(w, case((published, "owes-retiring"), (s.may_commit(w), "commit"), otherwise="over"))

    def conclude(s, w: int, at: Choice) -> None:
        """Retry on the newest parent, or report to the caller. A sidecar of unknown outcome stays."""
        published, unknown = (at == "owes-retiring", "published"), (at == "over", "unknown")
        s.at[w], s.parent[w] = at, pick(at == "commit", s.last, s.parent[w])
        s.outcome[w] = case(published, unknown, otherwise=s.outcome[w])

    # Actions: a writer undoes its plan after a refusal, retires its sidecar, or crashes.
    @action(w=among(writers, at="undo"), table=TABLES)
    def undo_own_head(s, w: int, table: str) -> None:
        s.require(s.must_undo(w, table) & (s.place(table, w, s.began[w], undo=True) == "free"))
        s.create_head(table, w, s.began[w], undo=True)

    @action(w=among(writers, at="undo"))
    def undo_own_commit(s, w: int) -> None:
        needed: Tables = [s.must_undo(w, t) for t in TABLES]
        s.require(~s.is_fenced(s.began[w], s.epoch), any_of(needed))
        s.require(*(implies(s.must_undo(w, t), s.is_undone(w, t)) for t in TABLES))
        s.publish(w, needed, undo=True)
        s.at[w], s.outcome[w] = "owes-retiring", "refused"

    @action(w=among(writers, at="undo"))
    def undo_own_ends(s, w: int) -> None:
        """Nothing is left to undo, or another process will undo it: either way the plan is dead."""
        needed = [(s.must_undo(w, t), s.place(t, w, s.began[w], undo=True)) for t in TABLES]
        some = any_of(must for must, _ in needed)
        blocked = any_of(must & place.is_in("later", "rival") for must, place in needed)
        s.require(implies(some, blocked | s.is_fenced(s.began[w], s.epoch)))
        s.at[w], s.outcome[w] = pick(some, "over", "owes-retiring"), "refused"

    @action(w=among(writers, at="owes-retiring"))
    def retire(s, w: int) -> None:
        s.at[w], s.sidecar[w] = "over", False

    @action(w=among(writers, at=AT_WORK))
    def crash(s, w: int) -> None:
        s.trouble.spend()
        heads, sent = s.at[w] == "heads", s.at[w].is_in("commit", "unsure")
        s.at[w] = case((heads, "heads-under-way"), (sent, "manifest-under-way"), otherwise="over")

    @action(w=among(writers, at="heads-under-way"), table=TABLES)
    def head_lands(s, w: int, table: str) -> None:
        s.assume("bounded-landing", s.sidecar[w])
        s.require(s.touches(w, table), s.place(table, w, s.began[w]) == "free")
        s.create_head(table, w, s.began[w])

    @action(w=among(writers, at="manifest-under-way"))
    def manifest_lands(s, w: int) -> None:
        """Landing on a deleted id is visible to nobody."""
        s.require(s.parent[w] == s.last)
        s.assume("bounded-landing", s.sidecar[w])
        s.put_manifest(w)
        s.at[w] = "over"

    # Actions: an opener, or a writer that met a rival's head, settles a plan whose sidecar it has read.
    @action(o=among(openers, work="idle"), w=among(writers, sidecar=True))
    def read_sidecar(s, o: int, w: int) -> None:
        """With or without a claim before."""
        s.guard("grace-window", (s.began[w] < s.epoch) | ~(s.is_young(w) | (s.at[w] == "owes-retiring")))
        s.work[o], s.whose[o], s.epoch_of[o] = "has-read", w, s.epoch

    @action(o=among(openers, work="has-read", whose="w"), w=writers)
    def roll_forward(s, o: int, w: int) -> None:
        s.require(s.may_roll_forward(w, s.epoch_of[o]))
        s.publish(w, [s.sidecar_touches(w, t) for t in TABLES])
        s.work[o] = "retires"

    @action(o=among(openers, work="has-read", whose="w"), w=writers)
    def classify(s, o: int, w: int) -> None:
        """Restore the tables where a head is in the way. Where none is, a fenced plan may still be rolled
        forward (its requests may land, another opener may have read it); others are promised never to commit.
        """
        s.require(~s.is_settled(w) & ~s.may_roll_forward(w, s.epoch_of[o]))
        restores = tuple(s.must_restore(w, s.epoch_of[o], t) for t in TABLES)
        s.work[o], s.restores[o] = pick(any_of(restores), "undoes", "retires"), restores
        s.dropped[w] |= ~any_of(restores) & (s.began[w] == s.epoch)

    @action(o=among(openers, work="undoes", whose="w"), w=writers, table=TABLES)
    def undo_head(s, o: int, w: int, table: str) -> None:
        s.require(s.restores[o][table], s.place(table, w, s.epoch_of[o], undo=True) == "free")
        s.create_head(table, w, s.epoch_of[o], undo=True)

    @action(o=among(openers, work="undoes", whose="w"), w=writers, table=TABLES)
    def leave_to_rival(s, o: int, w: int, table: str) -> None:
        """A rival occupies the number: no late head of this plan can land there; the other is restored."""
        s.require(s.restores[o].all(True), s.place(table, w, s.epoch_of[o], undo=True) == "rival")
        s.restores[o][table] = False

    @action(o=among(openers, work="undoes", whose="w"), w=writers)
    def undo_commit(s, o: int, w: int) -> None:
        s.require(~s.is_fenced(s.epoch_of[o], s.epoch))
        s.require(*(implies(s.restores[o][t], s.is_current(w, t) & s.is_undone(w, t)) for t in TABLES))
        s.publish(w, [*s.restores[o]], undo=True)
        s.work[o], s.restores[o], s.dropped[w] = "retires", (False, False), True

    @action(o=among(openers, work="undoes", whose="w"), w=writers)
    def undo_lost(s, o: int, w: int) -> None:
        """A pin has moved, or a rival occupies the only number: classify again."""
        moved = any_of(s.restores[o][t] & ~s.is_current(w, t) for t in TABLES)
        met = {t: s.place(t, w, s.epoch_of[o], undo=True) == "rival" for t in TABLES}
        s.require(moved | all_of(implies(s.restores[o][t], met[t]) for t in TABLES))
        s.work[o], s.restores[o] = "has-read", (False, False)

    @action(o=among(openers, work=("has-read", "retires"), whose="w"), w=writers)
    def retire_settled(s, o: int, w: int) -> None:
        s.require((s.work[o] == "retires") | s.is_settled(w))
        s.sidecar[w] = False
        restart(s, o, *OPENER)

    @action(w=writers, table=TABLES)
    def finish_undo(s, w: int, table: str) -> None:
        """A writer commits the head of an undo whose sidecar is gone: it shows what is pinned already. Its
        executor died, and another opener, which did not know of this table, has retired the sidecar.
        """
        s.require(~s.sidecar[w] & s.is_current(w, table) & (s.head(table, w, undo=True) > s.pin[table]))
        s.require(s.place(table, NOBODY, s.epoch) == "rival", s.place(table, w, s.epoch, undo=True) == "own")
        s.publish(w, [t == table for t in TABLES], undo=True)
        s.dropped[w] = True

    @action(o=among(openers, work=("has-read", "undoes", "retires")))
    def give_up(s, o: int) -> None:
        restart(s, o, *OPENER)

    # Properties: never bad.
    atomic_visibility = invariant("The manifest that publishes a plan shows all of it.", w=writers, t=TABLES)(
        lambda s, w, t: implies((s.manifest[w] == s.last) & s.touches(w, t), s.shows(w, t))
    )

    @invariant(w=writers)
    def no_lost_write(s, w: int) -> Truth:
        """An acknowledged plan is in the chain, and the pins of the newest manifest go on from it."""
        moved = all_of(implies(s.touches(w, t), s.pin[t] > s.base[w][t]) for t in TABLES)
        return implies(s.outcome[w] == "published", (s.manifest[w] > 0) & moved)

    no_phantom = invariant("A plan that was refused to its caller is invisible for ever.", w=writers)(
        lambda s, w: implies(s.outcome[w] == "refused", s.manifest[w] == 0)
    )

    @step(w=writers)
    def fenced(before, after: "Publish", w: int) -> Truth:
        """Once a later epoch is visible, no writer of an earlier one commits."""
        commits = (after.at[w] != before.at[w]) & (after.manifest[w] != before.manifest[w])
        return implies(commits, before.began[w] == before.epoch)

    @invariant(t=TABLES, number=numbers)
    def no_head_ahead(s, t: str, number: int) -> Truth:
        """A head ahead of its pin can be stepped over, or its writer is at work, or its sidecar stands."""
        v, left = s.version[t][number], [~s.sidecar[w] & ~s.is_at_work(w) for w in range(s.writers)]
        ahead = (s.pin[t] <= number) & ~v.undo & ~s.is_dead(t, v, s.pin[t], s.epoch)
        return ~any_of(left[w] & ahead & (v.plan == w) for w in range(s.writers))

    live_writer = invariant("Recovery never drops a plan that its writer reports as published.", w=writers)(
        lambda s, w: implies(s.dropped[w], s.outcome[w] != "published")
    )

    @step(o=openers, w=writers)
    def left_alone(before, after: "Publish", o: int, w: int) -> Truth:
        """Recovery takes up no plan of the present epoch whose writer is at work: the window is for this."""
        # Without the window, `live_writer` shows the cost.
        protected = before.is_at_work(w) & before.may_appear(w, before.epoch)
        return ~(protected & (before.whose[o] != w) & (after.whose[o] == w))

    referential_integrity = invariant("No visible edge points at a node that is gone.")(
        lambda s: ~(s.is_visible("link") & s.is_visible("drop"))
    )
    cleanup_safe = invariant(
        "The versions that the newest manifest and the oldest retained one pin are there.", t=TABLES
    )(lambda s, t: all_of(implies((s.pin[t] == n) | (s.kept[t] == n), v.is_there) for n, v in s.versions(t)))

    @invariant(w=writers, undo=(False, True), t=TABLES)
    def same_plan(s, w: int, undo: bool, t: str) -> Truth:
        """However many execute a plan, and however often, it has one head a table above the pin."""
        return count_of((s.pin[t] < n) & v.holds(plan=w, undo=undo) for n, v in s.versions(t)) <= 1

    @always_recoverable
    def no_wedge(s) -> Truth:
        """However writers crash, no head is in the way of a new one in some later state without work."""
        free = all_of(~s.place(t, NOBODY, s.epoch).is_in("rival", "later") for t in TABLES)
        return free & ~s.at.any(lambda at: at.is_in(*AT_WORK))

    # Properties: sometimes good.
    all_published = reachable("All plans can be reported as published.")(lambda s: s.outcome.all("published"))

    @reachable(w=writers, q=writers)
    def retry_succeeds(s, w: int, q: int) -> Truth:
        """A writer that lost the race for a manifest can win the next one."""
        lost = any_of(s.touches(q, t) & (s.base[q][t] == s.base[w][t]) for t in TABLES) & (s.manifest[q] > 0)
        won = (s.outcome[w] == "published") & (s.manifest[w] == s.parent[w] + 1)
        return lost & won & (s.manifest[q] < s.manifest[w])

    conflict = reachable("A writer can be refused and take its heads back while another one publishes.")(
        lambda s: s.outcome.any("refused") & s.outcome.any("published") & (s.last > 2 + s.claims)
    )
    rolled_forward = reachable("Recovery can publish the plan of a writer that crashed.", w=writers)(
        lambda s, w: (s.manifest[w] > 0) & (s.at[w] == "manifest-under-way") & (s.outcome[w] == "nothing")
    )
    rolled_back = reachable("Recovery can undo the plan of a writer that crashed.", w=writers)(
        lambda s, w: s.dropped[w] & (s.at[w] == "heads-under-way") & ~s.sidecar[w]
    )
    unknown_outcome = reachable(
        "A fenced writer can report an unknown outcome of a plan that is published after all.", w=writers
    )(lambda s, w: (s.outcome[w] == "unknown") & (s.manifest[w] > 0))

    @reachable(w=writers, t=TABLES)
    def late_head_stepped_over(s, w: int, t: str) -> Truth:
        """A head of a fenced writer can stand below the one that is pinned."""
        below = any_of(v.holds(plan=w, undo=False) & (s.pin[t] > n) for n, v in s.versions(t))
        return below & (s.began[w] < s.epoch) & (s.manifest[w] == 0)

    false_success = reachable(
        "A create can succeed on an id that was deleted, and is visible to nobody.", w=writers
    )(lambda s, w: (s.at[w] == "created") & (s.manifest[w] == 0))
    # Nobody works; what is left to recovery needs an opener only, and there is always one.
    done = may_end(lambda s: ~s.at.any(lambda at: at.is_in(*AT_WORK)) & ~s.sidecar.any(True))

    # Refinement: every step is one that the store may show.
    @refines(
        PublishObserved,
        {
            "claim": "claim",
            "move_boundary": lambda s: does("move_boundary", to=s.last - 1),
            "delete_manifests": "delete_manifests",
            "delete_version": "delete_version",
            "begin": lambda s, w, kind: does("stage", w=w, kind=kind, parent=s.last - 1),
            "probe_finds_winner": "probe_finds_winner",
            "stage_again": "stage_again",
            "move_head": "move_head",
            "heads_blocked": "heads_blocked",
            "create_manifest": lambda before, after, w, answer: (
                after.learns(before, w) if answer == "exists" else creates(w, answer)
            ),
            "check_boundary": lambda before, after, w: after.learns(before, w),
            "undo_own_head": "undo_own_head",
            "undo_own_commit": "undo_own_commit",
            "undo_own_ends": "undo_own_ends",
            "retire": "retire",
            "crash": "crash",
            "head_lands": "head_lands",
            "manifest_lands": "manifest_lands",
            "read_sidecar": "recovery_reads",
            "roll_forward": lambda s, o, w: does("recovery_rolls_forward", w=w, epoch=s.epoch_of[o]),
            "classify": lambda s, o, w: does("recovery_judges", w=w, epoch=s.epoch_of[o]),
            "undo_head": lambda s, o, w, table: does(
                "recovery_undoes_head", w=w, epoch=s.epoch_of[o], table=table
            ),
            "leave_to_rival": lambda s, o, w, table: does(
                "recovery_leaves_to_rival", w=w, epoch=s.epoch_of[o], table=table
            ),
            "undo_commit": lambda s, o, w: s.undo_commits(o, w),
            "retire_settled": lambda s, w: (
                does("recovery_settles", w=w, when=s.is_settled(w)),
                does("recovery_retires", w=w, when=s.sidecar[w]),
            ),
            "finish_undo": "finish_undo",
        },
        writers=writers,
        claims=claims,
    )
    def observed(s, observed: PublishObserved) -> dict[str, object]:
        """Every step is one that the store may show."""
        return {
            "version": related(
                all_of(
                    (ours.is_there == theirs.is_there)
                    & (ours.plan == theirs.plan)
                    & (ours.undo == theirs.undo)
                    & (ours.epoch == theirs.epoch)
                    for t in TABLES
                    for ours, theirs in zip(s.version[t], observed.version[t], strict=True)
                )
            ),
            "epoch_at": HISTORY,
            "pins_at": HISTORY,
            "at": HISTORY,
            "parent": HISTORY,
            "read": HISTORY,
            "seen_moved": HISTORY,
            "seen_still": HISTORY,
            "undoing": HISTORY,
            "owed": HISTORY,
            "outcome": related(
                all_of(
                    (s.outcome[w] == told) == (observed.outcome[w] == told)
                    for w in range(s.writers)
                    for told in ("published", "refused")
                )
            ),
        }

    def learns(after, before: "Publish", w: int) -> object:
        at = after.at[w]
        return (
            does("learn_success", w=w, when=at == "owes-retiring"),
            does("retry", w=w, when=at == "commit"),
            does("learn_refusal", w=w, when=at == "undo"),
            does("crash", w=w, when=at == "over"),
        )

    def undo_commits(s, o: int, w: int) -> object:
        nodes, edges = s.restores[o]["nodes"], s.restores[o]["edges"]
        e = s.epoch_of[o]
        return (
            does("recovery_commits_undo", w=w, epoch=e, tables="both", when=nodes & edges),
            does("recovery_commits_undo", w=w, epoch=e, tables="nodes", when=nodes & ~edges),
            does("recovery_commits_undo", w=w, epoch=e, tables="edges", when=~nodes & edges),
        )


def creates(w: int, answer: str) -> object:
    return does("create_manifest", w=w) if answer in ("done", "reply_lost") else ()
