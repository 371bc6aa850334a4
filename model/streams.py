"""Streams: one stream name on an object store, served by several nodes, deleted, reaped and created again.

The protocol of docs/decisions/0020-streams.md under durability `store`, for one name; names share nothing.
A manifest moves by if-match. Its `life` numbers the incarnations of the name, its `epoch` the owners: every
owner takes a new epoch, and a segment's key is its epoch and first offset. One append is one segment.
`data[e - 1][o]` is the segment of epoch e at offset o; the manifest lists an epoch for each offset.

`current[n]` says that the ETag that node n knows is the manifest's. Whoever reads the manifest and swaps it
without work in between is one step: a swap that succeeds proves that nothing happened meanwhile. A swap that
lands late is one that landed at once and whose reply was lost, because until somebody else changes the
manifest only readers can tell, and reading earlier is a shorter read. Creates and uploads may land late.

`age` is 0 before `expires_at`, 1 after it by the fastest clock alone, 2 after it by all clocks.

Five constants select designs that were rejected, each with a counterexample: `chained=1` (create-only ids in
place of if-match), `swaps=0` (a recreate deletes the manifest and creates another), `orphans=0` (the scan
looks at manifests alone), `tail_reads=1` and `tagged=0` (what a reader gets, what its offset names).
"""

from fencepost.model import *
from fencepost.model.store import Budget, Key
from fencepost.model.streams_observed import StreamsObserved

UNDER_WAY = ("upload", "move", "unsure")
NONE = -1


