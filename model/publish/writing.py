"""The writer of a plan: stage, heads, commit, check, retire, and undoing itself when it lost.

One step or several? A request and its answer are one step: only its landing can be seen by others
(model/store). Of the protocol's steps
- capture and stage are one: what others do between them they may as well do right after both, since an
  expectation is judged anew on every parent but the captured one;
- each head is a step of its own, in any order; a writer that met a rival decides when all are answered;
- a create that loses, and loading the winners, are one: the first changed nothing, so it could as well
  have been tried when the winners were read;
- the create and the look at the boundary are two: cleanup fits between.

A crash leaves requests under way. A crashed writer has sent whatever its step sends and holds no state
any more, so `heads-under-way` and `manifest-under-way` say it all: what it had asked for may land, at any
later step or never. A reply that is lost while the writer lives matters for the manifest alone
(`unsure`): who asks for a head again meets its own.

Left out: retries that run out (here at most a handful of others commit), and undo requests that land late:
an opener that takes its time does the same.
"""

from fencepost.model.kernel import Each, Enum, Int, Truth, action, all_of, any_of, pick
from fencepost.model.publish.lineages import EDGES, NODES, TABLES
from fencepost.model.publish.sidecars import KINDS, Sidecars

BOTH = (NODES, EDGES)


class Writing(Sidecars):
    """What the writers do, one plan each."""

    at = Each(
        Sidecars.writers,
        Enum(
            "new",
            "heads",
            "commit",
            "unsure",
            "created",
            "undo",
            "owes-retiring",
            "over",
            "heads-under-way",
            "manifest-under-way",
        ),
    )
    parent = Each(Sidecars.writers, Int(0, 1 + Sidecars.claims + 3 * Sidecars.writers))
    told = Each(Sidecars.writers, Enum("nothing", "published", "refused", "unknown"))

    # Stage.

    @action(w=Sidecars.writers, kind=KINDS)
    def begin(s, w: int, kind: str) -> None:
        """Capture the newest manifest, check the write against it, write the sidecar."""
        s.require(s.at[w] == "new")
        if w:
            s.require(s.at[w - 1] != "new")  # plans are numbered as they begin
        if kind in ("link", "drop"):
            s.require(~s.is_visible("drop"))
        if kind == "drop":
            s.guard("inbound-check-on-removal", ~s.is_visible("link"))
        s.at[w] = "heads"
        s.kind[w] = kind
        s.began[w] = s.epoch
        s.parent[w] = s.last
        s.sidecar[w] = s.is_on("sidecar-before-heads")
        for t in BOTH:
            s.base[w][t] = s.pin[t]

    @action(w=Sidecars.writers)
    def probe_finds_winner(s, w: int) -> None:
        """Somebody committed before a head has moved, and an expectation fails: nothing to undo."""
        s.require((s.at[w] == "heads") & (s.parent[w] < s.last))
        s.require(*(s.head(t, w) == 0 for t in BOTH))
        s.require(~s.may_commit(w))
        s.told[w] = "refused"
        s.at[w] = "owes-retiring"

    @action(w=Sidecars.writers)
    def stage_again(s, w: int) -> None:
        """Not told whether the sidecar was created, a writer looks, finds none, and asks again. It had been
        there: recovery has settled the plan meanwhile.
        """
        s.require((s.at[w] == "heads") & ~s.sidecar[w])
        s.require(s.is_on("sidecar-before-heads"), *(s.head(t, w) == 0 for t in BOTH))
        s.trouble.spend()
        s.sidecar[w] = True

    # Heads.

    @action(w=Sidecars.writers, table=TABLES)
    def move_head(s, w: int, table: str) -> None:
        t = TABLES.index(table)
        s.require(s.at[w] == "heads")
        s.put_head(w, t)
        moved = all_of(~s.touches(w, o) | (s.head(o, w) > 0) for o in BOTH)
        s.at[w] = pick(moved, "commit", "heads")
        if not s.is_on("sidecar-before-heads"):
            s.sidecar[w] = moved

    def put_head(s, w: int, t: int) -> None:
        s.require(s.touches(w, t))
        s.create_head(t, s.place(t, s.base[w][t], s.began[w], w), w, s.began[w])

    @action(w=Sidecars.writers)
    def heads_blocked(s, w: int) -> None:
        """A rival's head stands in the way, or one of a later epoch; the other head is answered too."""
        s.require(s.at[w] == "heads")
        places = [s.place(t, s.base[w][t], s.began[w], w) for t in BOTH]
        s.require(*(~s.touches(w, t) | ~places[t].free for t in BOTH))
        later = any_of(s.touches(w, t) & places[t].later for t in BOTH)
        s.require(later | any_of(s.touches(w, t) & places[t].rival for t in BOTH))
        moved = any_of(s.touches(w, t) & places[t].own for t in BOTH)
        s.at[w] = pick(moved, pick(later, "over", "undo"), "owes-retiring")
        s.told[w] = pick(moved & ~later, "nothing", "refused")

    # Commit.

    @action(w=Sidecars.writers, answer=("done", "exists", "reply-lost", "lost"))
    def create_manifest(s, w: int, answer: str) -> None:
        s.require(s.at[w] == "commit")
        s.trouble.spend(answer in ("reply-lost", "lost"))
        if answer == "exists":
            s.require((s.parent[w] < s.last) & (s.parent[w] >= s.deleted))
            s.load_winners(w)
            return
        if answer != "lost":
            s.put_manifest(w)
        unclear = "unsure" if s.is_on("read-back-on-unknown") else "undo"
        s.at[w] = "created" if answer == "done" else unclear

    def put_manifest(s, w: int) -> None:
        """The create takes effect: where nobody was quicker, or where the id was deleted."""
        if s.is_on("create-only-manifest") and s.is_on("linearizable-create"):
            s.require((s.parent[w] == s.last) | (s.parent[w] < s.deleted))
        else:
            s.overwrite(w)
        new = s.parent[w] == s.last
        s.show(w, [new & s.touches(w, t) for t in BOTH], new)

    def overwrite(s, w: int) -> None:
        """The id had been taken: its manifest is no more, and the newest was built on another parent."""
        taken = (s.parent[w] < s.last) & (s.parent[w] >= s.deleted)
        newest = s.parent[w] == s.last - 1
        for q in range(s.writers):
            s.manifest[q] = pick(taken & (s.manifest[q] == s.parent[w] + 1), 0, s.manifest[q])
        for t in BOTH:
            mine = pick(s.touches(w, t), s.head(t, w), s.base[w][t])
            s.pin[t] = pick(taken & newest, mine, s.pin[t])
        s.epoch = pick(taken & newest, s.began[w], s.epoch)
        s.manifest[w] = pick(taken, s.parent[w] + 1, s.manifest[w])

    @action(w=Sidecars.writers)
    def look_again(s, w: int) -> None:
        """Not told whether the manifest was created: look whose it is, ask again where there is none."""
        s.require(s.at[w] == "unsure")
        s.at[w] = pick((s.manifest[w] > 0) & (s.manifest[w] == s.parent[w] + 1), "created", "commit")

    def load_winners(s, w: int) -> None:
        """Lost the race: judge all expectations on the newest manifest. Or the winner is one's own plan."""
        whole = s.boundary <= s.parent[w]
        mine, adopted, may = whole & (s.manifest[w] > 0), s.is_adopted(w), s.may_commit(w)
        refused = ~mine & ~adopted & ~may
        may = ~mine & ~adopted & may
        told_apart = refused & whole & s.in_epoch(s.began[w])
        s.at[w] = pick(mine, "created", pick(may, "commit", pick(told_apart, "undo", "over")))
        s.end(w, ~mine & adopted, refused & ~told_apart)
        s.parent[w] = pick(may, s.last, s.parent[w])

    def may_commit(s, w: int) -> Truth:
        """Whether the newest manifest, as a new parent, meets the plan's expectations."""
        if not s.is_on("shared-head"):
            return s.untouched(w)  # a row for each table: winners of other rows are not looked at
        return s.in_epoch(s.began[w]) & s.untouched(w) & s.as_read(w)

    def is_adopted(s, w: int) -> Truth:
        """Whether the newest manifest pins a head of the plan."""
        return any_of(s.touches(w, t) & (s.head(t, w) > 0) & (s.pin[t] == s.head(t, w)) for t in BOTH)

    def end(s, w: int, published: Truth, unknown: Truth) -> None:
        """Tell the caller, where there is something to tell. A sidecar of unknown fate stays."""
        s.at[w] = pick(published, "owes-retiring", pick(unknown, "over", s.at[w]))
        s.told[w] = pick(published, "published", pick(unknown, "unknown", s.told[w]))

    # Check.

    @action(w=Sidecars.writers)
    def check_boundary(s, w: int) -> None:
        """An id at or behind the boundary may have been deleted before it was created."""
        s.require(s.at[w] == "created")
        id_ = pick(s.manifest[w] > 0, s.manifest[w], s.parent[w] + 1)
        true = (id_ > s.boundary) if s.is_on("boundary-check-after-create") else Truth.constant(True)
        may = ~true & ~s.is_adopted(w) & s.may_commit(w)
        published = true | s.is_adopted(w)
        s.at[w] = "commit"
        s.parent[w] = pick(may, s.last, s.parent[w])
        s.end(w, published, ~published & ~may)

    # Undo oneself, after a refusal.

    def must_undo(s, w: int, t: int) -> Truth:
        """Whether a head of one's own could be in somebody's way. One's own occupies it: no rival does."""
        return s.touches(w, t) & s.stands(w, t) & (s.head(t, w) > 0)

    @action(w=Sidecars.writers, table=TABLES)
    def undo_own_head(s, w: int, table: str) -> None:
        t = TABLES.index(table)
        s.require(s.at[w] == "undo")
        s.require(s.must_undo(w, t))
        place = s.place(t, s.base[w][t], s.began[w], w, undo=True)
        s.create_head(t, place, w, s.began[w], undo=True)

    @action(w=Sidecars.writers)
    def undo_own_commit(s, w: int) -> None:
        s.require(s.at[w] == "undo")
        s.require(s.in_epoch(s.began[w]))
        needed = [s.must_undo(w, t) for t in BOTH]
        s.require(any_of(needed))
        s.restore(w, needed)
        s.at[w] = "owes-retiring"
        s.told[w] = "refused"

    @action(w=Sidecars.writers)
    def undo_own_ends(s, w: int) -> None:
        """Nothing is left to undo, or somebody else will: either way the plan is dead."""
        s.require(s.at[w] == "undo")
        places = [s.place(t, s.base[w][t], s.began[w], w, undo=True) for t in BOTH]
        needed = any_of(s.must_undo(w, t) for t in BOTH)
        blocked = any_of(s.must_undo(w, t) & (places[t].later | places[t].rival) for t in BOTH)
        fenced = ~s.in_epoch(s.began[w]) | blocked
        s.require(~needed | fenced)
        s.at[w] = pick(needed, "over", "owes-retiring")
        s.told[w] = "refused"

    # Retire, or crash.

    @action(w=Sidecars.writers)
    def retire(s, w: int) -> None:
        s.require(s.at[w] == "owes-retiring")
        s.sidecar[w] = False
        s.at[w] = "over"

    @action(w=Sidecars.writers)
    def crash(s, w: int) -> None:
        s.require(s.is_at_work(w))
        s.trouble.spend()
        asks = s.at[w].is_in("commit", "unsure")
        s.at[w] = pick(s.at[w] == "heads", "heads-under-way", pick(asks, "manifest-under-way", "over"))

    def is_at_work(s, w: int) -> Truth:
        """Whether the writer has neither crashed nor told its caller."""
        return s.at[w].is_in("heads", "commit", "unsure", "created", "undo")

    @action(w=Sidecars.writers, table=TABLES)
    def head_lands(s, w: int, table: str) -> None:
        """A request of a crashed writer."""
        s.require(s.at[w] == "heads-under-way")
        s.assume("bounded-landing", s.sidecar[w])
        s.put_head(w, TABLES.index(table))

    @action(w=Sidecars.writers)
    def manifest_lands(s, w: int) -> None:
        """The same. Landing on an id that was deleted shows nobody anything."""
        s.require(s.at[w] == "manifest-under-way")
        s.require(s.parent[w] == s.last)
        s.assume("bounded-landing", s.sidecar[w])
        s.put_manifest(w)
        s.at[w] = "over"
