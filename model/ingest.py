"""Ingest: batches that any collector may accept, with nothing shared but a bucket.

The acceptance protocol of docs/decisions/0011-ingest-protocol.md for one identity, because identities share
nothing but blobs: `another_stores_it` is the effect of another identity's batch with the same bytes. The
content of a batch is its hash; two batches of one identity are two contents, and the second's sender is a
twin of the agent (a restored disk, a cloned machine). A request and its reply are one step; "The steps of the
model" in the record has the reasons why this loses nothing.

    a collector   idle -- receive --> blob -- put_blob --> manifest -- create_manifest --> stored

                  manifest -- it exists ----> compare --.  read_manifest
                  manifest -- reply lost ---> unsure ---+---------------> stored, if its own attempt wrote it
                                                        |---------------> duplicate, if the batch is the same
                                                        |---------------> conflict, if it is another one
                                                        `---------------> manifest, if there is none

                  conflict -- record_conflict --> parked
                  stored, duplicate, parked -- see_blob or put_blob_back, then answer --> idle

Time is counted in eras, each one retry horizon long. A blob's generation is the era in which it was stored:
`s.blob[h]` has those that exist, and a removed one never returns. In a *versioned* bucket a generation is a
version of the key; the store's clock gives its age, and `manifest.generation` is the manifest's era. In a
*plain* one it is a key, named after the era on the collector's clock, and `manifest.generation` is the key
that the manifest names. A plain bucket without `gc-stalled-writer-generation` has one key per blob, and a
delete takes whatever exists there by then; so it is without `gc-stalled-writer-version` in a versioned one.
"""

from fencepost.model import *
from fencepost.model.ingest_observed import ENTRIES, OLD, USABLE, YOUNG, IngestObserved
from fencepost.model.store import Budget, Key, KeyView, Late, restart

CLOCKS = {"right": 0, "behind": 1, "far-behind": 3}  # by how many eras a collector's clock is behind
SENDERS = ("owner", "stranger")
BLOB_ANSWERS = ("done", "exists", "request_lost", "reply_lost", "conflict")
MANIFEST_ANSWERS = ("done", "exists", "conflict", "reply_lost", "request_lost", "late")
REPLIES = ("stored", "unheard", "duplicate", "parked")
SHOWN_REPLIES = {"stored": "accepted", "unheard": "accepted", "duplicate": "duplicate", "parked": "parked"}
PARTS = ("blob", "manifest", "unsure", "compare", "stored", "duplicate", "conflict", "parked")
NONE = -1
SCANNING = {"collectors": 1, "contents": 1, "horizons": 2, "scanning": 1}
PLAIN = {"contents": 1, "horizons": 3, "versioned": 0, "shared": 0}


