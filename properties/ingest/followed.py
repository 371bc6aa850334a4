"""The acceptance protocol as a run of the code is followed through it: what the store shows, and what that
proves.

`model/ingest.py` has a few collectors, each at some place in the protocol. A run of the code has any number
of attempts, at any places, and no event shows where: a collector may stall anywhere, die, and another one go
on. So the state records what *some* collector may know by now, which only grows:

    relied     the generations in which one may have learned that the blob stands, and rely on it
    assured    one may have seen the data, young enough, after the manifest or the record was there
    judged     the generations that one may have decided to delete, however late the delete lands

and an action is possible where one of these allows it. Labels stand for labels of the model:

    blob_stands       put_blob, store_anew, put_blob_back (done), another_stores_it
    accepted          create_manifest (done, reply_lost), late_manifest_lands
    recorded          record_conflict (done)
    derived           follow_up, repair
    deleted           delete
    answered          answer
    shown_live        the live state of the collector that accepted it

What put_blob, see_blob and decide make known is learned with the step that makes it possible. Every run of
the model is a run of this machine: tests walk the model at random and follow.

This machine cannot see whether anything happens at all, nor how old a blob is in a versioned bucket, since
events carry no time stamps. There a version is in one of two generations, YOUNG until it `ages`, which it may
do at any time as long as nothing refers to it; and whether an OLD one was the last is unknown.
"""

from typing import ClassVar

from fencepost.model import Bool, Each, Flags, Id, Int, Machine, Truth, action
from fencepost.model.ingest import ENTRIES, USABLE, Ingest
from fencepost.model.store import Key

OUTCOMES = ("stored", "parked")
OLD, YOUNG = 0, 1
"""Generations in a versioned bucket: nobody can have decided to delete what is young."""


class Followed(Machine):
    contents, horizons, versioned = Ingest.contents, Ingest.horizons, Ingest.versioned
    generations = horizons + 1
    assumptions: ClassVar = {name: Ingest.assumptions[name] for name in ("bounded-landing", "bounded-skew")}

    era = Int(0, horizons)
    blob = Each(contents, Flags(generations))
    manifest = Key(content=Id(contents), generation=Int(0, horizons))
    conflict = Each(contents, Key(generation=Int(0, horizons)))
    relied = Each(contents, Each(generations, Bool()))
    assured = Each(contents, Bool())
    judged = Each(contents, Each(generations, Bool()))
    live = Bool()
    listed = Bool()
    referenced = Bool()

    # What some collector may know.

    def may_choose(s, generation: int) -> Truth:
        """Whether some clock may take it for the present era."""
        behind = 1 if s.is_on("bounded-skew") else s.horizons
        return (s.era >= generation) & (s.era <= generation + behind)

    def is_current(s, generation: int) -> Truth:
        """Whether a request that relies on it may still be sent, or land."""
        bounded = s.is_on("bounded-skew") and s.is_on("bounded-landing")
        return s.era <= generation + USABLE if bounded else Truth.constant(True)

    def learn(s) -> None:
        """Whatever some collector can learn in this state is known from now on. Every step ends with it."""
        for h in range(s.contents):
            accepted, refused = s.manifest.holds(content=h), s.conflict[h].is_there
            if s.versioned:
                s.relied[h][OLD] = s.relied[h][OLD] | ~s.blob[h].is_empty()
                s.assured[h] = s.assured[h] | ((accepted | refused) & s.blob[h].has(YOUNG))
                continue
            kept = accepted & s.blob[h].has(s.manifest.generation)
            s.assured[h] = s.assured[h] | kept | (refused & s.blob[h].has(s.conflict[h].generation))
            for g in range(s.horizons + 1):
                stands = s.blob[h].has(g)
                s.relied[h][g] = s.relied[h][g] | (stands & s.may_choose(g))
                s.judged[h][g] = s.judged[h][g] | (stands & (s.era > g + USABLE) & ~(accepted | refused))

    @action
    def time_passes(s) -> None:
        s.require(not s.versioned, s.era < s.horizons)
        s.era = s.era + 1
        s.learn()

    @action(h=contents)
    def ages(s, h: int) -> None:
        s.require(bool(s.versioned), s.blob[h].has(YOUNG))
        s.require(~(s.manifest.holds(content=h) | s.conflict[h].is_there))
        s.blob[h] = {OLD}

    # What some collector does.

    @action(h=contents, generation=generations)
    def blob_stands(s, h: int, generation: int) -> None:
        """Stored for the first time, anew, or late: under a name that is over it is one more orphan."""
        s.require(generation == YOUNG if s.versioned else s.era >= generation)
        s.blob[h] = s.blob[h].plus(generation)
        s.learn()

    @action(h=contents, generation=generations)
    def accepted(s, h: int, generation: int) -> None:
        s.require(s.may_send(h, generation))
        s.manifest.create("done", content=h, generation=generation)
        s.learn()

    @action(h=contents, generation=generations)
    def recorded(s, h: int, generation: int) -> None:
        s.require(s.manifest.is_there & ~s.manifest.holds(content=h))
        s.require(s.may_send(h, generation))
        s.conflict[h].create("done", generation=generation)
        s.learn()

    def may_send(s, h: int, generation: int) -> Truth:
        """Whether a document may land that relies on the blob."""
        if s.versioned:
            return s.relied[h][OLD] & (generation == YOUNG)
        return s.relied[h][generation] & s.is_current(generation)

    @action(entry=ENTRIES)
    def derived(s, entry: str) -> None:
        s.require(s.manifest.is_there & ~(s.listed if entry == "listing" else s.referenced))
        if entry == "listing":
            s.listed = True
        else:
            s.referenced = True

    @action(h=contents, generation=generations, last=("yes", "no"))
    def deleted(s, h: int, generation: int, last: str) -> None:
        s.require(s.blob[h].has(generation))
        s.require(generation == OLD if s.versioned else s.judged[h][generation] & (last == "yes"))
        if last == "yes":
            s.blob[h] = s.blob[h].minus(generation)

    @action(h=contents, outcome=OUTCOMES)
    def answered(s, h: int, outcome: str) -> None:
        s.require(s.assured[h])
        if outcome == "stored":
            s.require(s.manifest.holds(content=h))
        else:
            s.require(s.conflict[h].is_there & s.manifest.is_there & ~s.manifest.holds(content=h))

    @action(h=contents)
    def shown_live(s, h: int) -> None:
        """By the collector whose create it was: so once."""
        s.require(s.manifest.holds(content=h) & ~s.live)
        s.live = True
