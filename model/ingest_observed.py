"""Ingest as the store shows it: the blobs, the manifest and the records of one identity, and the answers.

The specification that `model/ingest.py` refines and that traces of the code are judged by. A trace shows
neither the state of a collector nor how many there are: one may stall anywhere, die, and another go on. So
this machine records what *some* collector may have learned by now, which only grows (`relied`, `assured`,
`judged`), and an action is possible where that allows it.

    the manifest      none -- accepted --> accepted, which indexed, shown_live and replied need
    a record          none -- recorded --> recorded, after another batch was accepted
    a generation      missing -- blob_stands --> there -- deleted --> missing
    of a blob

In a *plain* bucket a generation is the era that the blob's key names, and `time_passes`. In a *versioned*
bucket the store has the only clock, and a trace does not show it: a version is YOUNG until it `ages`, and OLD
then. It may age at any time as long as no manifest and no record refers to it.

Some properties of `model/ingest.py` have no counterpart, because the store does not show what they are about:
the reconciler's cursor (`cursor_honest`, `cursor_waits`), rollups (`effects_once`), senders (`no_forgery`).
"""

from fencepost.model import *
from fencepost.model.store import Key

USABLE = 2  # eras that a blob name is relied on: a clock may be one behind, a request one under way
ENTRIES = ("listing", "reference")
OLD = 0
YOUNG = 1
PLAIN = {"contents": 1, "horizons": 3, "versioned": 0}


