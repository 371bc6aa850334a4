"""Streams: one stream name on an object store, served by several nodes, deleted, reaped and created again.

The protocol of docs/decisions/0020-streams.md under durability `store`, for one name; names share nothing.
A manifest moves by if-match. Its `life` numbers the incarnations of the name, its `epoch` the owners: every
owner takes a new epoch, and a segment's key is its epoch and its first offset. One append is one segment:
`data[e - 1][o]` is the segment of epoch e at offset o, and the manifest lists an epoch for each offset.

    the manifest   none -- create --> live -- delete, expire --> tombstone -- delete_manifest --> none
                                      ^                              |
                                      `---------- recreate ----------'

    an append      idle -- accept --> upload -- upload --> move -- move --> moved -- acknowledge_append -->
    at its owner                                               `-- reply lost --> unsure -- look --> moved

    a reap         none -- begin_reap --> data -- delete_manifest --> verify -- finish_reap --> none
    at a node      none -- resume_reap, without a manifest --> verify

A node is `current` while the ETag that it has read is the manifest's. Reading the manifest and swapping
it without work in between is one step: a swap that succeeds proves that nothing happened meanwhile. A swap
that lands late is one that landed at once and whose reply was lost, because until the manifest changes again
only readers can tell, and reading earlier is a shorter read. Creates and uploads may land late.

The designs that were rejected are machines of their own, docs/decisions/rejected_streams.py.
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
    reading = Size(0, least=0, most=1, doc="number of readers")

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
        "segment-before-manifest": "the segment exists before the manifest lists it",
    }
    assumptions = {
        "bounded-landing": "a create lands before its stream's tombstone is old enough to go, or never",
    }

    # State: the store.

    manifest = Key(
        life=Int(0, lives),
        epoch=Int(0, epochs),
        tomb=Bool(),
        length=Int(0, appends),
        last=Id(appends, nobody=True),  # the producer's last append
    )
    listed = Each(appends, Int(0, epochs))  # by offset the epoch of the segment
    data = Each(epochs, Each(appends, Key(content=Id(appends), life=Int(0, lives))))
    age = Int(0, 2)  # 0 before `expires_at`, 1 after it by the fastest clock alone, 2 after it by all clocks
    late_create = Key(epoch=Int(0, epochs), life=Int(0, lives))
    late_upload = Key(epoch=Int(0, epochs), place=Id(appends), content=Id(appends), life=Int(0, lives))
    trouble = Budget(troubles)

    # State: a node. It owns the stream, or reaps it, or both in turn.

    node = Role(
        nodes,
        current=Bool(),  # its ETag is the manifest's
        epoch=Int(0, epochs),  # the epoch that it owns; 0 for none
        life=Int(0, lives),  # the incarnation of that epoch
        length=Int(0, appends),  # listed segments, when it last read or wrote the manifest
        at=Enum("idle", *UNDER_WAY, "moved"),
        append=Id(appends, nobody=True),  # the append under way
        row=Int(0, lives),  # on its disk: the incarnation to be reaped; 0 for none
        reap=Enum("none", "data", "verify"),
        doomed=Int(0, epochs),  # the reap deletes data up to this epoch
    )

    # State: a reader, which may turn to any node at any time.

    reads = Int(0, lives)  # the incarnation that its offset names; 0 before its first read
    position = Int(0, appends)

    # Ghosts, for properties.

    newest = Int(0, epochs)  # the latest epoch so far
    life = Int(0, lives)  # the latest incarnation so far
    ended = Int(0, lives)  # the latest incarnation that got a tombstone
    acked = Each(appends, Bool())  # acknowledged in the present incarnation
    bricked = Bool()  # a node could not restore the stream
    hasty = Bool()  # a stream was reaped as expired that some clock takes for live
    careless = Bool()  # a manifest or a row went before the data

    # Definitions: the manifest and its data.

    is_live = define(lambda s: s.manifest.is_there & ~s.manifest.tomb)
    is_dead = define(lambda s: s.manifest.is_there & s.manifest.tomb)
    is_listed = define(lambda s, o: s.manifest.length > o)

    def segment(s, e: int, o: int) -> Truth:
        """The segment of epoch e + 1 exists at offset o, and the manifest lists it."""
        return s.is_listed(o) & (s.listed[o] == e + 1) & s.data[e][o].is_there

    def shows(s, o: int, a: int) -> Truth:
        """A reader finds append a at offset o."""
        return any_of(s.segment(e, o) & (s.data[e][o].content == a) for e in range(s.epochs))

    def is_missing(s, o: int) -> Truth:
        """The manifest lists a segment at offset o that does not exist."""
        return s.is_listed(o) & ~any_of(s.segment(e, o) for e in range(s.epochs))

    def is_whole(s) -> Truth:
        return ~any_of(s.is_missing(o) for o in range(s.appends))

    def has_data(s, up_to: Number | int) -> Truth:
        """A listing shows data of these epochs."""
        return any_of(key.is_there & (up_to > e) for e, line in enumerate(s.data) for key in line)

    def swap(s, n: int, **changes: object) -> None:
        """Node n writes the manifest with these parts changed, which makes the ETags of all others old."""
        parts = {part: getattr(s.manifest, part) for part in ("life", "epoch", "tomb", "length", "last")}
        s.manifest.put(**{**parts, **changes})
        for m in range(s.nodes):
            s.node[m].current = m == n

    def clear_list(s) -> None:
        for o in range(s.appends):
            s.listed[o] = 0

    # Definitions: a node.

    is_mine = define(lambda s, n: s.is_live() & (s.manifest.epoch == s.node[n].epoch))

    def is_locked(s, n: int) -> Truth:
        """A reap at this node excludes its other work on the stream."""
        return s.node[n].reap != "none"

    never_locked = without("recreate-lock", replaces=is_locked)(lambda s, n: False)

    def may_swap(s, n: int) -> Truth:
        """The store accepts the node's if-match."""
        return s.node[n].current

    swaps_blindly = without("owner-fence", replaces=may_swap)(lambda s, n: True)

    def may_upload(s, n: int) -> Truth:
        """The node has not flagged the stream."""
        return s.node[n].row == 0

    uploads_always = without("uploader-filter", replaces=may_upload)(lambda s, n: True)

    def scans(s) -> Truth:
        """A scan lists the prefix now and then."""
        return Truth.constant(True)

    never_scans = without("scan", replaces=scans)(lambda s: False)

    def begin_life(s, n: int) -> None:
        """Node n writes the first manifest of the next incarnation, and owns it."""
        me = s.node[n]
        s.require(s.life < s.lives, s.newest < s.epochs)
        s.newest += 1
        s.life += 1
        s.age = 0
        epoch = s.first_epoch()
        s.swap(n, life=s.life, epoch=epoch, tomb=False, length=0, last=NONE)
        s.clear_list()
        me.epoch = epoch
        me.life = s.life
        me.length = 0
        me.row = 0

    def first_epoch(s) -> Number:
        """The epoch with which an incarnation begins, once `newest` has moved."""
        return s.newest

    reused_epoch = without("fresh-epoch", replaces=first_epoch)(lambda s: 1)

    def bury(s, n: int) -> None:
        """Flag the row, and publish the tombstone, which keeps everything else."""
        s.node[n].row = s.manifest.life
        s.ended = s.manifest.life
        for a in range(s.appends):
            s.acked[a] = False
        s.swap(n, tomb=True)

    def condemn(s, n: int) -> None:
        """Before any data goes, the manifest becomes a tombstone."""
        s.bury(n)

    @without("terminal-before-data", replaces=condemn)
    def flag(s, n: int) -> None:
        s.node[n].row = s.manifest.life

    def let_go(s, n: int) -> None:
        """The node owns nothing and works on nothing; a client that waits gets an error."""
        me = s.node[n]
        me.epoch = 0
        me.life = 0
        me.length = 0
        me.at = "idle"
        me.append = NONE

    def end_reap(s, n: int) -> None:
        me = s.node[n]
        me.reap = "none"
        me.doomed = 0

    # Actions: creation and ownership.

    @action(n=among(node, at="idle"), answer=("done", "duplicated"))
    def create(s, n: int, answer: str) -> None:
        """Create-only. Duplicated: a layer below sent it twice, and the copy may land at any time."""
        s.require(~s.manifest.is_there, ~s.is_locked(n), s.node[n].row == 0)
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

    @action(n=among(node, at="idle"))
    def own(s, n: int) -> None:
        """Take the next epoch: from now on the owner before is fenced."""
        me = s.node[n]
        s.require(s.is_live() & (s.age < 2), s.newest < s.epochs, ~s.is_locked(n), ~s.is_mine(n))
        s.newest += 1
        s.swap(n, epoch=s.newest)
        me.epoch = s.newest
        me.life = s.manifest.life
        me.length = s.manifest.length

    # Actions: an append at its owner.

    @action(n=among(node, at="idle"), a=appends)
    def accept(s, n: int, a: int) -> None:
        """By the owner's own view: it may be fenced without knowing."""
        me = s.node[n]
        s.require(me.epoch > 0, me.length < s.appends, ~s.is_locked(n))
        s.require(s.is_later(n, a), s.may_upload(n))
        me.at = "upload"
        me.append = a

    def is_later(s, n: int, a: int) -> Truth:
        """The producer has done nothing later, unless the node is fenced and does not know it."""
        return ~s.is_mine(n) | (s.manifest.last < a)

    accepts_anything = without("producer-fence", replaces=is_later)(lambda s, n, a: True)

    @action(n=among(node, at="idle"), a=appends)
    def answer_duplicate(s, n: int, a: int) -> None:
        """The client sent again what the stream has."""
        s.require(s.node[n].current & s.is_mine(n), s.manifest.last == a, ~s.acked[a])
        s.acked[a] = True

    @action(n=among(node, at="upload"), answer=("done", "exists", "late"))
    def upload(s, n: int, answer: str) -> None:
        """Create-only, again until it is answered. A segment that exists is taken for the node's own."""
        me = s.node[n]
        s.require(s.may_upload(n))
        s.trouble.spend(answer == "late")
        key = s.data[me.epoch - 1][me.length]
        if answer == "exists":
            s.require(key.is_there)
            me.at = "move"
        elif answer == "done":
            s.require(~key.is_there)
            key.put(content=me.append, life=me.life)
            me.at = "move"
        else:
            s.require(~key.is_there)
            s.late_upload.put(epoch=me.epoch, place=me.length, content=me.append, life=me.life)
            me.at = s.after_late_upload()

    def after_late_upload(s) -> str:
        """Without an answer the node uploads again."""
        return "upload"

    lists_unanswered = without("segment-before-manifest", replaces=after_late_upload)(lambda s: "move")

    @action
    def late_upload_lands(s) -> None:
        s.require(s.late_upload.is_there)
        key = s.data[s.late_upload.epoch - 1][s.late_upload.place]
        s.require(~key.is_there)
        key.put(content=s.late_upload.content, life=s.late_upload.life)
        s.late_upload.delete()

    @action(n=among(node, at="move"), answer=("done", "reply_lost"))
    def move(s, n: int, answer: str) -> None:
        """List the segment by if-match.

        A node that has flagged the stream knows the ETag of its own tombstone: hence the uploader filter.
        """
        me = s.node[n]
        s.require(s.may_swap(n))
        s.require(s.may_upload(n))
        s.trouble.spend(answer)
        place = me.length
        s.swap(n, life=me.life, epoch=me.epoch, tomb=False, length=place + 1, last=me.append)
        s.listed[place] = me.epoch
        s.age = 0
        me.length = place + 1
        if answer == "done":
            me.at = "moved"
        else:
            me.at = "unsure"
            me.current = False

    @action(n=among(node, at=UNDER_WAY))
    def look(s, n: int) -> None:
        """Read the manifest after a refusal or a lost reply: still the owner, or fenced."""
        me = s.node[n]
        s.require(~me.current | (me.row > 0))
        if s.is_mine(n) and me.row == 0:
            me.current = True
            if me.at == "unsure":
                me.at = "moved"
        else:
            s.let_go(n)

    @action(n=among(node, at="moved"))
    def acknowledge_append(s, n: int) -> None:
        """The answer may come after the deletion, when it promises nothing any more."""
        me = s.node[n]
        s.acked[me.append] |= s.is_live() & (me.life == s.manifest.life)
        me.at = "idle"
        me.append = NONE

    # Actions: expiry and deletion.

    @action
    def time_passes(s) -> None:
        s.require(s.is_live() & (s.age < 2))
        s.age += 1

    @action(n=among(node, at="idle"))
    def refresh(s, n: int) -> None:
        """A read moves `expires_at`, if by the node's clock it has not passed. A fenced owner finds out."""
        s.require(s.is_live() & (s.age == 1), ~s.is_locked(n))
        s.age = 0
        s.swap(n)
        if not s.is_mine(n):
            s.let_go(n)

    @action(n=node, answer=("done", "crash"))
    def delete(s, n: int, answer: str) -> None:
        """Flag the row, publish the tombstone. The crash is between the two, and the disk is kept."""
        me = s.node[n]
        s.require(s.is_live() & (s.age < 2), ~s.is_locked(n), me.row == 0)
        s.trouble.spend(answer == "crash")
        if answer == "done":
            s.bury(n)
        else:
            me.row = s.manifest.life
            me.current = False
            s.let_go(n)

    @action(n=node)
    def expire(s, n: int) -> None:
        """A node that scans, or owns the stream, takes it for expired, and publishes the tombstone."""
        s.require(s.is_live() & s.is_ripe(), ~s.is_locked(n), s.node[n].row == 0)
        s.require(s.scans() | (s.node[n].epoch > 0))
        s.hasty |= s.age < 2
        s.condemn(n)

    def is_ripe(s) -> Truth:
        """It is expired by every clock."""
        return s.age >= 2

    ripe_by_one_clock = without("expiry-skew-margin", replaces=is_ripe)(lambda s: s.age >= 1)

    # Actions: a reap.

    @action(n=node)
    def begin_reap(s, n: int) -> None:
        """The row's incarnation has the manifest: the tombstone exists, or is published again."""
        me = s.node[n]
        s.require(me.row > 0, me.reap == "none")
        s.require(s.manifest.is_there & (s.manifest.life == me.row))
        s.condemn(n)
        me.current = True
        me.reap = "data"
        me.doomed = s.manifest.epoch
        s.keep_row(n)

    def keep_row(s, n: int) -> None:
        """The row stays until the prefix is empty: it resumes a reap that a crash ended."""

    @without("row-until-empty", replaces=keep_row)
    def drop_row(s, n: int) -> None:
        s.careless |= s.has_data(s.node[n].doomed)
        s.node[n].row = 0

    @action(n=node)
    def resume_reap(s, n: int) -> None:
        """The manifest is of a later incarnation: all is done. Or it is gone: the rest of the data goes."""
        me = s.node[n]
        s.require(me.row > 0, me.reap == "none")
        s.require(~s.manifest.is_there | (s.manifest.life != me.row))
        if s.manifest.is_there:
            me.row = 0
        else:
            me.reap = "verify"
            me.doomed = s.newest

    @action(n=node, e=epochs, o=appends)
    def delete_data(s, n: int, e: int, o: int) -> None:
        me = s.node[n]
        s.require(me.reap != "none", s.data[e][o].is_there)
        s.require(s.is_doomed(n, e))
        s.data[e][o].delete()

    def is_doomed(s, n: int, e: int) -> Truth:
        """The data is of an epoch up to the tombstone's."""
        return s.node[n].doomed > e

    dooms_everything = without("two-node-reap", replaces=is_doomed)(lambda s, n, e: True)

    @action(n=among(node, reap="data"))
    def delete_manifest(s, n: int) -> None:
        """By if-match on the tombstone that this reap read or wrote."""
        s.require(s.is_emptied(n), s.may_delete(n), s.has_landed())
        s.remove_manifest(n)

    def is_emptied(s, n: int) -> Truth:
        """The manifest goes last: a listing shows no data."""
        return ~s.has_data(s.node[n].doomed)

    never_lists = without("data-before-manifest", replaces=is_emptied)(lambda s, n: True)

    def may_delete(s, n: int) -> Truth:
        """The store accepts the if-match on the tombstone."""
        return s.node[n].current

    deletes_any = without("two-node-reap", replaces=may_delete)(lambda s, n: s.manifest.is_there)

    def has_landed(s) -> Truth:
        """The tombstone is old enough: no copy of a create is on its way."""
        return ~s.late_create.is_there

    lands_any_time = without("bounded-landing", replaces=has_landed)(lambda s: True)

    def remove_manifest(s, n: int) -> None:
        me = s.node[n]
        s.careless |= s.has_data(me.doomed)
        s.manifest.delete()
        s.clear_list()
        for m in range(s.nodes):
            s.node[m].current = False
        me.reap = "verify"

    @action(n=among(node, reap="data"))
    def stop_reap(s, n: int) -> None:
        """Another node has reaped, or created the next incarnation. The row stays."""
        s.require(~s.node[n].current)
        s.end_reap(n)

    @action(n=among(node, reap="verify"))
    def finish_reap(s, n: int) -> None:
        """Drop the cache, the local files and the row."""
        me = s.node[n]
        s.require(s.is_verified(n))
        s.careless |= s.has_data(me.doomed)
        s.end_reap(n)
        me.row = 0

    def is_verified(s, n: int) -> Truth:
        """A last listing shows nothing: no upload has landed late."""
        return ~s.has_data(s.node[n].doomed)

    never_verifies = without("verify-empty", replaces=is_verified)(lambda s, n: True)

    @action(n=among(node, at="idle", reap="data"))
    def recreate(s, n: int) -> None:
        """After an inline reap of the data: replace the tombstone by the next incarnation's manifest."""
        me = s.node[n]
        s.require(me.current & s.is_dead(), ~s.has_data(me.doomed))
        s.begin_life(n)
        s.end_inline_reap(n)

    def end_inline_reap(s, n: int) -> None:
        s.end_reap(n)

    @without("recreate-lock", replaces=end_inline_reap)
    def leave_other_reap(s, n: int) -> None:
        """The reap is another one, of the same node, and goes on."""

    # Actions: crashes, restoring, the scan.

    @action(n=node, disk=("kept", "lost"))
    def crash(s, n: int, disk: str) -> None:
        me = s.node[n]
        s.trouble.spend()
        s.let_go(n)
        s.end_reap(n)
        me.current = False
        if disk == "lost":
            me.row = 0

    @action(n=among(node, row=0, reap="none"))
    def restore(s, n: int) -> None:
        """At boot and by the scan: a doomed manifest becomes a flagged row."""
        s.require(s.scans(), s.is_dead())
        s.node[n].row = s.manifest.life
        s.leave_segments()

    def leave_segments(s) -> None:
        """A tombstone is enough: its segments may be gone already."""

    @without("tombstone-short-circuit", replaces=leave_segments)
    def load_segments(s) -> None:
        s.bricked |= ~s.is_whole()

    @action(e=epochs, o=appends)
    def collect(s, e: int, o: int) -> None:
        """By the scan: the manifest, read after the listing, can never list this data."""
        s.require(s.scans(), s.data[e][o].is_there)
        is_fenced = (s.manifest.epoch > e + 1) & (s.listed[o] != e + 1)
        s.require(~s.manifest.is_there | (s.is_live() & is_fenced))
        s.data[e][o].delete()

    # Actions: a reader.

    @action
    def read(s) -> None:
        """The next bytes. The bytes before are those of the stream, as long as bytes never change."""
        s.require(s.reading > 0, s.is_live(), s.reads == s.manifest.life, s.position < s.manifest.length)
        s.position += 1

    @action
    def start_over(s) -> None:
        """The offset is of another incarnation, or the reader has none yet."""
        s.require(s.reading > 0, s.is_live(), s.reads != s.manifest.life)
        s.reads = s.manifest.life
        s.position = 0

    # Properties: never bad.

    goes_on = define(
        lambda s, after: s.is_live() & after.is_live() & (s.manifest.life == after.manifest.life)
    )

    @invariant(a=appends)
    def append_once(s, a: int) -> Truth:
        """An acknowledged append is in the stream, and no append is twice."""
        places = [s.is_live() & s.shows(o, a) for o in range(s.appends)]
        return implies(s.is_live() & s.acked[a], any_of(places)) & (count_of(places) <= 1)

    @step(o=appends)
    def immutable_by_position(before, after: "Streams", o: int) -> Truth:
        """Bytes at an offset never change."""
        same = [before.shows(o, a) == after.shows(o, a) for a in range(before.appends)]
        return implies(before.goes_on(after) & before.is_listed(o), after.is_listed(o) & all_of(same))

    @step(o=appends)
    def zombie_fenced(before, after: "Streams", o: int) -> Truth:
        """A new segment is of the present owner, and later than all that its producer has done."""
        is_new = before.goes_on(after) & ~before.is_listed(o) & after.is_listed(o)
        is_later = after.manifest.last > before.manifest.last
        return implies(is_new, is_later & (after.manifest.epoch == before.manifest.epoch))

    manifest_last = invariant(
        "Under a live manifest no data is missing, and when a manifest or a row went, no data was left."
    )(lambda s: implies(s.is_live() & (s.age < 2), s.is_whole()) & ~s.careless)
    no_resurrection = invariant("An incarnation that got a tombstone is never readable again.")(
        lambda s: implies(s.is_live(), s.manifest.life > s.ended)
    )
    boot_never_bricks = invariant("Every reachable state of the store can be restored from.")(
        lambda s: ~s.bricked
    )
    eventually_empty = always_recoverable(
        "After any crash, even with a lost disk, a stream can still be deleted without a trace."
    )(lambda s: ~s.manifest.is_there & ~s.has_data(s.epochs) & s.node.all(row=0))

    @invariant(o=appends)
    def recreate_clean(s, o: int) -> Truth:
        """A new incarnation shows no byte of an old one."""
        return all_of(
            implies(s.is_live() & s.segment(e, o), s.data[e][o].life == s.manifest.life)
            for e in range(s.epochs)
        )

    live_untouched = step("Nothing of a live stream is deleted but what its owner deletes, or every clock.")(
        lambda before, after: (
            implies(before.is_live() & (before.age < 2), after.manifest.is_there)
            & implies(before.goes_on(after) & before.is_whole(), after.is_whole())
            & ~after.hasty
        )
    )
    cursor_honest = invariant("A reader is never beyond the bytes of the incarnation that its offset names.")(
        lambda s: ~s.is_live() | (s.reads != s.manifest.life) | (s.position <= s.manifest.length)
    )

    # Properties: sometimes good. A property holds where the size is too small for it.

    recreated = reachable("A name can be reaped and created again, and take an append that is acknowledged.")(
        lambda s: s.acked.any(True) & s.is_live() & ((s.manifest.life == 2) | (s.lives == 1))
    )
    fenced = reachable("An owner can be fenced while it works on an append.", n=nodes)(
        lambda s, n: (s.node[n].at == "move") & s.is_live() & (s.manifest.epoch > s.node[n].epoch)
    )
    left_behind = reachable("Data can be left without a manifest, until the scan finds it.")(
        lambda s: ~s.manifest.is_there & s.has_data(s.epochs)
    )
    done = may_end(lambda s: ~s.manifest.is_there)

    # Refinement: the observed step of each action. Observed lives and owners are numbered from 0.

    def owner(s, observed: StreamsObserved, epoch: Number | int, life: Number) -> Number:
        """The number of an epoch's owner within its incarnation: the earlier ones had the epochs before."""
        before = [pick(life > earlier + 1, observed.granted[earlier], 0) for earlier in range(s.lives)]
        return epoch - 1 - total(before)

    def shown_upload(s, observed: StreamsObserved, n: int, answer: str) -> object:
        me = s.node[n]
        if answer != "done":
            return ()
        owner = s.owner(observed, me.epoch, me.life)
        return does("uploaded", life=me.life - 1, owner=owner, place=me.length)

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
        me = s.node[n]
        owner = s.owner(observed, me.epoch, me.life)
        return does("listed_segment", life=me.life - 1, owner=owner, place=me.length)

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
            "data": related(
                all_of(s.is_shown(observed, e, o) for e in range(s.epochs) for o in range(s.appends))
            ),
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

    # Where the checker shows what.

    symmetric = ("nodes",)
    shown_at = {
        "producer-fence": {"appends": 2, "epochs": 2, "lives": 1, "troubles": 0},
        "scan": {"troubles": 0},
        "tombstone-short-circuit": {"troubles": 0},
        "terminal-before-data": {"troubles": 0},
    }
    fires_at = {
        "late_create_lands": "bounded-landing",
        "read": {"reading": 1},
        "start_over": {"reading": 1},
    }
    changes_at = {
        "position": {"reading": 1},
        "reads": {"reading": 1},
        "bricked": "tombstone-short-circuit",
        "hasty": "expiry-skew-margin",
        "careless": "data-before-manifest",
    }