class Streams(Machine):
    """Durable streams with retention: appends, owners, readers, deletes, reaps and recreations of a name."""

    # Constants.
    nodes = Size(2, most=3, doc="processes that serve the same prefix")
    appends = Size(1, most=3, doc="appends of one producer, each in a later epoch of it than the one before")
    epochs = Size(3, most=5, doc="owners in one run: creations and changes of the owner")
    lives = Size(2, most=3, doc="incarnations of the name in one run")
    troubles = Size(1, least=0, most=3, doc="crashes, lost replies and late requests in one run")
    chained = Size(0, least=0, most=1, doc="whether manifests are a chain of create-only ids: 1 or 0")
    swaps = Size(1, least=0, most=1, doc="whether a recreate replaces the tombstone in one request: 1 or 0")
    orphans = Size(1, least=0, most=1, doc="whether the scan lists data as well as manifests: 1 or 0")
    reading = Size(0, least=0, most=1, doc="whether there is a reader: 1 or 0")
    tail_reads = Size(0, least=0, most=1, doc="whether readers get bytes that no manifest lists: 1 or 0")
    tagged = Size(1, least=0, most=1, doc="whether an offset names the incarnation: 1 or 0")

    safeguards = {
        "terminal-before-data": "an expired manifest gets a tombstone by if-match before any data goes",
        "data-before-manifest": "the manifest goes strictly last, when no data is left",
        "verify-empty": "a reap ends when the prefix lists empty, which finds late uploads",
        "row-until-empty": "the row, which resumes a reap, goes when the prefix is empty",
        "tombstone-short-circuit": "a terminal manifest is restored as a row, without looking at segments",
        "uploader-filter": "nothing is uploaded for, or published over, a stream that the node has flagged",
        "scan": "doomed manifests without a row, and data without a manifest, are found",
        "recreate-lock": "one node's reaps of a stream and its other work on it exclude each other",
        "fresh-epoch": "a new incarnation begins with an epoch that was never used",
        "expiry-skew-margin": "a stream is reaped as expired only when it is expired by every clock",
        "two-node-reap": "a reap deletes the manifest that it read, and data up to its epoch, no other",
        "producer-fence": "an append is accepted only if its producer has done nothing later",
        "owner-fence": "the manifest moves only by if-match on what its owner read or wrote",
        "segment-before-manifest": "the segment stands before the manifest lists it",
    }
    assumptions = {
        "bounded-landing": "a create lands before its stream's tombstone is old enough to go, or never",
    }
    symmetric = ("nodes",)
    shown_at = {
        "producer-fence": {"appends": 2, "epochs": 2, "lives": 1, "troubles": 0},
        **{name: {"troubles": 0} for name in ("scan", "tombstone-short-circuit", "terminal-before-data")},
    }
    fires_at = {
        "late_create_lands": {"swaps": 0},
        "read": {"reading": 1},
        "start_over": {"reading": 1},
        "read_tail": {"reading": 1, "tail_reads": 1},
    }
    changes_at = {
        "position": {"reading": 1},
        "reads": {"reading": 1},
        "tail": {"reading": 1, "tail_reads": 1},
        "skipped": {"reading": 1, "tagged": 0},
        "bricked": "tombstone-short-circuit",
        "hasty": "expiry-skew-margin",
        "careless": "data-before-manifest",
    }

    # State: the store, the nodes, the clients, the reader.
    manifest = Key(
        life=Int(0, lives),
        epoch=Int(0, epochs),
        tomb=Bool(),
        length=Int(0, appends),
        last=Id(appends, nobody=True),
    )
    listed = Each(appends, Int(0, epochs))  # by offset the epoch of the segment
    data = Each(epochs, Each(appends, Key(content=Id(appends), life=Int(0, lives))))
    age = Int(0, 2)
    newest, life = Int(0, epochs), Int(0, lives)  # ghosts: the latest epoch and incarnation so far
    ended = Int(0, lives)  # ghost: the latest incarnation that got a tombstone
    late_create = Key(epoch=Int(0, epochs), life=Int(0, lives))
    late_upload = Key(epoch=Int(0, epochs), place=Id(appends), content=Id(appends), life=Int(0, lives))
    trouble = Budget(troubles)
    current = Each(nodes, Bool())
    mine, born = Each(nodes, Int(0, epochs)), Each(nodes, Int(0, lives))  # the owned epoch, its incarnation
    length = Each(nodes, Int(0, appends))  # as the owner knows it
    at = Each(nodes, Enum("idle", *UNDER_WAY, "moved"))
    holds = Each(nodes, Id(appends, nobody=True))  # the append under way
    row = Each(nodes, Int(0, lives))  # flagged: the incarnation to be reaped; 0 for none
    reap = Each(nodes, Enum("none", "data", "verify"))
    doomed = Each(nodes, Int(0, epochs))  # the reap deletes data up to this epoch
    acked = Each(appends, Bool())  # ghost: acknowledged in the present incarnation
    position, reads = Int(0, appends), Int(0, lives)  # of the reader, and the incarnation that it reads
    tail = Id(appends, nobody=True)  # what it read at its last offset while no manifest listed that
    skipped, bricked, hasty, careless = Bool(), Bool(), Bool(), Bool()  # ghosts: what must not happen

    # Definitions.
    is_live = define(lambda s: s.manifest.is_there & ~s.manifest.tomb)
    is_dead = define(lambda s: s.manifest.is_there & s.manifest.tomb)
    ripe = define(2, without={"expiry-skew-margin": 1})  # the age at which a node reaps
    is_locked = define(lambda s, n: s.reap[n] != "none", without={"recreate-lock": False})
    may_swap = define(
        lambda s, n: s.current[n] | (~s.manifest.is_there & (s.chained > 0)), without={"owner-fence": True}
    )
    may_delete = define(
        lambda s, n: s.current[n], without={"two-node-reap": lambda s, n: s.manifest.is_there}
    )
    is_listed = define(lambda s, o: s.manifest.length > o)
    is_mine = define(lambda s, n: s.is_live() & (s.manifest.epoch == s.mine[n]))

    @define(without={"fresh-epoch": lambda s: s.newest * 0 + 1})
    def fresh(s) -> Number:
        """The first epoch of a new incarnation."""
        return s.newest + 1

    @define(without={"two-node-reap": lambda s, n: s.doomed[n] * 0 + s.epochs})
    def reach(s, n: int) -> Number:
        """A reap deletes data up to this epoch."""
        return s.doomed[n]

    def segment(s, o: int, part: str) -> Number:
        """A part of the segment that the manifest lists at the offset; nothing stands there: -1 or 0."""
        missing = NONE if part == "content" else 0
        places = (
            ((s.listed[o] == e + 1) & line[o].is_there, getattr(line[o], part))
            for e, line in enumerate(s.data)
        )
        return case(*places, otherwise=missing)

    def has_data(s, up_to: Number | int) -> Truth:
        """A listing shows data of these epochs."""
        return any_of(key.is_there & (up_to > e) for e, line in enumerate(s.data) for key in line)

    def is_whole(s) -> Truth:
        return all_of(implies(s.is_listed(o), s.segment(o, "content") >= 0) for o in range(s.appends))

    # Definitions: what several actions do.
    def swap(s, n: int, **changes: object) -> None:
        """Write the manifest; from now on every other node's ETag is an old one."""
        parts = {part: getattr(s.manifest, part) for part in ("life", "epoch", "tomb", "length", "last")}
        s.manifest.put(**{**parts, **changes})
        for m in range(s.nodes):
            s.current[m] = m == n

    def begin_life(s, n: int) -> None:
        s.require(s.life < s.lives, s.newest < s.epochs)
        epoch = s.fresh()
        s.newest, s.life, s.age = s.newest + 1, s.life + 1, 0
        s.swap(n, life=s.life, epoch=epoch, tomb=False, length=0, last=NONE)
        for o in range(s.appends):
            s.listed[o] = 0
        s.mine[n], s.born[n], s.length[n] = epoch, s.life, 0
        s.row[n] = 0

    def bury(s, n: int) -> None:
        """Publish the tombstone, which keeps everything else, and flag the row."""
        s.ended, s.row[n] = s.manifest.life, s.manifest.life
        for a in range(s.appends):
            s.acked[a] = False
        s.swap(n, tomb=True)

    def let_go(s, n: int) -> None:
        """The node owns nothing and works on nothing; a client that waits gets an error."""
        s.at[n], s.holds[n], s.mine[n], s.born[n], s.length[n] = "idle", NONE, 0, 0, 0

    # Actions: creation and ownership.
    @action(n=among(nodes, at="idle"), answer=("done", "duplicated"))
    def create(s, n: int, answer: str) -> None:
        """Create-only. Duplicated: a layer below sent it twice, and the copy may land at any time."""
        s.require(~s.manifest.is_there, ~s.is_locked(n), s.row[n] == 0)
        s.trouble.spend(answer == "duplicated")
        s.begin_life(n)
        if answer == "duplicated":
            s.late_create.put(epoch=s.manifest.epoch, life=s.life)

    @action
    def late_create_lands(s) -> None:
        s.require(s.late_create.is_there, ~s.manifest.is_there)
        s.swap(NONE, life=s.late_create.life, epoch=s.late_create.epoch, tomb=False, length=0, last=NONE)
        s.late_create.delete()

    @action
    def late_requests_are_lost(s) -> None:
        s.require(s.late_create.is_there | s.late_upload.is_there)
        s.late_create.delete()
        s.late_upload.delete()

    @action(n=among(nodes, at="idle"))
    def own(s, n: int) -> None:
        """Take the next epoch: from now on the owner before is fenced."""
        s.require(s.is_live() & (s.age < 2), s.newest < s.epochs, ~s.is_locked(n), ~s.is_mine(n))
        s.newest += 1
        s.swap(n, epoch=s.newest)
        s.mine[n], s.born[n], s.length[n] = s.newest, s.manifest.life, s.manifest.length

    # Actions: an append at its owner.
    @action(n=among(nodes, at="idle"), a=appends)
    def accept(s, n: int, a: int) -> None:
        """By the owner's own view: it may be fenced and not know."""
        s.require(s.mine[n] > 0, s.length[n] < s.appends, ~s.is_locked(n))
        s.guard("producer-fence", ~s.is_mine(n) | (s.manifest.last < a))
        s.guard("uploader-filter", s.row[n] == 0)
        s.at[n], s.holds[n] = "upload", a

    @action(n=among(nodes, at="idle"), a=appends)
    def answer_duplicate(s, n: int, a: int) -> None:
        """The client sent again what the stream has."""
        s.require(s.current[n] & s.is_mine(n), s.manifest.last == a, ~s.acked[a])
        s.acked[a] = True

    @action(n=among(nodes, at="upload"), answer=("done", "exists", "late"))
    def upload(s, n: int, answer: str) -> None:
        """Create-only, again until it is answered. What stands at the key is taken for one's own."""
        s.guard("uploader-filter", s.row[n] == 0)
        s.trouble.spend(answer == "late")
        key = s.data[s.mine[n] - 1][s.length[n]]
        s.require(key.is_there if answer == "exists" else ~key.is_there)
        if answer == "done":
            key.put(content=s.holds[n], life=s.born[n])
        elif answer == "late":
            s.late_upload.put(epoch=s.mine[n], place=s.length[n], content=s.holds[n], life=s.born[n])
        s.at[n] = "upload" if answer == "late" and s.is_on("segment-before-manifest") else "move"

    @action
    def late_upload_lands(s) -> None:
        s.require(s.late_upload.is_there)
        key = s.data[s.late_upload.epoch - 1][s.late_upload.place]
        s.require(~key.is_there)
        key.put(content=s.late_upload.content, life=s.late_upload.life)
        s.late_upload.delete()

    @action(n=among(nodes, at="move"), answer=("done", "reply_lost"))
    def move(s, n: int, answer: str) -> None:
        """List the segment. A node that has flagged the stream knows the ETag of its own tombstone."""
        s.require(s.may_swap(n))
        s.guard("uploader-filter", s.row[n] == 0)
        s.trouble.spend(answer)
        place = s.length[n]
        s.swap(n, life=s.born[n], epoch=s.mine[n], tomb=False, length=place + 1, last=s.holds[n])
        s.listed[place], s.age = s.mine[n], 0
        s.length[n], s.at[n] = place + 1, "moved" if answer == "done" else "unsure"
        if answer == "reply_lost":
            s.current[n] = False

    @action(n=among(nodes, at=UNDER_WAY))
    def look(s, n: int) -> None:
        """Read the manifest after a refusal or a lost reply: still the owner, or fenced."""
        s.require(~s.current[n] | (s.row[n] > 0))
        mine = s.is_mine(n) & (s.row[n] == 0)
        s.current[n] = s.current[n] | mine
        s.at[n] = case((~mine, "idle"), (s.at[n] == "unsure", "moved"), otherwise=s.at[n])
        s.holds[n] = pick(mine, s.holds[n], NONE)
        s.length[n], s.born[n] = pick(mine, s.length[n], 0), pick(mine, s.born[n], 0)
        s.mine[n] = pick(mine, s.mine[n], 0)

    @action(n=among(nodes, at="moved"))
    def acknowledge_append(s, n: int) -> None:
        # The answer may come after the deletion, when it promises nothing any more.
        s.acked[s.holds[n]] = s.acked[s.holds[n]] | (s.is_live() & (s.born[n] == s.manifest.life))
        s.at[n], s.holds[n] = "idle", NONE

    # Actions: expiry and deletion.
    @action
    def time_passes(s) -> None:
        s.require(s.is_live() & (s.age < 2))
        s.age += 1

    @action(n=among(nodes, at="idle"))
    def refresh(s, n: int) -> None:
        """A read moves `expires_at`, at a node by whose clock it has not passed."""
        s.require(s.is_live() & (s.age == 1), ~s.is_locked(n))
        s.age = 0
        s.swap(n)
        s.mine[n] = pick(s.is_mine(n), s.mine[n], 0)
        s.born[n], s.length[n] = pick(s.is_mine(n), s.born[n], 0), pick(s.is_mine(n), s.length[n], 0)

    @action(n=nodes, answer=("done", "crash"))
    def delete(s, n: int, answer: str) -> None:
        """Flag the row, publish the tombstone. The crash is between the two, and the disk is kept."""
        s.require(s.is_live() & (s.age < 2), ~s.is_locked(n), s.row[n] == 0)
        s.trouble.spend(answer == "crash")
        if answer == "done":
            s.bury(n)
        else:
            s.row[n], s.current[n] = s.manifest.life, False
            s.let_go(n)

    @action(n=nodes)
    def expire(s, n: int) -> None:
        s.require(s.is_live() & (s.age >= s.ripe()), ~s.is_locked(n), s.row[n] == 0)
        s.require(s.is_on("scan") or s.mine[n] > 0)
        s.hasty = s.hasty | (s.age < 2)
        if s.is_on("terminal-before-data"):
            s.bury(n)
        else:
            s.row[n] = s.manifest.life

    # Actions: a reap.
    @action(n=nodes)
    def begin_reap(s, n: int) -> None:
        """The tombstone stands, or is published again. A later incarnation, or none: see the other two."""
        s.require(s.row[n] > 0, s.reap[n] == "none", s.manifest.is_there & (s.manifest.life == s.row[n]))
        if s.is_on("terminal-before-data"):
            s.bury(n)
        s.current[n], s.reap[n], s.doomed[n] = True, "data", s.manifest.epoch
        if not s.is_on("row-until-empty"):
            s.careless = s.careless | s.has_data(s.doomed[n])
            s.row[n] = 0

    @action(n=nodes)
    def resume_reap(s, n: int) -> None:
        """The manifest is gone, or is a later incarnation's: what is left of this one is garbage."""
        s.require(s.row[n] > 0, s.reap[n] == "none", ~(s.manifest.is_there & (s.manifest.life == s.row[n])))
        s.row[n] = pick(s.manifest.is_there, 0, s.row[n])
        s.reap[n] = pick(s.manifest.is_there, "none", "verify")
        s.doomed[n] = pick(s.manifest.is_there, 0, s.newest)

    @action(n=nodes, e=epochs, o=appends)
    def delete_data(s, n: int, e: int, o: int) -> None:
        s.require(s.reap[n] != "none", s.data[e][o].is_there, s.reach(n) > e)
        s.data[e][o].delete()

    @action(n=among(nodes, reap="data"))
    def delete_manifest(s, n: int) -> None:
        s.guard("data-before-manifest", ~s.has_data(s.doomed[n]))
        s.require(s.may_delete(n))
        if s.swaps:
            s.assume("bounded-landing", ~s.late_create.is_there)
        s.careless = s.careless | s.has_data(s.doomed[n])
        s.manifest.delete()
        s.reap[n] = "verify"
        s.current[n] = False
        for o in range(s.appends):
            s.listed[o] = 0
        for m in range(s.nodes):
            s.current[m] = False

    @action(n=among(nodes, reap="data"))
    def stop_reap(s, n: int) -> None:
        """Another node has reaped, or created the next incarnation. The row stays."""
        s.require(~s.current[n])
        s.reap[n], s.doomed[n] = "none", 0

    @action(n=among(nodes, reap="verify"))
    def finish_reap(s, n: int) -> None:
        """Drop the cache, the local files and the row."""
        s.guard("verify-empty", ~s.has_data(s.doomed[n]))
        s.careless = s.careless | s.has_data(s.doomed[n])
        s.reap[n], s.doomed[n], s.row[n] = "none", 0, 0

    @action(n=among(nodes, at="idle", reap="data"))
    def recreate(s, n: int) -> None:
        """After an inline reap of the data: replace the tombstone by the next incarnation's manifest."""
        s.require(s.swaps > 0, s.current[n] & s.is_dead(), ~s.has_data(s.doomed[n]))
        s.begin_life(n)
        s.reap[n], s.doomed[n] = "none", 0

    @without("recreate-lock", replaces=recreate)
    def recreate_beside(s, n: int) -> None:
        """A reap by the same node goes on."""
        s.require(s.swaps > 0, s.current[n] & s.is_dead(), ~s.has_data(s.doomed[n]))
        s.begin_life(n)

    # Actions: crashes, restoring, the scan.
    @action(n=nodes, disk=("kept", "lost"))
    def crash(s, n: int, disk: str) -> None:
        s.trouble.spend()
        s.let_go(n)
        s.current[n], s.reap[n], s.doomed[n] = False, "none", 0
        if disk == "lost":
            s.row[n] = 0

    @action(n=among(nodes, row=0, reap="none"))
    def restore(s, n: int) -> None:
        """At boot and by the scan: a doomed manifest becomes a flagged row."""
        s.require(s.is_on("scan"), s.is_dead())
        s.row[n] = s.manifest.life
        if not s.is_on("tombstone-short-circuit"):
            s.bricked = s.bricked | ~s.is_whole()

    @action(e=epochs, o=appends)
    def collect(s, e: int, o: int) -> None:
        """By the scan: the manifest, read after the listing, can never list this data."""
        s.require(s.is_on("scan"), s.orphans > 0, s.data[e][o].is_there)
        fenced = (s.manifest.epoch > e + 1) & (s.listed[o] != e + 1)
        s.require(~s.manifest.is_there | (s.is_live() & fenced))
        s.data[e][o].delete()

    # Actions: a reader, which may turn to any node at any time.
    @action
    def read(s) -> None:
        """The next bytes. What it had before is what the stream shows, as long as bytes never change."""
        s.require(s.reading > 0, s.is_live(), s.reads == s.manifest.life, s.position < s.manifest.length)
        s.position += 1
        s.tail = NONE

    @action
    def start_over(s) -> None:
        """The offset is of another incarnation, or the reader has none yet."""
        s.require(s.reading > 0, s.is_live(), s.reads != s.manifest.life)
        s.reads, s.tail = s.manifest.life, NONE
        s.skipped = s.skipped | ((s.position > 0) & (s.tagged == 0))
        s.position = 0

    @action(n=among(nodes, at=UNDER_WAY))
    def read_tail(s, n: int) -> None:
        """Rejected: the owner serves what it holds before the manifest lists it."""
        s.require(s.reading > 0, s.tail_reads > 0, s.reads == s.born[n], s.position == s.length[n])
        s.tail = s.holds[n]
        s.position += 1

    # Properties: never bad.
    is_at = define(lambda s, a, o: s.is_live() & s.is_listed(o) & (s.segment(o, "content") == a))
    goes_on = define(
        lambda s, after: s.is_live() & after.is_live() & (s.manifest.life == after.manifest.life)
    )
    append_once = invariant("An acknowledged append is in the stream, and no append is twice.", a=appends)(
        lambda s, a: (
            implies(s.is_live() & s.acked[a], any_of(s.is_at(a, o) for o in range(s.appends)))
            & (count_of([s.is_at(a, o) for o in range(s.appends)]) <= 1)
        )
    )
    immutable_by_position = step("Bytes at an offset never change.", o=appends)(
        lambda before, after, o: implies(
            before.goes_on(after) & before.is_listed(o),
            after.is_listed(o) & (before.segment(o, "content") == after.segment(o, "content")),
        )
    )

    @step(o=appends)
    def zombie_fenced(before, after: "Streams", o: int) -> Truth:
        """What becomes visible is of the present owner and later than all that its producer has done."""
        new = before.goes_on(after) & ~before.is_listed(o) & after.is_listed(o)
        later = after.manifest.last > before.manifest.last
        return implies(new, later & (after.manifest.epoch == before.manifest.epoch))

    manifest_last = invariant(
        "Under a live manifest no data is missing, and when a manifest or a row went, no data was left."
    )(lambda s: implies(s.is_live() & (s.age < 2), s.is_whole()) & ~s.careless)
    no_resurrection = invariant("What got a tombstone is never readable again.")(
        lambda s: implies(s.is_live(), s.manifest.life > s.ended)
    )
    boot_never_bricks = invariant("Every reachable state of the store can be restored from.")(
        lambda s: ~s.bricked
    )
    eventually_empty = always_recoverable(
        "Whichever node died and whichever disk was lost, a stream can still be deleted without a trace."
    )(lambda s: ~s.manifest.is_there & ~s.has_data(s.epochs) & s.row.all(0))
    recreate_clean = invariant("A new incarnation shows no byte of an old one.", o=appends)(
        lambda s, o: implies(
            s.is_live() & s.is_listed(o) & (s.segment(o, "life") > 0), s.segment(o, "life") == s.manifest.life
        )
    )
    live_untouched = step("Nothing of a live stream is deleted but what its owner deletes, or every clock.")(
        lambda before, after: (
            implies(before.is_live() & (before.age < 2), after.manifest.is_there)
            & implies(before.goes_on(after) & before.is_whole(), after.is_whole())
            & ~after.hasty
        )
    )

    @invariant(o=appends)
    def cursor_honest(s, o: int) -> Truth:
        """A reader that follows offsets has every byte once and in order."""
        if not s.tail_reads:
            return ~s.skipped
        has_tail = (s.reads == s.manifest.life) & (s.position == o + 1) & (s.tail >= 0)
        shown = s.is_live() & s.is_listed(o) & has_tail
        return ~s.skipped & implies(shown, s.tail == s.segment(o, "content"))

    # Properties: sometimes good.
    recreated = reachable("A name can be reaped and created again, and take an append that is acknowledged.")(
        lambda s: s.acked.any(True) & s.is_live() & (s.manifest.life == 2) if s.lives > 1 else s.is_live()
    )
    fenced = reachable("An owner can be fenced while it works on an append.", n=nodes)(
        lambda s, n: (s.at[n] == "move") & s.is_live() & (s.manifest.epoch > s.mine[n])
    )
    left_behind = reachable("Data can stand under no manifest, until the scan finds it.")(
        lambda s: ~s.manifest.is_there & s.has_data(s.epochs)
    )
    done = may_end(lambda s: ~s.manifest.is_there)

    # Refinement: what the store shows of each action. Observed lives and owners are numbered from 0.
    def owner(s, observed: StreamsObserved, epoch: Number | int, life: Number) -> Number:
        """The number of an epoch's owner within its incarnation: the earlier ones had the epochs before."""
        before = [pick(life > earlier + 1, observed.granted[earlier], 0) for earlier in range(s.lives)]
        return epoch - 1 - total(before)

    def shown_upload(s, observed: StreamsObserved, n: int, answer: str) -> object:
        if answer != "done":
            return ()
        owner = s.owner(observed, s.mine[n], s.born[n])
        return does("uploaded", life=s.born[n] - 1, owner=owner, place=s.length[n])

    def shown_late_upload(s, observed: StreamsObserved) -> object:
        late = s.late_upload
        owner = s.owner(observed, late.epoch, late.life)
        return does("uploaded", life=late.life - 1, owner=owner, place=late.place)

    def shown_deletion(s, observed: StreamsObserved, e: int, o: int) -> object:
        life = s.data[e][o].life
        return does("data_deleted", life=life - 1, owner=s.owner(observed, e + 1, life), place=o)

    def shown_tombstone(before, after: "Streams", observed: StreamsObserved) -> object:
        life, epoch = before.manifest.life, before.manifest.epoch
        owner = before.owner(observed, epoch, life)
        return does("buried", life=life - 1, owner=owner, when=before.is_live() & after.is_dead())

    def shown_refresh(s, observed: StreamsObserved) -> object:
        life, epoch = s.manifest.life, s.manifest.epoch
        return does("refreshed", life=life - 1, owner=s.owner(observed, epoch, life))

    def shown_move(s, observed: StreamsObserved, n: int) -> object:
        owner = s.owner(observed, s.mine[n], s.born[n])
        return does("listed_segment", life=s.born[n] - 1, owner=owner, place=s.length[n])

    @refines(
        StreamsObserved,
        {
            "create": lambda before, after: does("created", life=after.life - 1),
            "late_create_lands": lambda s: does("created", life=s.late_create.life - 1),
            "recreate": lambda before, after: does("swapped", life=after.life - 1),
            "own": lambda s: does("owned", life=s.manifest.life - 1),
            "refresh": shown_refresh,
            "upload": shown_upload,
            "late_upload_lands": shown_late_upload,
            "move": shown_move,
            "delete": shown_tombstone,
            "expire": shown_tombstone,
            "begin_reap": shown_tombstone,
            "delete_data": shown_deletion,
            "collect": shown_deletion,
            "delete_manifest": "manifest_deleted",
        },
        lives=lives,
        owners=epochs,
        places=appends,
    )
    def observed(s, observed: StreamsObserved) -> dict[str, object]:
        """Every write of the store is one that the specification allows."""
        shown, life = observed.manifest, s.manifest.life
        owner = s.owner(observed, s.manifest.epoch, life)
        is_alike = (
            (shown.life == life - 1)
            & (shown.owner == owner)
            & (shown.tomb == s.manifest.tomb)
            & (shown.count == s.manifest.length)
            & (shown.last == s.manifest.length - 1)
        )
        return {
            "manifest": related(
                (shown.is_there == s.manifest.is_there) & implies(s.manifest.is_there, is_alike)
            ),
            "listed": related(
                all_of(
                    implies(s.is_listed(o), observed.listed[o] == s.owner(observed, s.listed[o], life))
                    for o in range(s.appends)
                )
            ),
            "data": related(all_of(s.is_shown(observed, e, o) for e in range(s.epochs) for o in range(s.appends))),
            "granted": HISTORY,
        }

    def is_shown(s, observed: StreamsObserved, e: int, o: int) -> Truth:
        """The segment of this epoch at this offset is one of its incarnation and owner."""
        key = s.data[e][o]
        owner = s.owner(observed, e + 1, key.life)
        shown = [
            (key.life == life + 1) & (owner == number) & observed.data[life][number].has(o)
            for life in range(s.lives)
            for number in range(s.epochs)
        ]
        return implies(key.is_there, any_of(shown))