class IngestObserved(Machine):
    """One identity's batches in a bucket, and the answers to its agents."""

    # Constants.
    contents = Size(2, most=3, doc="different batches that come under the one identity")
    horizons = Size(1, least=1, most=16, doc="how often the retry horizon passes in one run")
    versioned = Size(1, least=0, most=1, doc="1 if the bucket keeps versions, 0 if not")
    generations = horizons + 1

    assumptions = {
        "bounded-landing": "a request lands before the margin is over, or never",
        "bounded-skew": "two clocks differ by less than the margin",
    }

    # State: what the store has.
    era = Int(0, horizons)
    blob = Each(contents, Flags(generations))  # the generations that exist
    manifest = Key(content=Id(contents), generation=Int(0, horizons))
    conflict = Each(contents, Key(generation=Int(0, horizons)))  # quarantine record of a refused content
    derived = Each(ENTRIES, Bool())  # accepted-by-time; accepted-by-blob

    # State: what agents and live state were shown.
    outcome = Each(contents, Enum("nothing", "stored", "parked"))
    is_new = Bool()  # `duplicate=false` was answered
    live = Bool()

    # State: what some collector may know.
    relied = Each(contents, Each(generations, Bool()))  # it has found the blob, and may rely on it
    assured = Each(contents, Bool())  # it has found the blob, young enough, after the manifest or the record
    judged = Each(contents, Each(generations, Bool()))  # it has decided to delete it, now or much later

    # Definitions: time.
    def may_choose(s, generation: int) -> Truth:
        """A clock may take this generation for the present era."""
        return (s.era >= generation) & (s.era <= generation + 1)

    any_before = without("bounded-skew", replaces=may_choose)(lambda s, generation: s.era >= generation)

    def is_current(s, generation: int) -> Truth:
        """A request that relies on it may be sent, or land."""
        return s.era <= generation + USABLE

    always_current = without("bounded-skew", "bounded-landing", replaces=is_current)(
        lambda s, generation: True
    )

    # Definitions: documents, which are the manifest and the records.
    is_accepted = define(lambda s, h: s.manifest.holds(content=h))
    is_refused = define(lambda s, h: s.manifest.is_there & ~s.manifest.holds(content=h))
    is_referenced = define(lambda s, h: s.is_accepted(h) | s.conflict[h].is_there)

    def has_data(s, h: int, since: int | Number) -> Truth:
        """The data exists in the generation of a document, which no collector can have decided to delete."""
        return s.blob[h].has(YOUNG) if s.versioned else s.blob[h].has(since)

    def is_found(s, h: int) -> Truth:
        """The manifest, or the record, of this batch finds its data."""
        by_manifest = s.is_accepted(h) & s.has_data(h, s.manifest.generation)
        by_record = s.conflict[h].is_there & s.has_data(h, s.conflict[h].generation)
        return by_manifest | by_record

    def may_send(s, h: int, generation: int) -> Truth:
        """A document of this generation may land, which relies on the blob."""
        if s.versioned:
            return s.relied[h][OLD] & (generation == YOUNG)
        return s.relied[h][generation] & s.is_current(generation)

    def learn(s) -> None:
        """Each collector that can learn something now has learned it."""
        for h in range(s.contents):
            s.assured[h] |= s.is_found(h)
            if s.versioned:
                s.relied[h][OLD] |= ~s.blob[h].is_empty()
            else:
                s.learn_generations(h)

    def learn_generations(s, h: int) -> None:
        for g in range(s.horizons + 1):
            exists = s.blob[h].has(g)
            s.relied[h][g] |= exists & s.may_choose(g)
            s.judged[h][g] |= exists & (s.era > g + USABLE) & ~s.is_referenced(h)

    # Actions: time.
    @action
    def time_passes(s) -> None:
        """In a plain bucket; no event shows it."""
        s.require(s.versioned == 0, s.era < s.horizons)
        s.era += 1
        s.learn()

    @action(h=contents)
    def ages(s, h: int) -> None:
        """In a versioned bucket; no event shows it. A version that a document refers to stays young."""
        s.require(s.versioned > 0, s.blob[h].has(YOUNG), ~s.is_referenced(h))
        s.blob[h] = {OLD}

    # Actions: blobs.
    @action(h=contents, generation=generations)
    def blob_stands(s, h: int, generation: int) -> None:
        """Stored for the first time, anew, or late. In a plain bucket create-only, perhaps by an old name."""
        if s.versioned:
            s.require(generation == YOUNG)
        else:
            s.require(s.era >= generation, ~s.blob[h].has(generation))
        s.blob[h] = s.blob[h].plus(generation)
        s.learn()

    @action(h=contents, generation=generations, last=("yes", "no"))
    def deleted(s, h: int, generation: int, last: str) -> None:
        """Garbage, judged before. Of a versioned bucket's OLD versions it may be the last one, or not."""
        s.require(s.blob[h].has(generation))
        if s.versioned:
            s.require(generation == OLD)
        else:
            s.require(s.judged[h][generation], last == "yes")
        if last == "yes":
            s.blob[h] = s.blob[h].minus(generation)

    # Actions: documents.
    @action(h=contents, generation=generations)
    def accepted(s, h: int, generation: int) -> None:
        """Create-only: the identity's manifest names this batch."""
        s.require(s.may_send(h, generation))
        s.manifest.create("done", content=h, generation=generation)
        s.learn()

    @action(h=contents, generation=generations)
    def recorded(s, h: int, generation: int) -> None:
        """Create-only: the batch is refused, because the manifest names another one."""
        s.require(s.is_refused(h), s.may_send(h, generation))
        s.conflict[h].create("done", generation=generation)
        s.learn()

    @action(entry=among(ENTRIES, derived=False))
    def indexed(s, entry: str) -> None:
        """Create-only: an index has the batch of the manifest."""
        s.require(s.manifest.is_there)
        s.derived[entry] = True

    # Actions: answers.
    @action(h=contents)
    def shown_live(s, h: int) -> None:
        """Live state shows the batch, by the collector whose create it was: so once."""
        s.require(s.is_accepted(h), ~s.live)
        s.live = True

    @action(h=contents, reply=("accepted", "duplicate", "parked"))
    def replied(s, h: int, reply: str) -> None:
        """The agent learns the outcome. The collector whose create it was answers `accepted`: so once."""
        s.require(s.assured[h])
        if reply == "parked":
            s.require(s.is_refused(h), s.conflict[h].is_there)
            s.outcome[h] = "parked"
        else:
            s.require(s.is_accepted(h))
            s.outcome[h] = "stored"
        if reply == "accepted":
            s.require(~s.is_new)
            s.is_new = True

    # Properties: never bad.
    one_acceptance = step("An identity has one manifest, never another.")(
        lambda before, after: implies(
            before.manifest.is_there & after.manifest.is_there,
            before.manifest.content == after.manifest.content,
        )
    )
    never_reopened = step("What was accepted first stays accepted.", h=contents)(
        lambda before, after, h: implies(before.is_accepted(h), after.is_accepted(h))
    )
    ack_durable = invariant("After any 200 the manifest exists and finds its data, for ever.", h=contents)(
        lambda s, h: implies(
            s.outcome[h] == "stored", s.is_accepted(h) & s.has_data(h, s.manifest.generation)
        )
    )
    conflict_durable = invariant(
        "A record is of a batch that is not accepted; a parked batch has its record, which finds its data.",
        h=contents,
    )(
        lambda s, h: (
            implies(s.conflict[h].is_there, s.is_refused(h))
            & implies(
                s.outcome[h] == "parked", s.conflict[h].is_there & s.has_data(h, s.conflict[h].generation)
            )
        )
    )
    learns = define(lambda s, after, h, what: (s.outcome[h] != after.outcome[h]) & (after.outcome[h] == what))
    truthful_duplicate = step("200 is answered only for a batch that the manifest names.", h=contents)(
        lambda before, after, h: implies(before.learns(after, h, "stored"), before.is_accepted(h))
    )
    truthful_conflict = step("409 is answered only for a batch whose identity another one has.", h=contents)(
        lambda before, after, h: implies(before.learns(after, h, "parked"), before.is_refused(h))
    )
    no_early_effect = invariant("Nothing is done with a batch before one is accepted.")(
        lambda s: implies(s.live | s.is_new | s.derived.any(True), s.manifest.is_there)
    )
    gc_safe = step("Data that a document finds is never deleted.", h=contents)(
        lambda before, after, h: implies(before.is_found(h), after.is_found(h))
    )
    answered = always_recoverable("Every agent can still learn the outcome of its batch.")(
        lambda s: s.all_answered()
    )
    effects_eventually = always_recoverable("What is accepted can still be found by every index.")(
        lambda s: implies(s.manifest.is_there, s.derived.all(True))
    )

    # Properties: sometimes good.
    accepted_unawares = reachable("A batch can be accepted before its agent knows.")(
        lambda s: s.manifest.is_there & s.outcome.all("nothing")
    )
    answered_as_duplicate = reachable("A batch can be answered as a duplicate, and never as new.")(
        lambda s: s.outcome.any("stored") & ~s.is_new
    )
    conflict_parked = reachable("One batch can be stored and another one parked.")(
        lambda s: s.outcome.any("stored") & (s.outcome.any("parked") | (s.contents == 1))
    )
    stored_in_two = reachable("A blob can be there in two generations.", h=contents)(
        lambda s, h: s.blob[h].size() > 1
    )
    all_answered = may_end(lambda s: ~s.outcome.any("nothing"))

    # Where the checker shows what.

    shown_at = {"bounded-landing": PLAIN, "bounded-skew": PLAIN}
    fires_at = {"time_passes": PLAIN}
    changes_at = {"era": PLAIN, "judged": PLAIN}
