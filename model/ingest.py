"""Ingest: batches that any collector may accept, with nothing shared but a bucket.

The acceptance protocol of docs/decisions/0011-ingest-protocol.md for one identity, because identities share
nothing but blobs: `another_stores_it` is what another identity's batch with the same bytes does to a blob. A
batch's content is its hash; two batches of one identity are two contents, and the sender of the second is a
twin of the agent (a restored disk, a cloned machine). "The steps of the model" there says why what is one
step here loses nothing.

Time is counted in eras, each one retry horizon long. A blob's generation is the era in which it was stored:
`s.blob[h]` has those that stand, and a removed one never returns. In a *versioned* bucket a generation is a
version of the key; the store's clock gives its age, and `manifest.generation` is the manifest's era. In a
*plain* one it is a key, named after the era on the collector's clock, and `manifest.generation` is the key
that the manifest names. A plain bucket without `gc-stalled-writer-generation` has one key per blob, and a
delete takes what stands there by then; so it is without `gc-stalled-writer-version` in a versioned one.
"""

from fencepost.model import *
from fencepost.model.ingest_observed import ENTRIES, OLD, USABLE, YOUNG, IngestObserved
from fencepost.model.store import Budget, Key, KeyView, Late

CLOCKS = {"right": 0, "behind": 1, "far-behind": 3}  # by how many eras a collector's clock is behind
SENDERS = ("owner", "stranger")
ANSWERS = {"stored": "stored", "unheard": "nothing", "duplicate": "stored", "parked": "parked"}
SHOWN_REPLIES = {"stored": "accepted", "unheard": "accepted", "duplicate": "duplicate", "parked": "parked"}
BLOB_ANSWERS = ("done", "exists", "request_lost", "reply_lost", "conflict")
MANIFEST_ANSWERS = ("done", "exists", "conflict", "reply_lost", "request_lost", "late")
PARTS = ("blob", "manifest", "unsure", "compare", "stored", "duplicate", "conflict", "parked")
ALWAYS = Truth.constant(True)
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
    scanning = Size(0, least=0, most=1, doc="whether the reconciler's cursor moves: 1 or 0")
    versioned = Size(1, least=0, most=1, doc="whether the bucket keeps versions: 1 or 0")

    safeguards = {
        "create-only-manifest": "an identity's manifest is written once: the create decides between rivals",
        "compare-after-412": "a collector whose create finds a manifest reads whose batch it names",
        "409-proves-nothing": "409 on the manifest is retried, and is never taken for a duplicate",
        "read-back-on-unknown": "a collector whose create has an unknown outcome reads, or creates again",
        "blob-before-manifest": "the data stands before the manifest that refers to it",
        "effects-after-create": "nothing is done with a batch before its manifest is one's own",
        "reconcile": "accepted manifests are found, and what is derived of them is repaired",
        "new-upload-on-multipart-409": "after 409 an upload in parts is begun anew",
        "gc-age": "only blobs older than the horizon (and the margin) are collected",
        "gc-audit-before-trust": "a missing reverse reference proves nothing before an audit",
        "gc-quarantine-refs": "quarantine records refer to blobs as manifests do",
        "gc-stalled-writer": "no answer before the blob is known to stand, and to have been young, when "
        "the manifest came to be; else it is stored anew",
        "gc-stalled-writer-duplicate": "no `duplicate=true` before the blob was seen after the manifest was",
        "gc-stalled-writer-generation": "in a plain bucket a blob's name says when, and is never used again",
        "gc-stalled-writer-version": "in a versioned bucket the version that was judged is deleted, no other",
        "cursor-overlap": "the reconciler looks again at what is shortly before its cursor",
        "identity-bound-to-agent": "the authenticated agent is the one that the batch names",
    }
    assumptions = {
        "single-authority": "all collectors create manifests in one and the same bucket",
        "deny-deletes": "nobody deletes a manifest",
        "linearizable-create": "the store never creates over a manifest, not even of two requests at once",
        "bounded-landing": "a request lands before the margin is over, or never",
        "bounded-skew": "two clocks differ by less than the margin",
    }
    shown_at = {
        "reconcile": {"horizons": 0, "shared": 0},
        "gc-stalled-writer-generation": {**PLAIN, "troubles": 0},
        "gc-stalled-writer-version": {"contents": 1, "shared": 0, "troubles": 0},
        "cursor-overlap": {"contents": 1, "scanning": 1},
        **dict.fromkeys(("bounded-landing", "bounded-skew"), PLAIN),
    }
    fires_at = {"manifest_deleted": "deny-deletes", "move_cursor": SCANNING}

    # State: the bucket, the collectors, the agents, what is derived of the manifest, garbage collection.
    era = Int(0, horizons)
    blob = Each(contents, Flags(horizons + 1))
    manifest = Key(content=Id(contents), generation=Int(0, horizons))
    replica = Key(content=Id(contents), generation=Int(0, horizons))  # of a bucket that should not accept
    late = Late(manifest, only=("create",))
    conflict = Each(contents, Key(generation=Int(0, horizons)))  # quarantine record of a refused content
    trouble = Budget(troubles)
    first = Id(contents, nobody=True)  # ghost: what was accepted first
    overwritten, forged = Bool(), Bool()  # ghosts: another content replaced; a stranger's first
    at = Each(collectors, Enum("idle", *PARTS))
    batch = Each(collectors, Id(contents))
    known = Each(collectors, Id(horizons + 1, nobody=True))  # the generation relied on; -1: one stands
    author = Id(collectors, nobody=True)  # whose present attempt wrote the manifest, which names the attempt
    late_author = Id(collectors, nobody=True)
    outcome = Each(contents, Enum("nothing", "stored", "parked"))  # as the agent knows it
    derived = Each(ENTRIES, Bool())  # accepted-by-time with raw-blobs-by-time; accepted-by-blob
    news = Int(0, 2)  # ghost: how often `duplicate=false` was answered
    live = Each(contents, Bool())  # ghost: some collector's live state shows the batch
    stranger = Each(collectors, Bool())  # ghost
    cursor, rolled = Int(0, horizons), Int(0, 2)  # listed entries of eras before the cursor are repaired
    doomed = Key(content=Id(contents), generation=Id(horizons + 1))

    # Definitions: blobs and clocks. Where names say nothing, the store's clock decides.
    # Whether the keys of blobs name their generation, and whether a delete names the version that was judged.
    is_named = constant(lambda s: not s.versioned, without={"gc-stalled-writer-generation": False})
    names_version = constant(lambda s: s.versioned > 0, without={"gc-stalled-writer-version": False})

    def margin(s) -> int:
        """For how many eras after its own a generation may be relied on; an older one may be collected."""
        return 0 if s.versioned else USABLE

    def stands(s, h: int | Number, since: int | Number) -> Truth:
        """A create of this generation, or a reader of a document that names it, finds the data."""
        return s.blob[h].has(since) if s.is_named() else ~s.blob[h].is_empty()

    def is_kept(s, h: int | Number, since: Number) -> Truth:
        """It stands in a generation that nobody can have decided to collect before the manifest."""
        generations = [since] if s.is_named() else range(s.horizons + 1)
        return any_of(s.blob[h].has(g) & (since <= g) for g in generations)

    finds = define(lambda s, m, h: m.holds(content=h) & s.stands(h, m.generation))
    is_readable = define(lambda s: any_of(s.finds(s.manifest, h) for h in range(s.contents)))
    keeps = define(lambda s, h: s.conflict[h].is_there & s.stands(h, s.conflict[h].generation))
    proves_blob = constant(  # without a new upload the next attempt finds none, and takes it for completed
        lambda s, answer: answer in ("done", "exists"),
        without={
            "new-upload-on-multipart-409": lambda s, answer: answer in ("done", "exists", "conflict"),
            "blob-before-manifest": True,
        },
    )
    is_current = define(  # a collector, by its clock, may still rely on the name
        lambda s, generation: generation >= s.era - USABLE if s.is_named() else ALWAYS,
        without={("gc-stalled-writer", "bounded-skew"): True},
    )

    def generation(s, c: int) -> Number:
        """Of a document that collector c writes now."""
        return s.known[c] if s.is_named() else s.era

    def since(s, c: int) -> Number:
        """The generation of the document that refers to the batch about to be answered."""
        recorded: Number = s.conflict[s.batch[c]].generation
        accepted: Number = s.authority(c).generation
        return pick(s.at[c] == "parked", recorded, accepted)

    # Definitions: manifests, the reconciler, the garbage collector.
    @define(without={"single-authority": lambda s, c: s.manifest if c % 2 == 0 else s.replica})
    def authority(s, c: int) -> KeyView:
        """The manifest as collector c can see it."""
        return s.manifest

    may_be_late = define(True, without={"single-authority": lambda s, c: c % 2 == 0})
    after_exists = define("compare", without={"compare-after-412": "duplicate"})
    after_unknown = define("unsure", without={"read-back-on-unknown": "stored"})
    has_effect = define(
        lambda s, m, mine: mine, without={"effects-after-create": lambda s, m, mine: m.is_there}
    )
    is_unrepaired = define(lambda s: s.derived["listing"] & ~s.derived["reference"])
    reconciles = define(True, without={"reconcile": False})
    overlap = define(1, without={"cursor-overlap": 0})  # of two listings, in eras
    is_scanned = define(lambda s: s.manifest.generation >= s.cursor - s.overlap())  # by the next listing
    is_passed = define(lambda s: s.manifest.is_there & ~s.is_scanned())
    is_audited = define(True, without={"gc-audit-before-trust": lambda s: s.derived["reference"]})
    finds_manifest = define(lambda s, h: s.manifest.holds(content=h) & s.is_audited())
    finds_record = define(lambda s, h: s.conflict[h].is_there, without={"gc-quarantine-refs": False})

    # Actions: the world.
    @action(h=shared)
    def another_stores_it(s, h: int) -> None:
        """A batch of another identity has the same bytes; or a request of ours was late, or needless."""
        s.require(h < s.contents)
        s.require(~s.blob[h].has(s.era))
        s.blob[h] = s.blob[h].plus(s.era)

    @action
    def time_passes(s) -> None:
        s.require(s.era < s.horizons)
        s.assume("bounded-landing", s.versioned > 0 or s.late.is_free | (s.late.generation > s.era - USABLE))
        s.era += 1

    @action
    def manifest_deleted(s) -> None:
        """An operator, a lifecycle rule: in a versioned bucket this leaves a marker, and the key is free."""
        s.assume("deny-deletes", False)
        s.require(s.manifest.is_there)
        s.manifest.delete()

    # Actions of a collector: the batch and its blob.
    @action(c=among(collectors, at="idle"), h=among(contents, outcome="nothing"), sender=SENDERS)
    def receive(s, c: int, h: int, sender: str) -> None:
        """An agent sends a batch, perhaps again, to any collector, while others may still work on it."""
        s.guard("identity-bound-to-agent", sender == "owner")
        s.at[c], s.batch[c], s.stranger[c] = "blob", h, sender == "stranger"

    @action(c=among(collectors, at="blob"), answer=BLOB_ANSWERS, clock=tuple(CLOCKS))
    def put_blob(s, c: int, answer: str, clock: str) -> None:
        """Create-only, again until it is answered. After a conflict an upload in parts is begun anew."""
        h, generation = s.batch[c], s.read_clock(clock)
        if answer == "exists":
            s.require(s.stands(h, generation))
        elif answer in ("done", "reply_lost"):
            s.require(~s.stands(h, generation))
            s.blob[h] = s.blob[h].plus(generation)
        if s.proves_blob(answer):
            s.at[c] = "manifest"
            s.known[c] = -1 if answer == "exists" and not s.is_named() else generation

    def read_clock(s, clock: str) -> Number:
        """The era that a collector takes for the present one."""
        s.require(s.is_named() or clock == "right")
        s.assume("bounded-skew", clock != "far-behind")
        s.require(s.era >= CLOCKS[clock])
        return s.era - CLOCKS[clock]

    @action(c=among(collectors, at=("manifest", "unsure", "conflict")), clock=tuple(CLOCKS))
    def store_anew(s, c: int, clock: str) -> None:
        """Before the manifest: by its name too old to rely on, or of an unknown age."""
        s.require((s.known[c] < 0) | ~s.is_current(s.known[c]))
        h, s.known[c] = s.batch[c], s.read_clock(clock)
        s.blob[h] = s.blob[h].plus(s.known[c])

    # Actions of a collector: the manifest.
    @action(c=among(collectors, at=("manifest", "unsure")), answer=MANIFEST_ANSWERS)
    def create_manifest(s, c: int, answer: str) -> None:
        """The only moment at which a batch becomes accepted. Repeated after a lost answer."""
        s.require(s.is_current(s.known[c]))
        s.trouble.spend(answer in ("reply_lost", "request_lost", "late"))
        manifest, h = s.authority(c), s.batch[c]
        if answer == "exists":
            s.require(manifest.is_there)
            s.at[c] = s.after_exists()
        elif answer == "conflict":
            s.at[c] = s.after_conflict(c)
        elif answer == "late":
            s.require(s.may_be_late(c))
            s.manifest.create("late", late=s.late, content=h, generation=s.generation(c))
            s.late_author = c
        elif answer != "request_lost":
            s.forged |= (s.first < 0) & s.stranger[c]
            s.accept(manifest, h, s.generation(c))
            s.author = c
        if answer == "done":
            s.live[h], s.at[c] = True, "stored"
        elif answer in ("reply_lost", "request_lost", "late"):
            s.at[c] = s.after_unknown()

    @define(without={"409-proves-nothing": "duplicate"})
    def after_conflict(s, c: int) -> Choice | str:
        return s.at[c]

    def accept(s, manifest: KeyView, h: int | Number, generation: int | Number) -> None:
        """A create takes effect."""
        manifest.create("done", content=h, generation=generation)
        s.first = pick(s.first < 0, h, s.first)

    @without("create-only-manifest", "linearizable-create", replaces=accept)
    def overwrite(s, manifest: KeyView, h: int | Number, generation: int | Number) -> None:
        s.overwritten |= manifest.is_there & (manifest.content != h)
        manifest.put(content=h, generation=generation)
        s.first = pick(s.first < 0, h, s.first)

    @action
    def late_manifest_lands(s) -> None:
        s.require(~s.late.is_free)
        s.accept(s.manifest, s.late.content, s.late.generation if s.is_named() else s.era)
        s.author, s.late_author = s.late_author, -1
        s.late.clear()

    @action(c=among(collectors, at=("compare", "unsure", "manifest")))
    def read_manifest(s, c: int) -> None:
        """Whose is it, and is it the same batch? After 412, after a lost answer, or before the create."""
        manifest = s.authority(c)
        s.require(manifest.is_there | (s.at[c] != "manifest"))
        same = manifest.holds(content=s.batch[c])
        mine = same & (s.author == c)
        s.live[s.batch[c]] |= s.has_effect(manifest, mine)
        s.known[c] = pick(same & ~mine, -1, s.known[c])
        found = (mine, "stored"), (same, "duplicate"), (manifest.is_there, "conflict")
        s.at[c] = case(*found, otherwise="manifest")

    # Actions of a collector: the data behind the manifest, or behind the quarantine record.
    @action(c=among(collectors, at=("stored", "duplicate", "parked")))
    def see_blob(s, c: int) -> None:
        """The blob stands, and was within the horizon when the manifest came to be."""
        since = s.since(c)
        s.require(s.known[c] < since, s.is_kept(s.batch[c], since))
        s.known[c] = since

    @action(c=among(collectors, at=("stored", "duplicate", "parked")))
    def put_blob_back(s, c: int) -> None:
        """Missing, or of an unknown age: store it anew from the frame at hand."""
        h, generation = s.batch[c], s.since(c) if s.is_named() else s.era
        s.require(~s.is_kept(h, s.since(c)), s.known[c] < generation)
        s.blob[h] = s.blob[h].plus(generation)
        s.known[c] = generation

    @action(c=among(collectors, at="conflict"), answer=("done", "exists"))
    def record_conflict(s, c: int, answer: str) -> None:
        """Create-only: the first record that stands is as good as another."""
        s.require(s.is_current(s.known[c]))
        s.conflict[s.batch[c]].create(answer, generation=s.generation(c))
        s.known[c] = s.known[c] if answer == "done" else -1
        s.at[c] = "parked"

    # Actions of a collector: the answer, which needs a generation that nobody can have decided to collect.
    @action(c=collectors, reply=tuple(ANSWERS))
    def answer(s, c: int, reply: str) -> None:
        """200 with `duplicate=false`, perhaps unheard; 200 with `duplicate=true`: what follows is not this
        collector's work; 409: the agent parks the batch. An agent that was answered before learns nothing.
        """
        s.require(s.at[c] == ("stored" if reply == "unheard" else reply))
        safeguard = "gc-stalled-writer-duplicate" if reply == "duplicate" else "gc-stalled-writer"
        s.guard(safeguard, s.since(c) <= s.known[c])
        s.trouble.spend(reply == "unheard")
        if reply in ("stored", "unheard"):
            s.news = pick(s.news < 2, s.news + 1, 2)
        outcome = s.outcome[s.batch[c]]
        s.outcome[s.batch[c]] = pick(outcome == "nothing", ANSWERS[reply], outcome)
        s.rest(c)

    @action(c=among(collectors, at="stored"), entry=among(ENTRIES, derived=False))
    def follow_up(s, c: int, entry: str) -> None:
        """Derive entries of an accepted batch, in any order."""
        s.derived[entry] = True  # after the answer is as well right before it, and what is late is `repair`

    @action(c=among(collectors, at=PARTS))
    def give_up(s, c: int) -> None:
        """503: the store is away, or only answers 409. A crash looks the same to all others."""
        # After the manifest was read it costs trouble, which keeps the space small.
        s.trouble.spend(s.at[c].is_in("stored", "duplicate", "conflict", "parked"))
        s.rest(c)

    def rest(s, c: int) -> None:
        s.at[c], s.batch[c], s.known[c], s.stranger[c] = "idle", 0, -1, False
        s.author = pick(s.author == c, -1, s.author)
        s.late_author = pick(s.late_author == c, -1, s.late_author)

    # Actions: the reconciler, the owner of the rollups, the garbage collector.
    @action(entry=ENTRIES)
    def repair(s, entry: str) -> None:
        """Whether the data stands is checked and reported, but decides nothing here."""
        s.require(s.reconciles() & s.manifest.is_there & ~s.derived[entry])
        s.derived[entry] = True

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

    @action(h=contents, generation=horizons + 1)
    def decide(s, h: int, generation: int) -> None:
        """Older than the horizon and the margin, and nothing refers to it."""
        s.require(~s.doomed.is_there & s.blob[h].has(generation))
        s.guard("gc-age", s.era > generation + s.margin())
        s.require(~(s.finds_manifest(h) | s.finds_record(h)))
        s.doomed.put(content=h, generation=generation)

    @action(h=contents, generation=horizons + 1)
    def delete(s, h: int, generation: int) -> None:
        """That generation alone; without generations, whatever stands there by now."""
        s.require(s.doomed.holds(content=h, generation=generation))
        alone = s.is_named() or s.names_version()
        s.blob[h] = s.blob[h].minus(generation) if alone else frozenset[int]()
        s.doomed.delete()

    # Properties: never bad.
    both = define(lambda s: s.manifest.is_there & s.replica.is_there)
    one_acceptance = invariant(
        "An identity has one manifest, never another, and `duplicate=false` is answered at most once."
    )(lambda s: (s.news < 2) & ~s.overwritten & ~(s.both() & (s.manifest.content != s.replica.content)))
    never_reopened = invariant("What was accepted first is what is accepted.")(
        lambda s: implies(s.manifest.is_there & ~s.overwritten, s.manifest.content == s.first)
    )

    ack_durable = invariant("After any 200 the manifest stands and finds its data, for ever.", h=contents)(
        lambda s, h: implies(s.outcome[h] == "stored", s.finds(s.manifest, h) | s.finds(s.replica, h))
    )
    conflict_durable = invariant(
        "A parked batch has its record, and the record finds its data, until an operator has decided.",
        h=contents,
    )(lambda s, h: implies(s.outcome[h] == "parked", s.keeps(h)))
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
        "What is accepted can always still be found by every index and counted."
    )(lambda s: implies(s.manifest.is_there, s.derived.all(True) & (s.rolled == 1) & s.is_readable()))
    answered = always_recoverable("Every agent can still learn the outcome of its batch.")(
        lambda s: s.all_answered()
    )

    @step(h=contents, g=horizons + 1)
    def gc_safe(before, after: "Ingest", h: int, g: int) -> Truth:
        """No generation goes that was within the horizon when the manifest, or a record, came to be."""
        accepted, refused = before.manifest, before.conflict[h]
        documents = [(accepted.holds(content=h), accepted.generation), (refused.is_there, refused.generation)]
        named = before.is_named()
        relied = any_of(there & (since == g if named else since <= g) for there, since in documents)
        return implies(before.blob[h].has(g) & relied, after.blob[h].has(g))

    cursor_honest = invariant(
        "What the cursor has passed and nobody repaired is old enough for the next audit."
    )(lambda s: ~(s.is_passed() & ~s.derived["reference"] & (s.manifest.generation >= s.era - 1)))
    cursor_waits = step(
        "What is listed and cannot be repaired yet stays within the reach of the next listing."
    )(lambda before, after: implies(before.is_unrepaired() & before.is_scanned(), after.is_scanned()))
    no_forgery = invariant("No agent's batch is accepted in the name of another.")(lambda s: ~s.forged)
    # Properties: sometimes good. A property holds where the size is too small for it.
    counted = reachable("Everybody is answered, and what is accepted is listed, referenced and counted.")(
        lambda s: s.all_answered() & s.derived.all(True) & (s.rolled == 1)
    )
    accepted_unawares = reachable(
        "A batch can be accepted while its agent knows nothing and no collector works on it."
    )(lambda s: s.manifest.is_there & s.outcome.all("nothing") & s.at.all("idle"))
    answered_as_duplicate = reachable(
        "A batch can be answered as a duplicate though nobody was answered before."
    )(lambda s: s.outcome.any("stored") & (s.news == 0))
    conflict_parked = reachable("One batch can be stored and another one parked.")(
        lambda s: s.outcome.any("stored") & s.outcome.any("parked") if s.contents > 1 else ALWAYS
    )
    without_data = reachable(
        "Where nothing is assumed of time: a batch can be accepted though its data is gone, unanswered."
    )(lambda s: s.manifest.is_there & ~s.is_readable() if s.versioned and s.horizons else ALWAYS)
    stored_anew = reachable(
        "Where the horizon passes, a blob can stand in two generations, the older of them doomed.", h=contents
    )(lambda s, h: (s.horizons <= s.margin()) | (s.doomed.holds(content=h) & (s.blob[h].size() > 1)))
    # All agents know the outcome of their batches.
    all_answered = may_end(lambda s: ~s.outcome.any("nothing"))

    # Refinement: the observed steps of each action.
    def shown_generation(s, generation: Number | int) -> Number | int:
        """The observed generation: in a versioned bucket all that is stored now is young."""
        return YOUNG if s.versioned else generation

    def shown_time(s, observed: IngestObserved) -> object:
        if not s.versioned:
            return does("time_passes")
        is_aging = [observed.blob[h].has(YOUNG) & ~observed.is_referenced(h) for h in range(s.contents)]
        return [does("ages", h=h, when=when) for h, when in enumerate(is_aging)]

    def shown_blob(before, after: "Ingest", c: int) -> object:
        """The blob of the collector's batch exists in a further generation, or in one more version of it."""
        h, generation = before.batch[c], after.known[c]
        is_new = ALWAYS if before.versioned else ~before.blob[h].has(generation)
        return does("blob_stands", h=h, generation=before.shown_generation(generation), when=is_new)

    def shown_put(s, c: int, answer: str, clock: str) -> object:
        if answer not in ("done", "reply_lost"):
            return ()
        generation = s.shown_generation(s.era - CLOCKS[clock])
        return does("blob_stands", h=s.batch[c], generation=generation)

    def shown_create(before, after: "Ingest", c: int, answer: str) -> object:
        if answer not in ("done", "reply_lost"):
            return ()
        generation = before.shown_generation(before.known[c])
        return (does("accepted", h=before.batch[c], generation=generation), *before.shown_effects(after))

    def shown_effects(before, after: "Ingest") -> object:
        return [does("shown_live", h=h, when=after.live[h] & ~before.live[h]) for h in range(before.contents)]

    def shown_late_create(s) -> object:
        return does("accepted", h=s.late.content, generation=s.shown_generation(s.late.generation))

    def shown_record(s, c: int, answer: str) -> object:
        if answer != "done":
            return ()
        return does("recorded", h=s.batch[c], generation=s.shown_generation(s.known[c]))

    def shown_deletion(before, after: "Ingest", h: int, generation: int) -> object:
        if not before.versioned:
            return does("deleted", h=h, generation=generation, last="yes")
        more = any_of(after.is_old(h, g) for g in range(before.horizons + 1))
        return (
            does("deleted", h=h, generation=OLD, last="no", when=more),
            does("deleted", h=h, generation=OLD, last="yes", when=~more),
        )

    def is_old(s, h: int, generation: int) -> Truth:
        """A version exists that no manifest and no record protects."""
        accepted, refused = s.manifest, s.conflict[h]
        since = case(
            (accepted.holds(content=h), accepted.generation),
            (refused.is_there, refused.generation),
            otherwise=s.era,
        )
        return s.blob[h].has(generation) & (since > generation)

    @refines(
        IngestObserved,
        {
            "another_stores_it": lambda s, h: does("blob_stands", h=h, generation=s.shown_generation(s.era)),
            "time_passes": shown_time,
            "put_blob": shown_put,
            "store_anew": shown_blob,
            "put_blob_back": shown_blob,
            "create_manifest": shown_create,
            "late_manifest_lands": shown_late_create,
            "read_manifest": shown_effects,
            "record_conflict": shown_record,
            "follow_up": "indexed",
            "repair": "indexed",
            "answer": lambda s, c, reply: does("replied", h=s.batch[c], reply=SHOWN_REPLIES[reply]),
            "delete": shown_deletion,
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
            "manifest": related(
                s.shows_document(s.manifest, observed.manifest, s.manifest.content, observed.manifest.content)
            ),
            "conflict": related(
                all_of(s.shows_document(s.conflict[h], observed.conflict[h]) for h in everything)
            ),
            "outcome": related(
                all_of(
                    implies(s.outcome[h] != "nothing", s.outcome[h] == observed.outcome[h])
                    for h in everything
                )
            ),
            "is_new": s.news > 0,
            "live": s.live.any(True),
            **dict.fromkeys(("relied", "assured", "judged"), HISTORY),
        }

    def shows_document(s, own: KeyView, shown: KeyView, *contents: Number) -> Truth:
        is_alike = shown.generation == s.shown_generation(own.generation)
        if contents:
            is_alike &= contents[0] == contents[1]
        return (own.is_there == shown.is_there) & implies(own.is_there, is_alike)

    def shows_blob(s, observed: IngestObserved, h: int) -> Truth:
        blob, shown = s.blob[h], observed.blob[h]
        if s.versioned:
            is_old = [s.is_old(h, g) for g in range(s.horizons + 1)]
            is_young = [blob.has(g) & ~old for g, old in enumerate(is_old)]
            return (shown.has(OLD) == any_of(is_old)) & (shown.has(YOUNG) == any_of(is_young))
        return all_of(blob.has(g) == shown.has(g) for g in range(s.horizons + 1))
