"""Ingest: batches that any collector may accept, with nothing shared but a bucket.

The acceptance protocol of docs/decisions/0011-ingest-protocol.md for one identity, because identities share
nothing but blobs: `another_stores_it` is what another identity's batch with the same bytes does to a blob. A
batch's content is its hash; two batches of one identity are two contents, and the sender of the second is a
twin of the agent (a restored disk, a cloned machine). "The steps of the model" there says why what is one
step here loses nothing.

Time is counted in eras: in each, the retry horizon passes once. The generation of a blob is the era in which
it was stored, so `s.blob[h]` is the set of generations that stand, and a removed one never returns: its era
is over. In a *versioned* bucket a generation is a version of the key. The store's clock gives its age and
that of the manifest, so no clock of ours takes part, and `manifest.generation` is the era of its creation. In
a *plain* bucket a generation is a key, which names the era by the collector's clock; the manifest names that
key: `manifest.generation`. Without `gc-stalled-writer-generation` a plain bucket has one key per blob, and a
delete takes whatever stands there by then; the same holds without `gc-stalled-writer-version` in a versioned
one.
"""

from fencepost.model import *
from fencepost.model.store import Budget, Key, KeyView, Late

USABLE, OVERLAP = 2, 1
"""Eras: how long a blob name is relied on (a clock one behind, a request one under way), an overlap."""
CLOCKS = {"right": 0, "behind": 1, "far-behind": 3}
"""By how many eras a collector's clock is behind."""
BLOB_ANSWERS = ("done", "exists", "request-lost", "reply-lost", "conflict")
ENTRIES = ("listing", "reference")
PARTS = ("blob", "manifest", "unsure", "compare", "stored", "duplicate", "conflict", "parked")
ALWAYS = Truth.constant(True)
ACCEPTING = {"horizons": 0, "shared": 0}
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
        "create-only-manifest": ACCEPTING,
        "compare-after-412": ACCEPTING,
        "effects-after-create": ACCEPTING,
        "reconcile": ACCEPTING,
        "single-authority": ACCEPTING,
        "linearizable-create": ACCEPTING,
        "gc-stalled-writer-duplicate": {"contents": 1},
        "gc-stalled-writer-generation": {**PLAIN, "troubles": 0},
        "gc-stalled-writer-version": {"contents": 1, "shared": 0, "troubles": 0},
        "cursor-overlap": {"contents": 1, "scanning": 1},
        "bounded-landing": PLAIN,
        "bounded-skew": PLAIN,
    }
    fires_at = {
        "manifest_deleted": "deny-deletes",
        "move_cursor": {"collectors": 1, "contents": 1, "horizons": 2, "scanning": 1},
    }

    # State: the bucket, the collectors, the agents, what is derived of the manifest, garbage collection.

    era = Int(0, horizons)
    blob = Each(contents, Flags(horizons + 1))
    manifest = Key(content=Id(contents), generation=Int(0, horizons))
    replica = Key(content=Id(contents), generation=Int(0, horizons))  # of a bucket that should not accept
    late = Late(manifest, only=("create",))
    conflict = Each(contents, Key(generation=Int(0, horizons)))  # quarantine record of a refused content
    trouble = Budget(troubles)
    first = Id(contents, nobody=True)  # ghost: what was accepted first
    overwritten = Bool()  # ghost: a manifest replaced one with another content
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
    forged = Bool()  # ghost: what was accepted first came from a stranger
    cursor = Int(0, horizons)  # listed entries of earlier eras are repaired
    rolled = Int(0, 2)
    doomed = Bool()
    doomed_content = Id(contents)
    doomed_generation = Id(horizons + 1)

    # Definitions: blobs and clocks. Where names say nothing, the store's clock decides.

    @define(without={"gc-stalled-writer-generation": lambda s: False})
    def is_named(s) -> bool:
        """Whether the keys of blobs name their generation."""
        return not s.versioned

    @define(without={"gc-stalled-writer-version": lambda s: False})
    def names_version(s) -> bool:
        """Whether a delete names the version that was judged."""
        return bool(s.versioned)

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

    def is_readable(s) -> Truth:
        return any_of(
            s.manifest.holds(content=h) & s.stands(h, s.manifest.generation) for h in range(s.contents)
        )

    @define(
        without={
            "new-upload-on-multipart-409": lambda s, answer: answer in ("done", "exists", "conflict"),
            "blob-before-manifest": lambda s, answer: True,
        }
    )
    def proves_blob(s, answer: str) -> bool:
        """With the upload of before a conflict, the next attempt finds none, and takes it for completed."""
        return answer in ("done", "exists")

    @define(without={("gc-stalled-writer", "bounded-skew"): True})
    def is_current(s, generation: Number) -> Truth:
        """A collector, by its clock, may still rely on the name."""
        return generation >= s.era - USABLE if s.is_named() else ALWAYS

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
        lambda s, manifest, mine: mine,
        without={"effects-after-create": lambda s, manifest, mine: manifest.is_there},
    )
    reconciles = define(True, without={"reconcile": False})
    is_scanned = define(  # by the next listing
        lambda s: s.manifest.generation >= s.cursor - OVERLAP,
        without={"cursor-overlap": lambda s: s.manifest.generation >= s.cursor},
    )
    finds_manifest = define(
        lambda s, h: s.manifest.holds(content=h),
        without={"gc-audit-before-trust": lambda s, h: s.manifest.holds(content=h) & s.derived["reference"]},
    )
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
        landed = s.late.is_free | (s.late.generation > s.era - USABLE)
        s.assume("bounded-landing", bool(s.versioned) or landed)
        s.era += 1

    @action
    def manifest_deleted(s) -> None:
        """An operator, a lifecycle rule: in a versioned bucket this leaves a marker, and the key is free."""
        s.assume("deny-deletes", False)
        s.require(s.manifest.is_there)
        s.manifest.delete()

    # Actions of a collector: the batch and its blob.

    @action(c=collectors, h=contents, sender=("owner", "stranger"))
    def receive(s, c: int, h: int, sender: str) -> None:
        """An agent sends a batch, perhaps again, to any collector, while others may still work on it."""
        s.require((s.at[c] == "idle") & (s.outcome[h] == "nothing"))
        s.guard("identity-bound-to-agent", sender == "owner")
        s.at[c], s.batch[c], s.stranger[c] = "blob", h, sender == "stranger"

    @action(c=collectors, answer=BLOB_ANSWERS, clock=tuple(CLOCKS))
    def put_blob(s, c: int, answer: str, clock: str) -> None:
        """Create-only, again until it is answered. After a conflict an upload in parts is begun anew."""
        s.require(s.at[c] == "blob")
        h, generation = s.batch[c], s.read_clock(clock)
        if answer == "exists":
            s.require(s.stands(h, generation))
        elif answer in ("done", "reply-lost"):
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

    @action(c=collectors, clock=tuple(CLOCKS))
    def store_anew(s, c: int, clock: str) -> None:
        """Before the manifest: by its name too old to rely on, or of an unknown age."""
        s.require(s.at[c].is_in("manifest", "unsure", "conflict"))
        s.require((s.known[c] < 0) | ~s.is_current(s.known[c]))
        h, s.known[c] = s.batch[c], s.read_clock(clock)
        s.blob[h] = s.blob[h].plus(s.known[c])

    # Actions of a collector: the manifest.

    @action(c=collectors, answer=("done", "exists", "conflict", "reply-lost", "request-lost", "late"))
    def create_manifest(s, c: int, answer: str) -> None:
        """The only moment at which a batch becomes accepted. Repeated after a lost answer."""
        s.require(s.at[c].is_in("manifest", "unsure"))
        s.require(s.is_current(s.known[c]))
        s.trouble.spend(answer in ("reply-lost", "request-lost", "late"))
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
        elif answer != "request-lost":
            s.forged = s.forged | ((s.first < 0) & s.stranger[c])
            s.accept(manifest, h, s.generation(c))
            s.author = c
        if answer == "done":
            s.live[h], s.at[c] = True, "stored"
        elif answer in ("reply-lost", "request-lost", "late"):
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
        s.overwritten = s.overwritten | (manifest.is_there & (manifest.content != h))
        manifest.put(content=h, generation=generation)
        s.first = pick(s.first < 0, h, s.first)

    @action
    def late_manifest_lands(s) -> None:
        s.require(~s.late.is_free)
        s.accept(s.manifest, s.late.content, s.late.generation if s.is_named() else s.era)
        s.author, s.late_author = s.late_author, -1
        s.late.clear()

    @action(c=collectors)
    def read_manifest(s, c: int) -> None:
        """Whose is it, and is it the same batch? After 412, after a lost answer, or before the create."""
        s.require(s.at[c].is_in("compare", "unsure", "manifest"))
        manifest = s.authority(c)
        s.require(manifest.is_there | (s.at[c] != "manifest"))
        same = manifest.holds(content=s.batch[c])
        mine = same & (s.author == c)
        s.live[s.batch[c]] = s.live[s.batch[c]] | s.has_effect(manifest, mine)
        s.known[c] = pick(same & ~mine, -1, s.known[c])
        s.at[c] = case(
            (mine, "stored"), (same, "duplicate"), (manifest.is_there, "conflict"), otherwise="manifest"
        )

    # Actions of a collector: the data behind the manifest, or behind the quarantine record.

    @action(c=collectors)
    def see_blob(s, c: int) -> None:
        """The blob stands, and was within the horizon when the manifest came to be."""
        s.require(s.at[c].is_in("stored", "duplicate", "parked"))
        since = s.since(c)
        s.require(s.known[c] < since, s.is_kept(s.batch[c], since))
        s.known[c] = since

    @action(c=collectors)
    def put_blob_back(s, c: int) -> None:
        """Missing, or of an unknown age: store it anew from the frame at hand."""
        s.require(s.at[c].is_in("stored", "duplicate", "parked"))
        h, generation = s.batch[c], s.since(c) if s.is_named() else s.era
        s.require(~s.is_kept(h, s.since(c)), s.known[c] < generation)
        s.blob[h] = s.blob[h].plus(generation)
        s.known[c] = generation

    @action(c=collectors, answer=("done", "exists"))
    def record_conflict(s, c: int, answer: str) -> None:
        """Create-only: the first record that stands is as good as another."""
        s.require(s.at[c] == "conflict")
        s.require(s.is_current(s.known[c]))
        s.conflict[s.batch[c]].create(answer, generation=s.generation(c))
        s.known[c] = s.known[c] if answer == "done" else -1
        s.at[c] = "parked"

    # Actions of a collector: the answer, which needs a generation that nobody can have decided to collect.

    @action(c=collectors, heard=("yes", "no"))
    def answer_stored(s, c: int, heard: str) -> None:
        """200, `duplicate=false`."""
        s.require(s.at[c] == "stored")
        s.guard("gc-stalled-writer", s.since(c) <= s.known[c])
        s.trouble.spend(heard == "no")
        s.news = pick(s.news < 2, s.news + 1, 2)
        s.answer(c, "stored" if heard == "yes" else "nothing")

    @action(c=collectors)
    def answer_duplicate(s, c: int) -> None:
        """200, `duplicate=true`: the batch is safe, and what follows is not this collector's work."""
        s.require(s.at[c] == "duplicate")
        s.guard("gc-stalled-writer-duplicate", s.since(c) <= s.known[c])
        s.answer(c, "stored")

    @action(c=collectors)
    def answer_conflict(s, c: int) -> None:
        """409: the agent parks the batch and goes on with later ones."""
        s.require(s.at[c] == "parked")
        s.guard("gc-stalled-writer", s.since(c) <= s.known[c])
        s.answer(c, "parked")

    def answer(s, c: int, what: str) -> None:
        """The agent learns the outcome, unless another collector answered earlier."""
        outcome = s.outcome[s.batch[c]]
        s.outcome[s.batch[c]] = pick(outcome == "nothing", what, outcome)
        s.rest(c)

    @action(c=collectors, entry=ENTRIES)
    def follow_up(s, c: int, entry: str) -> None:
        """Derive entries of an accepted batch, in any order. They are written after the answer; but what is
        written then can as well be written right before, and what is late is `repair`.
        """
        s.require((s.at[c] == "stored") & ~s.derived[entry])
        s.derived[entry] = True

    @action(c=collectors)
    def give_up(s, c: int) -> None:
        """503: the store is away, or only answers 409. A crash looks the same to all others."""
        s.require(s.at[c].is_in("blob", "manifest", "unsure", "compare"))
        s.rest(c)

    @action(c=collectors)
    def crash(s, c: int) -> None:
        """The same after the manifest was read; it costs trouble, which keeps the space small."""
        s.require(s.at[c].is_in("stored", "duplicate", "conflict", "parked"))
        s.trouble.spend()
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
        s.require(~(s.derived["listing"] & ~s.derived["reference"] & s.is_scanned()))
        s.cursor = s.era

    @action
    def roll_up(s) -> None:
        """The owner counts what is listed, each batch once."""
        s.require(s.derived["listing"] & (s.rolled == 0), s.is_readable())
        s.rolled += 1

    @action(h=contents, generation=horizons + 1)
    def decide(s, h: int, generation: int) -> None:
        """Older than the horizon and the margin, and nothing refers to it."""
        s.require(~s.doomed & s.blob[h].has(generation))
        s.guard("gc-age", s.era > generation + s.margin())
        s.require(~(s.finds_manifest(h) | s.finds_record(h)))
        s.doomed, s.doomed_content, s.doomed_generation = True, h, generation

    @action(h=contents, generation=horizons + 1)
    def delete(s, h: int, generation: int) -> None:
        """That generation alone; without generations, whatever stands there by now."""
        s.require(s.doomed & (s.doomed_content == h) & (s.doomed_generation == generation))
        alone = s.is_named() or s.names_version()
        s.blob[h] = s.blob[h].minus(generation) if alone else frozenset[int]()
        s.doomed, s.doomed_content, s.doomed_generation = False, 0, 0

    # Properties: never bad.

    @invariant
    def one_acceptance(s) -> Truth:
        """An identity has one manifest, never another, and `duplicate=false` is answered at most once."""
        split = s.manifest.is_there & s.replica.is_there
        return (s.news < 2) & ~s.overwritten & ~(split & (s.manifest.content != s.replica.content))

    @invariant
    def never_reopened(s) -> Truth:
        """What was accepted first is what is accepted."""
        return implies(s.manifest.is_there & ~s.overwritten, s.manifest.content == s.first)

    @invariant(h=contents)
    def ack_durable(s, h: int) -> Truth:
        """After any 200 the manifest stands and finds its data, for ever."""
        found = any_of(m.holds(content=h) & s.stands(h, m.generation) for m in (s.manifest, s.replica))
        return implies(s.outcome[h] == "stored", found)

    @invariant(h=contents)
    def conflict_durable(s, h: int) -> Truth:
        """A parked batch has its record, and the record finds its data, until an operator has decided."""
        kept = s.conflict[h].is_there & s.stands(h, s.conflict[h].generation)
        return implies(s.outcome[h] == "parked", kept)

    @step(h=contents)
    def truthful_duplicate(before, after: "Ingest", h: int) -> Truth:
        """200 is answered only for a batch that the manifest names."""
        named = before.manifest.holds(content=h) | before.replica.holds(content=h)
        return implies((before.outcome[h] != after.outcome[h]) & (after.outcome[h] == "stored"), named)

    @step(h=contents)
    def truthful_conflict(before, after: "Ingest", h: int) -> Truth:
        """409 is answered only for a batch whose identity another one has."""
        others = any_of(m.is_there & (m.content != h) for m in (before.manifest, before.replica))
        return implies((before.outcome[h] != after.outcome[h]) & (after.outcome[h] == "parked"), others)

    @invariant(h=contents)
    def no_early_effect(s, h: int) -> Truth:
        """Nothing is done with a batch that is not accepted."""
        return implies(s.live[h], s.first == h)

    @invariant
    def effects_once(s) -> Truth:
        """No batch is counted twice, and none that is not accepted."""
        return (s.rolled < 2) & implies(s.rolled > 0, s.first >= 0)

    @always_recoverable
    def effects_eventually(s) -> Truth:
        """What is accepted can always still be found by every index and counted."""
        return implies(s.manifest.is_there, s.derived.all(True) & (s.rolled == 1) & s.is_readable())

    @always_recoverable
    def answered(s) -> Truth:
        """Every agent can still learn the outcome of its batch."""
        return ~s.outcome.any("nothing")

    @step(h=contents, g=horizons + 1)
    def gc_safe(before, after: "Ingest", h: int, g: int) -> Truth:
        """No generation goes that was within the horizon when the manifest, or a record, came to be."""
        accepted, refused = before.manifest, before.conflict[h]
        documents = [(accepted.holds(content=h), accepted.generation), (refused.is_there, refused.generation)]
        named = before.is_named()
        relied = any_of(there & (since == g if named else since <= g) for there, since in documents)
        return implies(before.blob[h].has(g) & relied, after.blob[h].has(g))

    @invariant
    def cursor_honest(s) -> Truth:
        """What the cursor has passed and nobody repaired is old enough for the next audit."""
        passed = s.manifest.is_there & ~s.derived["reference"] & ~s.is_scanned()
        return ~(passed & (s.manifest.generation >= s.era - 1))

    @step
    def cursor_waits(before, after: "Ingest") -> Truth:
        """What is listed and cannot be repaired yet stays within the reach of the next listing."""
        unrepaired = before.derived["listing"] & ~before.derived["reference"]
        return implies(unrepaired & before.is_scanned(), after.is_scanned())

    @invariant
    def no_forgery(s) -> Truth:
        """No agent's batch is accepted in the name of another."""
        return ~s.forged

    # Properties: sometimes good. A property holds where the size is too small for it.

    @reachable
    def counted(s) -> Truth:
        """Everybody is answered, and what is accepted is listed, referenced and counted."""
        return s.all_answered() & s.derived.all(True) & (s.rolled == 1)

    @reachable
    def accepted_unawares(s) -> Truth:
        """A batch can be accepted while its agent knows nothing and no collector works on it."""
        return s.manifest.is_there & s.outcome.all("nothing") & s.at.all("idle")

    @reachable
    def answered_as_duplicate(s) -> Truth:
        """A batch can be answered as a duplicate though nobody was answered before."""
        return s.outcome.any("stored") & (s.news == 0)

    @reachable
    def conflict_parked(s) -> Truth:
        """One batch can be stored and another one parked."""
        return s.outcome.any("stored") & s.outcome.any("parked") if s.contents > 1 else ALWAYS

    @reachable
    def without_data(s) -> Truth:
        """Where nothing is assumed of time: a batch can be accepted though its data is gone, unanswered."""
        return s.manifest.is_there & ~s.is_readable() if s.versioned and s.horizons else ALWAYS

    @reachable(h=contents)
    def stored_anew(s, h: int) -> Truth:
        """Where the horizon passes, a blob can stand in two generations, the older of them doomed."""
        doomed = s.doomed & (s.doomed_content == h) & (s.blob[h].size() > 1)
        return doomed if s.horizons > s.margin() else ALWAYS

    @may_end
    def all_answered(s) -> Truth:
        """All agents know the outcome of their batches."""
        return ~s.outcome.any("nothing")
