"""The acceptance protocol as runs of the code are followed by it: what the store shows, and what it proves.

`model/ingest` has a few collectors, each somewhere in the protocol. A run of the code has any number of
attempts, at any places, and nobody sees where: a collector may stall anywhere, die, and another one go on.
So what collectors know is written down as what *somebody* may know by now, which only grows:

    relied     the generations in which somebody may have been told that the blob stands, and rely on it
    assured    somebody may have seen the data, young enough, after the manifest or the record was there
    judged     the generations that somebody may have decided to delete, however late the delete lands

and what somebody does is possible where one of these says so. Labels stand for labels of the model:

    blob_stands       put_blob, store_anew, put_blob_back (done), another_stores_it
    accepted          create_manifest (done, reply-lost), late_manifest_lands
    recorded          record_conflict (done)
    derived           follow_up, repair
    deleted           delete
    told              answer_stored, answer_duplicate, answer_conflict
    shown_live        the live state of whoever accepted it

What put_blob, see_blob and decide make known is learnt with the step that makes it possible.

Every run of the model is a run of this one: tests walk the model at random and follow.

What this one cannot see: whether anything happens at all, and how old a blob is in a versioned bucket, since
events do not tell its time stamps. There a version is either of two generations, YOUNG until it `ages`, which
it may do at any time as long as nothing refers to it; and nobody knows whether an OLD one was the last.
"""

from typing import ClassVar

from fencepost.model import Bool, Each, Truth, action
from fencepost.model.ingest import Authority, Ingest
from fencepost.model.ingest.authority import USABLE

ENTRIES = ("listing", "reference")
TOLD = ("stored", "parked")
GENERATIONS = Authority.horizons + 1
OLD, YOUNG = 0, 1
"""Generations in a versioned bucket: nobody may have decided to delete what is young."""


class Followed(Authority):
    """See the top of this module."""

    safeguards: ClassVar = Ingest.safeguards
    assumptions: ClassVar = Ingest.assumptions

    relied = Each(Authority.contents, Each(GENERATIONS, Bool()))
    assured = Each(Authority.contents, Bool())
    judged = Each(Authority.contents, Each(GENERATIONS, Bool()))
    live = Bool()
    listed = Bool()
    referenced = Bool()

    # What somebody may know.

    def may_choose(s, generation: int) -> Truth:
        """Whether some clock may take it for the present era."""
        behind = 1 if s.is_on("bounded-skew") else s.horizons
        return (s.era >= generation) & (s.era <= generation + behind)

    def is_current(s, generation: int) -> Truth:
        """Whether a request that relies on it may still be sent, or land."""
        bounded = s.is_on("bounded-skew") and s.is_on("bounded-landing")
        return s.era <= generation + USABLE if bounded else Truth.constant(True)

    def is_referred_to(s, h: int) -> Truth:
        return s.manifest.holds(content=h) | s.conflict[h].is_there

    def learn(s) -> None:
        """Whatever somebody may come to know in this state is known from now on. Every step ends with it."""
        for h in range(s.contents):
            if s.is_named:
                s.learn_names(h)
            else:
                s.relied[h][OLD] = s.relied[h][OLD] | ~s.blob[h].is_empty()
                s.assured[h] = s.assured[h] | (s.is_referred_to(h) & s.blob[h].has(YOUNG))

    def learn_names(s, h: int) -> None:
        accepted, refused = s.manifest.holds(content=h), s.conflict[h].is_there
        kept = accepted & s.is_kept(h, s.manifest.generation)
        s.assured[h] = s.assured[h] | kept | (refused & s.is_kept(h, s.conflict[h].generation))
        for g in range(s.horizons + 1):
            stands = s.blob[h].has(g)
            s.relied[h][g] = s.relied[h][g] | (stands & s.may_choose(g))
            s.judged[h][g] = s.judged[h][g] | (stands & (s.era > g + s.margin) & ~(accepted | refused))

    @action
    def time_passes(s) -> None:
        s.require(s.is_named)
        Authority.time_passes(s)
        s.learn()

    @action(h=Authority.contents)
    def ages(s, h: int) -> None:
        s.require(not s.is_named)
        s.require(s.blob[h].has(YOUNG) & ~s.is_referred_to(h))
        s.blob[h] = {OLD}

    # What somebody does.

    @action(h=Authority.contents, generation=GENERATIONS)
    def blob_stands(s, h: int, generation: int) -> None:
        """Stored for the first time, anew, or late: under a name that is over it is one more orphan."""
        s.require(s.era >= generation if s.is_named else generation == YOUNG)
        s.blob[h] = s.blob[h].plus(generation)
        s.learn()

    @action(h=Authority.contents, generation=GENERATIONS)
    def accepted(s, h: int, generation: int) -> None:
        s.require(s.may_send(h, generation))
        s.accept(s.manifest, h, generation)
        s.learn()

    @action(h=Authority.contents, generation=GENERATIONS)
    def recorded(s, h: int, generation: int) -> None:
        s.require(s.manifest.is_there & ~s.manifest.holds(content=h))
        s.require(s.may_send(h, generation))
        s.conflict[h].create("done", generation=generation)
        s.learn()

    def may_send(s, h: int, generation: int) -> Truth:
        """Whether a document may land that relies on the blob."""
        if s.is_named:
            return s.relied[h][generation] & s.is_current(generation)
        return s.relied[h][OLD] & (generation == YOUNG)

    @action(entry=ENTRIES)
    def derived(s, entry: str) -> None:
        s.require(s.manifest.is_there & ~(s.listed if entry == "listing" else s.referenced))
        if entry == "listing":
            s.listed = True
        else:
            s.referenced = True

    @action(h=Authority.contents, generation=GENERATIONS, last=("yes", "no"))
    def deleted(s, h: int, generation: int, last: str) -> None:
        if s.is_named:
            s.require(last == "yes")
            s.require(s.blob[h].has(generation) & s.judged[h][generation])
        else:
            s.require(generation == OLD)
            s.require(s.blob[h].has(OLD))
        if last == "yes":
            s.blob[h] = s.blob[h].minus(generation)

    @action(h=Authority.contents, what=TOLD)
    def told(s, h: int, what: str) -> None:
        s.require(s.assured[h])
        if what == "stored":
            s.require(s.manifest.holds(content=h))
        else:
            s.require(s.conflict[h].is_there & s.manifest.is_there & ~s.manifest.holds(content=h))

    @action(h=Authority.contents)
    def shown_live(s, h: int) -> None:
        """By the collector whose create it was: so once."""
        s.require(s.manifest.holds(content=h) & ~s.live)
        s.live = True