class Ingest(Machine):
    """Batches that any collector may accept, with nothing shared but a bucket."""

    # Constants.

    collectors = Size(2, most=4, doc="processes that accept batches")
    contents = Size(2, most=3, doc="different batches that come under the one identity")
    horizons = Size(1, least=0, most=16, doc="how often the retry horizon passes in one run")
    troubles = Size(1, least=0, most=4, doc="crashes, lost answers and late requests in one run")
    shared = Size(1, least=0, most=3, doc="contents that batches of other identities may have as well")
    scanning = Size(0, least=0, most=1, doc="1 if the reconciler's cursor moves, 0 if not")
    versioned = Size(1, least=0, most=1, doc="1 if the bucket keeps versions, 0 if not")

    safeguards = {
        "create-only-manifest": "an identity's manifest is written once: the create decides between rivals",
        "compare-after-412": "a collector whose create finds a manifest reads whose batch it names",
        "409-proves-nothing": "409 on the manifest is retried, and is never taken for a duplicate",
        "read-back-on-unknown": "a collector whose create has an unknown outcome reads, or creates again",
        "blob-before-manifest": "the data exists before the manifest that refers to it",
        "effects-after-create": "nothing is done with a batch before its manifest is one's own",
        "reconcile": "accepted manifests are found, and what is derived of them is repaired",
        "new-upload-on-multipart-409": "after 409 an upload in parts is begun anew",
        "gc-age": "only blobs older than the horizon (and the margin) are collected",
        "gc-audit-before-trust": "a missing reverse reference proves nothing before an audit",
        "gc-quarantine-refs": "quarantine records refer to blobs as manifests do",
        "gc-stalled-writer": "no answer before the blob is known to exist, and to have been young, when "
        "the manifest came to be; else it is stored anew",
        "gc-stalled-writer-duplicate": "no `duplicate=true` before the blob was seen after the manifest was",
        "gc-stalled-writer-generation": "in a plain bucket a blob's name says when, and is never used again",
        "gc-stalled-writer-version": "in a versioned bucket the version that was judged is deleted, no other",
        "cursor-overlap": "the reconciler looks again at what is shortly before its cursor",
        "identity-bound-to-agent": "the authenticated agent is the one that the batch names",
    }
    assumptions = {
        "single-authority": "all collectors create manifests in one and the same bucket",
        "deny-deletes": "no manifest is deleted",
        "linearizable-create": "the store never creates over a manifest, not even of two requests at once",
        "bounded-landing": "a request lands before the margin is over, or never",
        "bounded-skew": "two clocks differ by less than the margin",
    }

    # State: the bucket.

    era = Int(0, horizons)
    blob = Each(contents, Flags(horizons + 1))  # the generations that exist
    manifest = Key(content=Id(contents), generation=Int(0, horizons))
    replica = Key(content=Id(contents), generation=Int(0, horizons))  # of a bucket that should not accept
    late = Late(manifest, only=("create",))
    conflict = Each(contents, Key(generation=Int(0, horizons)))  # quarantine record of a refused content
    trouble = Budget(troubles)

    # State: the collectors. A manifest names the attempt that wrote it.

    collector = Role(
        collectors,
        at=Enum("idle", *PARTS),
        batch=Id(contents),
        known=Id(horizons + 1, nobody=True),  # the generation relied on; NONE: of an unknown age
        stranger=Bool(),  # ghost: another agent than the batch names has sent it
    )
    author = Id(collectors, nobody=True)  # whose present attempt wrote the manifest
    late_author = Id(collectors, nobody=True)  # the same of the late request

    # State: the agents, objects derived of the manifest, maintenance.

    outcome = Each(contents, Enum("nothing", "stored", "parked"))  # as the agent was answered
    derived = Each(ENTRIES, Bool())  # accepted-by-time; accepted-by-blob
    cursor = Int(0, horizons)  # listed entries of eras before it are repaired
    rolled = Int(0, 2)  # how often the batch was counted
    doomed = Key(content=Id(contents), generation=Id(horizons + 1))  # the blob to be deleted

    # Ghosts, for properties.

    first = Id(contents, nobody=True)  # the content that was accepted first
    overwritten = Bool()  # another content took its place
    forged = Bool()  # the first came from a stranger
    news = Int(0, 2)  # how often `duplicate=false` was answered
    live = Each(contents, Bool())  # some collector's live state shows the batch

    # Definitions: generations and clocks. Where names hold no generation, the store's clock decides.

    def is_named(s) -> Truth:
        """The key of a blob names its generation."""
        return Truth.constant(s.versioned == 0)

    one_name = without("gc-stalled-writer-generation", replaces=is_named)(lambda s: False)

    def margin(s) -> int:
        """For how many eras after its own a generation may be relied on; an older one may be collected."""
        return 0 if s.versioned else USABLE

    def is_current(s, generation: Number) -> Truth:
        """A collector, by its clock, may still rely on the name."""
        return ~s.is_named() | (generation >= s.era - USABLE)

    always_current = without("gc-stalled-writer", "bounded-skew", replaces=is_current)(
        lambda s, generation: True
    )

    def read_clock(s, clock: str) -> Number:
        """The era that a collector takes for the present one."""
        s.require(s.is_named() | (clock == "right"))
        s.require(s.is_near(clock), s.era >= CLOCKS[clock])
        return s.era - CLOCKS[clock]

    def is_near(s, clock: str) -> Truth:
        return Truth.constant(clock != "far-behind")

    any_clock = without("bounded-skew", replaces=is_near)(lambda s, clock: True)

    def generation(s, c: int) -> Number:
        """Of a document that collector c writes now."""
        return s.collector[c].known if s.is_named() else s.era

    def since(s, c: int) -> Number:
        """The generation of the document that refers to the batch about to be answered."""
        me = s.collector[c]
        if me.at == "parked":
            return s.conflict[me.batch].generation
        return s.authority(c).generation

    # Definitions: blobs.

    def stands(s, h: int | Number, since: int | Number) -> Truth:
        """A create of this generation, or a reader of a document that names it, finds the data."""
        return s.blob[h].has(since) if s.is_named() else ~s.blob[h].is_empty()

    def is_kept(s, h: int | Number, since: Number) -> Truth:
        """It exists in a generation that cannot have been collected before the manifest."""
        if s.is_named():
            return s.blob[h].has(since)
        return any_of(s.blob[h].has(g) & (since <= g) for g in range(s.horizons + 1))

    def store(s, h: int | Number, generation: Number) -> None:
        s.blob[h] = s.blob[h].plus(generation)

    # Definitions: manifests.

    def authority(s, c: int) -> KeyView:
        """The manifest as collector c can see it."""
        return s.manifest

    two_authorities = without("single-authority", replaces=authority)(
        lambda s, c: s.manifest if c % 2 == 0 else s.replica
    )

    def finds(s, m: KeyView, h: int) -> Truth:
        """The manifest names this batch, and finds its data."""
        return m.holds(content=h) & s.stands(h, m.generation)

    def is_readable(s) -> Truth:
        return any_of(s.finds(s.manifest, h) for h in range(s.contents))

    def accept(s, manifest: KeyView, h: int | Number, generation: int | Number) -> None:
        """A create takes effect."""
        manifest.create("done", content=h, generation=generation)
        s.first = pick(s.first < 0, h, s.first)

    @without("create-only-manifest", "linearizable-create", replaces=accept)
    def overwrite(s, manifest: KeyView, h: int | Number, generation: int | Number) -> None:
        s.overwritten |= manifest.is_there & (manifest.content != h)
        manifest.put(content=h, generation=generation)
        s.first = pick(s.first < 0, h, s.first)

    # Actions: the world.

    @action(h=shared)
    def another_stores_it(s, h: int) -> None:
        """A batch of another identity has the same bytes; or a request of ours was late, or needless."""
        s.require(h < s.contents)
        s.require(~s.blob[h].has(s.era))
        s.store(h, s.era)

    @action
    def time_passes(s) -> None:
        s.require(s.era < s.horizons, s.lands_in_time())
        s.era += 1

    def lands_in_time(s) -> Truth:
        """In a plain bucket: a late request lands before the margin is over."""
        return (s.versioned > 0) | s.late.is_free | (s.late.generation > s.era - USABLE)

    lands_any_time = without("bounded-landing", replaces=lands_in_time)(lambda s: True)

    @action
    def manifest_deleted(s) -> None:
        """An operator, a lifecycle rule: in a versioned bucket this leaves a marker, and the key is free."""
        s.require(s.may_be_deleted(), s.manifest.is_there)
        s.manifest.delete()

    def may_be_deleted(s) -> Truth:
        return Truth.constant(False)

    deletes_allowed = without("deny-deletes", replaces=may_be_deleted)(lambda s: True)

    # Actions of a collector: the batch and its blob.

    @action(c=among(collector, at="idle"), h=among(contents, outcome="nothing"), sender=SENDERS)
    def receive(s, c: int, h: int, sender: str) -> None:
        """An agent sends a batch, perhaps again, to any collector, while others may still work on it."""
        s.require(s.is_bound(sender))
        me = s.collector[c]
        me.at = "blob"
        me.batch = h
        me.stranger = sender == "stranger"

    def is_bound(s, sender: str) -> Truth:
        return Truth.constant(sender == "owner")

    any_sender = without("identity-bound-to-agent", replaces=is_bound)(lambda s, sender: True)

    @action(c=among(collector, at="blob"), answer=BLOB_ANSWERS, clock=tuple(CLOCKS))
    def put_blob(s, c: int, answer: str, clock: str) -> None:
        """Create-only, again until it is answered. After a conflict an upload in parts is begun anew."""
        me = s.collector[c]
        generation = s.read_clock(clock)
        if answer == "exists":
            s.require(s.stands(me.batch, generation))
        elif answer == "done" or answer == "reply_lost":
            s.require(~s.stands(me.batch, generation))
            s.store(me.batch, generation)
        if s.proves_blob(answer):
            me.at = "manifest"
            if answer == "exists" and not s.is_named():
                me.known = NONE
            else:
                me.known = generation

    def proves_blob(s, answer: str) -> Truth:
        return Truth.constant(answer == "done" or answer == "exists")

    @without("new-upload-on-multipart-409", replaces=proves_blob)
    def takes_conflict_for_proof(s, answer: str) -> Truth:
        """The next attempt finds no upload, and takes it for completed."""
        return Truth.constant(answer in ("done", "exists", "conflict"))

    needs_no_proof = without("blob-before-manifest", replaces=proves_blob)(lambda s, answer: True)

    @action(c=among(collector, at=("manifest", "unsure", "conflict")), clock=tuple(CLOCKS))
    def store_anew(s, c: int, clock: str) -> None:
        """Before the manifest: by its name too old to rely on, or of an unknown age."""
        me = s.collector[c]
        s.require((me.known < 0) | ~s.is_current(me.known))
        me.known = s.read_clock(clock)
        s.store(me.batch, me.known)

    # Actions of a collector: the manifest.

    @action(c=among(collector, at=("manifest", "unsure")), answer=MANIFEST_ANSWERS)
    def create_manifest(s, c: int, answer: str) -> None:
        """The only moment at which a batch becomes accepted. Repeated after a lost answer."""
        me = s.collector[c]
        manifest = s.authority(c)
        s.require(s.is_current(me.known))
        s.trouble.spend(answer in ("reply_lost", "request_lost", "late"))
        if answer == "exists":
            s.require(manifest.is_there)
            me.at = s.after_exists()
        elif answer == "conflict":
            me.at = s.after_conflict(c)
        elif answer == "request_lost":
            me.at = s.after_unknown()
        elif answer == "late":
            s.require(s.may_be_late(c))
            manifest.create("late", late=s.late, content=me.batch, generation=s.generation(c))
            s.late_author = c
            me.at = s.after_unknown()
        else:
            s.forged |= (s.first < 0) & me.stranger
            s.accept(manifest, me.batch, s.generation(c))
            s.author = c
            if answer == "done":
                s.live[me.batch] = True
                me.at = "stored"
            else:
                me.at = s.after_unknown()

    def may_be_late(s, c: int) -> Truth:
        return Truth.constant(True)

    late_at_one = without("single-authority", replaces=may_be_late)(lambda s, c: c % 2 == 0)

    def after_exists(s) -> str:
        return "compare"

    trusts_412 = without("compare-after-412", replaces=after_exists)(lambda s: "duplicate")

    def after_conflict(s, c: int) -> Choice | str:
        """409 of the store: create again."""
        return s.collector[c].at

    trusts_409 = without("409-proves-nothing", replaces=after_conflict)(lambda s, c: "duplicate")

    def after_unknown(s) -> str:
        return "unsure"

    trusts_silence = without("read-back-on-unknown", replaces=after_unknown)(lambda s: "stored")

    @action
    def late_manifest_lands(s) -> None:
        s.require(~s.late.is_free)
        s.accept(s.manifest, s.late.content, s.late.generation if s.is_named() else s.era)
        s.author = s.late_author
        s.late_author = NONE
        s.late.clear()

    @action(c=among(collector, at=("compare", "unsure", "manifest")))
    def read_manifest(s, c: int) -> None:
        """Whose is it, and is it the same batch? After 412, after a lost answer, or before the create."""
        me = s.collector[c]
        manifest = s.authority(c)
        s.require(manifest.is_there | (me.at != "manifest"))
        is_same = manifest.holds(content=me.batch)
        is_mine = is_same & (s.author == c)
        s.live[me.batch] |= s.has_effect(manifest, is_mine)
        if is_mine:
            me.at = "stored"
        elif is_same:
            me.at = "duplicate"
            me.known = NONE
        elif manifest.is_there:
            me.at = "conflict"
        else:
            me.at = "manifest"

    def has_effect(s, manifest: KeyView, is_mine: Truth) -> Truth:
        """Live state shows the batch."""
        return is_mine

    shows_any = without("effects-after-create", replaces=has_effect)(
        lambda s, manifest, is_mine: manifest.is_there
    )

    # Actions of a collector: the data behind the manifest, or behind the quarantine record.

    @action(c=among(collector, at=("stored", "duplicate", "parked")))
    def see_blob(s, c: int) -> None:
        """The blob exists, and was within the horizon when the manifest came to be."""
        me = s.collector[c]
        since = s.since(c)
        s.require(me.known < since, s.is_kept(me.batch, since))
        me.known = since

    @action(c=among(collector, at=("stored", "duplicate", "parked")))
    def put_blob_back(s, c: int) -> None:
        """Missing, or of an unknown age: store it anew from the frame at hand."""
        me = s.collector[c]
        generation = s.since(c) if s.is_named() else s.era
        s.require(~s.is_kept(me.batch, s.since(c)), me.known < generation)
        s.store(me.batch, generation)
        me.known = generation

    @action(c=among(collector, at="conflict"), answer=("done", "exists"))
    def record_conflict(s, c: int, answer: str) -> None:
        """Create-only: the first record is as good as another."""
        me = s.collector[c]
        s.require(s.is_current(me.known))
        s.conflict[me.batch].create(answer, generation=s.generation(c))
        if answer == "exists":
            me.known = NONE
        me.at = "parked"

    # Actions of a collector: the answer, which needs a generation that cannot have been collected.

    @action(c=collector, reply=REPLIES)
    def answer(s, c: int, reply: str) -> None:
        """Answer the agent. An agent that was answered before learns nothing.

        200 with `duplicate=false`, perhaps unheard; 200 with `duplicate=true`: another one completes it;
        409: the agent parks the batch.
        """
        me = s.collector[c]
        if reply == "unheard":
            s.require(me.at == "stored", s.is_sure(c))
            s.trouble.spend()
            s.count_news()
        elif reply == "stored":
            s.require(me.at == "stored", s.is_sure(c))
            s.count_news()
            s.tell(me.batch, "stored")
        elif reply == "duplicate":
            s.require(me.at == "duplicate", s.is_sure_of_duplicate(c))
            s.tell(me.batch, "stored")
        else:
            s.require(me.at == "parked", s.is_sure(c))
            s.tell(me.batch, "parked")
        s.rest(c)

    def is_sure(s, c: int) -> Truth:
        return s.since(c) <= s.collector[c].known

    never_looks = without("gc-stalled-writer", replaces=is_sure)(lambda s, c: True)

    def is_sure_of_duplicate(s, c: int) -> Truth:
        return s.since(c) <= s.collector[c].known

    trusts_others = without("gc-stalled-writer-duplicate", replaces=is_sure_of_duplicate)(lambda s, c: True)

    def count_news(s) -> None:
        if s.news < 2:
            s.news += 1

    def tell(s, h: Number, outcome: str) -> None:
        if s.outcome[h] == "nothing":
            s.outcome[h] = outcome

    @action(c=among(collector, at="stored"), entry=among(ENTRIES, derived=False))
    def follow_up(s, c: int, entry: str) -> None:
        """Derive entries of an accepted batch, in any order. After the answer, `repair` does the same."""
        s.derived[entry] = True

    @action(c=among(collector, at=PARTS))
    def give_up(s, c: int) -> None:
        """503: the store is away, or only answers 409. A crash looks the same to all others.

        After the manifest was read it costs trouble, which keeps the space small.
        """
        me = s.collector[c]
        s.trouble.spend(any_of(me.at == at for at in ("stored", "duplicate", "conflict", "parked")))
        s.rest(c)

    def rest(s, c: int) -> None:
        restart(s.collector[c])
        s.author = pick(s.author == c, NONE, s.author)
        s.late_author = pick(s.late_author == c, NONE, s.late_author)

    # Actions: the reconciler, and the owner of the rollups.

    @action(entry=ENTRIES)
    def repair(s, entry: str) -> None:
        """A missing blob is reported, but decides nothing here."""
        s.require(s.reconciles(), s.manifest.is_there, ~s.derived[entry])
        s.derived[entry] = True

    def reconciles(s) -> Truth:
        return Truth.constant(True)

    never_reconciles = without("reconcile", replaces=reconciles)(lambda s: False)

    def is_unrepaired(s) -> Truth:
        return s.derived["listing"] & ~s.derived["reference"]

    def is_scanned(s) -> Truth:
        """The next listing shows the manifest's entry."""
        return s.manifest.generation >= s.cursor - s.overlap()

    def overlap(s) -> Number:
        """The eras that two listings share."""
        return s.era * 0 + 1

    no_overlap = without("cursor-overlap", replaces=overlap)(lambda s: 0)

    @action
    def move_cursor(s) -> None:
        """Never past an entry that is listed and not repaired."""
        s.require(s.scanning > 0, s.reconciles(), s.cursor < s.era)
        s.require(~(s.is_unrepaired() & s.is_scanned()))
        s.cursor = s.era

    @action
    def roll_up(s) -> None:
        """The owner counts what is listed, each batch once."""
        s.require(s.derived["listing"] & (s.rolled == 0), s.is_readable())
        s.rolled += 1

    # Actions: the garbage collector.

    @action(h=contents, generation=horizons + 1)
    def decide(s, h: int, generation: int) -> None:
        """Older than the horizon and the margin, and without a reference."""
        s.require(~s.doomed.is_there, s.blob[h].has(generation), s.is_aged(generation))
        s.require(~s.finds_manifest(h), ~s.finds_record(h))
        s.doomed.put(content=h, generation=generation)

    def is_aged(s, generation: int) -> Truth:
        return s.era > generation + s.margin()

    any_age = without("gc-age", replaces=is_aged)(lambda s, generation: True)

    def finds_manifest(s, h: int) -> Truth:
        """An audit has listed all manifests."""
        return s.manifest.holds(content=h)

    @without("gc-audit-before-trust", replaces=finds_manifest)
    def finds_reference(s, h: int) -> Truth:
        return s.manifest.holds(content=h) & s.derived["reference"]

    def finds_record(s, h: int) -> Truth:
        return s.conflict[h].is_there

    no_records = without("gc-quarantine-refs", replaces=finds_record)(lambda s, h: False)

    @action(h=contents, generation=horizons + 1)
    def delete(s, h: int, generation: int) -> None:
        """That generation alone; without generations, whatever exists there by now."""
        s.require(s.doomed.holds(content=h, generation=generation))
        if s.names_generation():
            s.blob[h] = s.blob[h].minus(generation)
        else:
            s.blob[h] = frozenset[int]()
        s.doomed.delete()

    def names_generation(s) -> Truth:
        """The delete names the generation that was judged: by the key, or by the version."""
        return s.is_named() | (s.versioned > 0)

    names_the_key = without("gc-stalled-writer-version", replaces=names_generation)(lambda s: s.is_named())

    # Properties: never bad.

    both = define(lambda s: s.manifest.is_there & s.replica.is_there)
    one_acceptance = invariant(
        "An identity has one manifest, never another, and `duplicate=false` is answered at most once."
    )(lambda s: (s.news < 2) & ~s.overwritten & ~(s.both() & (s.manifest.content != s.replica.content)))
    never_reopened = invariant("The first batch that was accepted stays accepted.")(
        lambda s: implies(s.manifest.is_there & ~s.overwritten, s.manifest.content == s.first)
    )
    ack_durable = invariant("After any 200 the manifest exists and finds its data, for ever.", h=contents)(
        lambda s, h: implies(s.outcome[h] == "stored", s.finds(s.manifest, h) | s.finds(s.replica, h))
    )
    conflict_durable = invariant(
        "A parked batch has its record, and the record finds its data, until an operator has decided.",
        h=contents,
    )(
        lambda s, h: implies(
            s.outcome[h] == "parked", s.conflict[h].is_there & s.stands(h, s.conflict[h].generation)
        )
    )
    learns = define(lambda s, after, h, what: (s.outcome[h] != after.outcome[h]) & (after.outcome[h] == what))
    is_accepted = define(lambda s, h: s.manifest.holds(content=h) | s.replica.holds(content=h))
    is_other = define(lambda s, h: any_of(m.is_there & (m.content != h) for m in (s.manifest, s.replica)))
    truthful_duplicate = step("200 is answered only for a batch that the manifest names.", h=contents)(
        lambda before, after, h: implies(before.learns(after, h, "stored"), before.is_accepted(h))
    )
    truthful_conflict = step("409 is answered only for a batch whose identity another one has.", h=contents)(
        lambda before, after, h: implies(before.learns(after, h, "parked"), before.is_other(h))
    )
    no_early_effect = invariant("Nothing is done with a batch that is not accepted.", h=contents)(
        lambda s, h: implies(s.live[h], s.first == h)
    )
    effects_once = invariant("No batch is counted twice, and none that is not accepted.")(
        lambda s: (s.rolled < 2) & implies(s.rolled > 0, s.first >= 0)
    )
    effects_eventually = always_recoverable(
        "An accepted batch can always still be found by every index and counted."
    )(lambda s: implies(s.manifest.is_there, s.derived.all(True) & (s.rolled == 1) & s.is_readable()))
    answered = always_recoverable("Every agent can still learn the outcome of its batch.")(
        lambda s: s.all_answered()
    )

    @step(h=contents, g=horizons + 1)
    def gc_safe(before, after: "Ingest", h: int, g: int) -> Truth:
        """No generation goes that was within the horizon when the manifest, or a record, came to be."""
        is_relied_on = before.protects(before.manifest.holds(content=h), before.manifest.generation, g)
        is_recorded = before.protects(before.conflict[h].is_there, before.conflict[h].generation, g)
        return implies(before.blob[h].has(g) & (is_relied_on | is_recorded), after.blob[h].has(g))

    def protects(s, is_there: Truth, since: Number, g: int) -> Truth:
        """A document of the generation `since` refers to the data in generation g."""
        if s.is_named():
            return is_there & (since == g)
        return is_there & (since <= g)

    is_passed = define(lambda s: s.manifest.is_there & ~s.is_scanned())
    cursor_honest = invariant(
        "An entry that the cursor has passed unrepaired is old enough for the next audit."
    )(lambda s: ~(s.is_passed() & ~s.derived["reference"] & (s.manifest.generation >= s.era - 1)))
    cursor_waits = step(
        "A listed entry that cannot be repaired yet stays within the reach of the next listing."
    )(lambda before, after: implies(before.is_unrepaired() & before.is_scanned(), after.is_scanned()))
    no_forgery = invariant("No agent's batch is accepted in the name of another.")(lambda s: ~s.forged)

    # Properties: sometimes good. A property holds where the size is too small for it.

    counted = reachable("Every agent is answered, and the accepted batch is listed, referenced and counted.")(
        lambda s: s.all_answered() & s.derived.all(True) & (s.rolled == 1)
    )
    accepted_unawares = reachable(
        "A batch can be accepted while its agent knows nothing and no collector works on it."
    )(lambda s: s.manifest.is_there & s.outcome.all("nothing") & s.collector.all(at="idle"))
    answered_as_duplicate = reachable("A batch can be answered as a duplicate, and never as new.")(
        lambda s: s.outcome.any("stored") & (s.news == 0)
    )
    conflict_parked = reachable("One batch can be stored and another one parked.")(
        lambda s: (s.outcome.any("stored") & s.outcome.any("parked")) | (s.contents == 1)
    )
    without_data = reachable(
        "Where nothing is assumed of time: a batch can be accepted though its data is gone, unanswered."
    )(lambda s: (s.manifest.is_there & ~s.is_readable()) | (s.versioned == 0) | (s.horizons == 0))
    stored_anew = reachable(
        "Where the horizon passes, a blob can exist in two generations, the older of them doomed.", h=contents
    )(lambda s, h: (s.horizons <= s.margin()) | (s.doomed.holds(content=h) & (s.blob[h].size() > 1)))
    # All agents know the outcome of their batches.
    all_answered = may_end(lambda s: ~s.outcome.any("nothing"))

    # Refinement: the observed steps of each action.

    def observed_generation(s, generation: Number | int) -> Number | int:
        """In a versioned bucket everything that is stored now is young."""
        return YOUNG if s.versioned else generation

    def is_old(s, h: int, generation: int) -> Truth:
        """A version exists that is older than all that refers to it."""
        exists = s.blob[h].has(generation)
        if s.manifest.holds(content=h):
            return exists & (s.manifest.generation > generation)
        if s.conflict[h].is_there:
            return exists & (s.conflict[h].generation > generation)
        return exists & (s.era > generation)

    def passing_time(s, observed: IngestObserved) -> object:
        if not s.versioned:
            return does("time_passes")
        is_aging = [observed.blob[h].has(YOUNG) & ~observed.is_referenced(h) for h in range(s.contents)]
        return [does("ages", h=h, when=when) for h, when in enumerate(is_aging)]

    def shared_blob(s, h: int) -> object:
        return does("blob_stands", h=h, generation=s.observed_generation(s.era))

    def put_of_blob(s, c: int, answer: str, clock: str) -> object:
        if answer not in ("done", "reply_lost"):
            return ()
        generation = s.observed_generation(s.era - CLOCKS[clock])
        return does("blob_stands", h=s.collector[c].batch, generation=generation)

    def further_blob(before, after: "Ingest", c: int) -> object:
        """In a plain bucket the generation may exist already, which a create-only request does not change."""
        h = before.collector[c].batch
        generation = after.collector[c].known
        is_new = (before.versioned > 0) | ~before.blob[h].has(generation)
        return does("blob_stands", h=h, generation=before.observed_generation(generation), when=is_new)

    def effects(before, after: "Ingest") -> list[object]:
        return [does("shown_live", h=h, when=after.live[h] & ~before.live[h]) for h in range(before.contents)]

    def creation(before, after: "Ingest", c: int, answer: str) -> object:
        if answer not in ("done", "reply_lost"):
            return ()
        me = before.collector[c]
        accepted = does("accepted", h=me.batch, generation=before.observed_generation(me.known))
        return [accepted, *before.effects(after)]

    def late_creation(s) -> object:
        return does("accepted", h=s.late.content, generation=s.observed_generation(s.late.generation))

    def record(s, c: int, answer: str) -> object:
        if answer != "done":
            return ()
        me = s.collector[c]
        return does("recorded", h=me.batch, generation=s.observed_generation(me.known))

    def reply_shown(s, c: int, reply: str) -> object:
        return does("replied", h=s.collector[c].batch, reply=SHOWN_REPLIES[reply])

    def deletion(before, after: "Ingest", h: int, generation: int) -> object:
        if not before.versioned:
            return does("deleted", h=h, generation=generation, last="yes")
        more = any_of(after.is_old(h, g) for g in range(before.horizons + 1))
        return (
            does("deleted", h=h, generation=OLD, last="no", when=more),
            does("deleted", h=h, generation=OLD, last="yes", when=~more),
        )

    @refines(
        IngestObserved,
        {
            "another_stores_it": shared_blob,
            "time_passes": passing_time,
            "put_blob": put_of_blob,
            "store_anew": further_blob,
            "put_blob_back": further_blob,
            "create_manifest": creation,
            "late_manifest_lands": late_creation,
            "read_manifest": effects,
            "record_conflict": record,
            "follow_up": "indexed",
            "repair": "indexed",
            "answer": reply_shown,
            "delete": deletion,
        },
        contents=contents,
        horizons=horizons + 1,
        versioned=versioned,
    )
    def observed(s, observed: IngestObserved) -> dict[str, object]:
        """Every write of the store and every answer is one that the specification allows."""
        everything = range(s.contents)
        return {
            "era": 0 if s.versioned else s.era,
            "blob": related(all_of(s.shows_blob(observed, h) for h in everything)),
            "manifest": related(s.shows_manifest(observed)),
            "conflict": related(all_of(s.shows_record(observed, h) for h in everything)),
            "outcome": related(all_of(s.shows_outcome(observed, h) for h in everything)),
            "is_new": s.news > 0,
            "live": s.live.any(True),
            "relied": HISTORY,
            "assured": HISTORY,
            "judged": HISTORY,
        }

    def shows_blob(s, observed: IngestObserved, h: int) -> Truth:
        """In a versioned bucket the observed machine has one old version and one young one for all."""
        blob = s.blob[h]
        shown = observed.blob[h]
        if not s.versioned:
            return all_of(blob.has(g) == shown.has(g) for g in range(s.horizons + 1))
        is_old = [s.is_old(h, g) for g in range(s.horizons + 1)]
        is_young = [blob.has(g) & ~old for g, old in enumerate(is_old)]
        return (shown.has(OLD) == any_of(is_old)) & (shown.has(YOUNG) == any_of(is_young))

    def shows_manifest(s, observed: IngestObserved) -> Truth:
        shown = observed.manifest
        if s.manifest.is_there:
            generation = s.observed_generation(s.manifest.generation)
            return shown.holds(content=s.manifest.content) & (shown.generation == generation)
        return ~shown.is_there

    def shows_record(s, observed: IngestObserved, h: int) -> Truth:
        shown = observed.conflict[h]
        if s.conflict[h].is_there:
            generation = s.observed_generation(s.conflict[h].generation)
            return shown.is_there & (shown.generation == generation)
        return ~shown.is_there

    def shows_outcome(s, observed: IngestObserved, h: int) -> Truth:
        """An answer that the agent did not hear is one all the same."""
        return implies(s.outcome[h] != "nothing", s.outcome[h] == observed.outcome[h])

    # Where the checker shows what.

    shown_at = {
        "reconcile": {"horizons": 0, "shared": 0},
        "gc-stalled-writer-generation": {**PLAIN, "troubles": 0},
        "gc-stalled-writer-version": {"contents": 1, "shared": 0, "troubles": 0},
        "cursor-overlap": {"contents": 1, "scanning": 1},
        "bounded-landing": PLAIN,
        "bounded-skew": PLAIN,
    }
    fires_at = {"manifest_deleted": "deny-deletes", "move_cursor": SCANNING}
