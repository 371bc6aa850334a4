"""Collectors and agents: from a batch that arrives to the answer.

One step or several? A request and its answer are one step (model/store). Of the protocol's steps
- receiving, checking and hashing touch nothing shared and are one;
- a collector's live state is its own: whether it is updated with the create or later, nobody else can see;
- on a plain bucket, choosing the generation and storing the blob are one: a blob that lands under a
  generation which is over is one more orphan, and the collector looks at its clock before the manifest;
- seeing the blob and answering are two, storing it anew and answering are two: collection fits between;
- answering and the agent's hearing of it are one: an answer that is lost is `heard=no`;
- the reverse reference of a quarantine record is written with it.

Late blobs are `another_stores_it`; late quarantine records are left out: they say what is true. What an
operator decides about a parked batch changes nothing here: the agent drops it, or is shut out.
"""

from fencepost.model.ingest.authority import USABLE, Authority
from fencepost.model.kernel import Bool, Each, Enum, Id, Int, Number, Truth, action, pick

CLOCKS = {"right": 0, "behind": 1, "far-behind": 3}
"""By how many eras."""
SENDERS = ("owner", "stranger")
ENTRIES = ("listing", "reference")


class Accepting(Authority):
    """What collectors do, one batch at a time each, and what agents hear."""

    at = Each(
        Authority.collectors,
        Enum(
            "idle",
            "blob",
            "manifest",
            "unsure",
            "compare",
            "stored",
            "duplicate",
            "conflict",
            "parked",
        ),
    )
    batch = Each(Authority.collectors, Id(Authority.contents))
    # The generation of the blob that a collector relies on; -1 when it has only heard that one stands.
    known = Each(Authority.collectors, Id(Authority.horizons + 1, nobody=True))
    # Whose attempt under way wrote the manifest, and whose is late: manifests name the attempt.
    author = Id(Authority.collectors, nobody=True)
    late_author = Id(Authority.collectors, nobody=True)

    told = Each(Authority.contents, Enum("nothing", "stored", "parked"))

    # Derived of the manifest.
    listed = Bool()  # in accepted-by-time and raw-blobs-by-time
    referenced = Bool()  # in accepted-by-blob

    # Ghosts: for properties only.
    news = Int(0, 2)  # how often `duplicate=false` was answered
    live = Each(Authority.contents, Bool())  # some collector's live state shows the batch
    stranger = Each(Authority.collectors, Bool())
    forged = Bool()  # what was accepted first came from a stranger

    @action(c=Authority.collectors, h=Authority.contents, sender=SENDERS)
    def receive(s, c: int, h: int, sender: str) -> None:
        """An agent sends a batch, perhaps again, to any collector, while others may be at it still."""
        s.require((s.at[c] == "idle") & (s.told[h] == "nothing"))
        s.guard("identity-bound-to-agent", sender == "owner")
        s.at[c] = "blob"
        s.batch[c] = h
        s.stranger[c] = sender == "stranger"

    # The blob.

    @action(
        c=Authority.collectors,
        answer=("done", "exists", "lost", "reply-lost", "conflict"),
        clock=tuple(CLOCKS),
    )
    def put_blob(s, c: int, answer: str, clock: str) -> None:
        """Create-only, again until it is answered. After a conflict an upload in parts is begun anew."""
        s.require(s.at[c] == "blob")
        h, generation = s.batch[c], s.read_clock(clock)
        stands = s.holds_blob(h, generation)
        if answer in ("done", "reply-lost"):
            s.require(~stands)
            s.store(h, generation)
        elif answer == "exists":
            s.require(stands)
        # The next attempt with the same upload is told that there is none, and takes it for completed.
        taken_for_done = answer == "conflict" and not s.is_on("new-upload-on-multipart-409")
        if answer in ("done", "exists") or taken_for_done or not s.is_on("blob-before-manifest"):
            s.at[c] = "manifest"
            s.known[c] = -1 if answer == "exists" and not s.is_named else generation

    def read_clock(s, clock: str) -> Number:
        """The era that a collector takes for the present one. Where names say nothing, the store decides."""
        if not s.is_named:
            s.require(clock == "right")
            return s.era
        if clock == "far-behind":
            s.assume("bounded-skew", False)
        behind = CLOCKS[clock]
        s.require(s.era >= behind)
        return s.era - behind

    def is_current(s, generation: Number) -> Truth:
        """Whether a collector, by its clock, may still rely on the name."""
        if not s.is_named or not s.is_on("gc-stalled-writer") or not s.is_on("bounded-skew"):
            return Truth.constant(True)
        return generation >= s.era - USABLE

    @action(c=Authority.collectors, clock=tuple(CLOCKS))
    def store_anew(s, c: int, clock: str) -> None:
        """Before the manifest: by its name too old to rely on, or of an age that one does not know."""
        s.require(s.at[c].is_in("manifest", "unsure", "conflict"))
        s.require((s.known[c] < 0) | ~s.is_current(s.known[c]))
        generation = s.read_clock(clock)
        s.store(s.batch[c], generation)
        s.known[c] = generation

    # The manifest.

    @action(c=Authority.collectors, answer=("done", "exists", "conflict", "reply-lost", "lost", "late"))
    def create_manifest(s, c: int, answer: str) -> None:
        """The only moment at which a batch becomes accepted. Asked again where the answer was lost."""
        s.require(s.at[c].is_in("manifest", "unsure"))
        s.require(s.is_current(s.known[c]))
        s.trouble.spend(answer in ("reply-lost", "lost", "late"))
        manifest = s.authority(c)
        if answer == "exists":
            s.require(manifest.is_there)
        elif answer in ("done", "reply-lost"):
            s.forged = s.forged | ((s.first < 0) & s.stranger[c])
            s.accept(manifest, s.batch[c], s.known[c] if s.is_named else s.era)
            s.author = c
        elif answer == "late":
            s.send_late(c)
        s.live[s.batch[c]] = s.live[s.batch[c]] | (answer == "done")
        if answer != "conflict" or not s.is_on("409-proves-nothing"):
            s.at[c] = s.meaning(answer)

    def meaning(s, answer: str) -> str:
        """What a collector makes of an answer to the create."""
        if answer == "done":
            return "stored"
        if answer == "exists":
            return "compare" if s.is_on("compare-after-412") else "duplicate"
        if answer == "conflict":
            return "duplicate"
        return "unsure" if s.is_on("read-back-on-unknown") else "stored"

    def send_late(s, c: int) -> None:
        s.require(c % 2 == 0 or s.is_on("single-authority"))
        generation = s.known[c] if s.is_named else s.era
        s.manifest.create("late", late=s.late, content=s.batch[c], generation=generation)
        s.late_author = c

    @action
    def late_manifest_lands(s) -> None:
        s.require(~s.late.is_free)
        s.accept(s.manifest, s.late.content, s.late.generation if s.is_named else s.era)
        s.author = s.late_author
        s.late_author = -1
        s.late.clear()

    @action(c=Authority.collectors)
    def read_manifest(s, c: int) -> None:
        """Whose is it, and is it the same batch? After 412, after a lost answer, or before asking at all."""
        s.require(s.at[c].is_in("compare", "unsure", "manifest"))
        manifest = s.authority(c)
        s.require(manifest.is_there | (s.at[c] != "manifest"))
        same = manifest.holds(content=s.batch[c])
        mine = same & (s.author == c)
        found = pick(same, "duplicate", pick(manifest.is_there, "conflict", "manifest"))
        s.known[c] = pick(same & ~mine, -1, s.known[c])
        s.at[c] = pick(mine, "stored", found)
        told = mine if s.is_on("effects-after-create") else manifest.is_there
        s.live[s.batch[c]] = s.live[s.batch[c]] | told

    # The data.

    def since(s, c: int) -> Number:
        """The generation of what refers to the batch that is about to be answered."""
        recorded: Number = s.conflict[s.batch[c]].generation
        accepted: Number = s.authority(c).generation
        return pick(s.at[c] == "parked", recorded, accepted)

    @action(c=Authority.collectors)
    def see_blob(s, c: int) -> None:
        """After the manifest: the blob stands, and was within the horizon when the manifest came to be."""
        s.require(s.at[c].is_in("stored", "duplicate", "parked"))
        since = s.since(c)
        s.require(s.known[c] < since, s.is_kept(s.batch[c], since))
        s.known[c] = since

    @action(c=Authority.collectors)
    def put_blob_back(s, c: int) -> None:
        """Missing, or of an age that one does not know: store it anew from the frame in hand."""
        s.require(s.at[c].is_in("stored", "duplicate", "parked"))
        since = s.since(c)
        s.require(~s.is_kept(s.batch[c], since))
        generation = since if s.is_named else s.era
        s.require(s.known[c] < generation)
        s.store(s.batch[c], generation)
        s.known[c] = generation

    def is_safe(s, c: int, safeguard: str) -> Truth:
        """Whether the collector knows of a generation that nobody may have decided to collect."""
        return s.since(c) <= s.known[c] if s.is_on(safeguard) else Truth.constant(True)

    # The quarantine record.

    @action(c=Authority.collectors, answer=("done", "exists"))
    def record_conflict(s, c: int, answer: str) -> None:
        """Create-only: the first record that stands is as good as another."""
        s.require(s.at[c] == "conflict")
        s.require(s.is_current(s.known[c]))
        generation = s.known[c] if s.is_named else s.era
        s.conflict[s.batch[c]].create(answer, generation=generation)
        s.known[c] = s.known[c] if answer == "done" else -1
        s.at[c] = "parked"

    # The answer, and what follows.

    @action(c=Authority.collectors, heard=("yes", "no"))
    def answer_stored(s, c: int, heard: str) -> None:
        """200, `duplicate=false`."""
        s.require(s.at[c] == "stored")
        s.require(s.is_safe(c, "gc-stalled-writer"))
        s.trouble.spend(heard == "no")
        s.news = pick(s.news < 2, s.news + 1, 2)
        if heard == "yes":
            s.tell(c, "stored")
        s.rest(c)

    @action(c=Authority.collectors)
    def answer_duplicate(s, c: int) -> None:
        """200, `duplicate=true`: the batch is safe, and what follows is not for this collector to do."""
        s.require(s.at[c] == "duplicate")
        s.require(s.is_safe(c, "gc-stalled-writer-duplicate"))
        s.tell(c, "stored")
        s.rest(c)

    @action(c=Authority.collectors)
    def answer_conflict(s, c: int) -> None:
        """409: the agent parks the batch and goes on with later ones."""
        s.require(s.at[c] == "parked")
        s.require(s.is_safe(c, "gc-stalled-writer"))
        s.tell(c, "parked")
        s.rest(c)

    def tell(s, c: int, what: str) -> None:
        """The agent hears it, unless another collector was quicker."""
        h = s.batch[c]
        s.told[h] = pick(s.told[h] == "nothing", what, s.told[h])

    @action(c=Authority.collectors, entry=ENTRIES)
    def follow_up(s, c: int, entry: str) -> None:
        """What is derived of an accepted batch, in any order. It is written after the answer; but what is
        written then may as well be written right before, and what is late is `repair`.
        """
        s.require(s.at[c] == "stored")
        s.derive(entry)

    def derive(s, entry: str) -> None:
        if entry == "listing":
            s.require(~s.listed)
            s.listed = True
        else:
            s.require(~s.referenced)
            s.referenced = True

    @action(c=Authority.collectors)
    def give_up(s, c: int) -> None:
        """503: the store is away, or says nothing, or only 409. A crash looks the same to all others."""
        s.require(s.at[c].is_in("blob", "manifest", "unsure", "compare"))
        s.rest(c)

    @action(c=Authority.collectors)
    def crash(s, c: int) -> None:
        """The same once it is known what stands; it costs trouble, which keeps the space small."""
        s.require(s.at[c].is_in("stored", "duplicate", "conflict", "parked"))
        s.trouble.spend()
        s.rest(c)

    def rest(s, c: int) -> None:
        s.at[c] = "idle"
        s.batch[c] = 0
        s.known[c] = -1
        s.stranger[c] = False
        s.author = pick(s.author == c, -1, s.author)
        s.late_author = pick(s.late_author == c, -1, s.late_author)
