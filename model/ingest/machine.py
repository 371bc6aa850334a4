"""The whole machine: its switches, and its properties."""

from typing import ClassVar

from fencepost.model.ingest.collecting import Collecting
from fencepost.model.kernel import (
    Truth,
    all_of,
    always_recoverable,
    any_of,
    invariant,
    may_end,
    reachable,
    step,
)

ACCEPTING = {"horizons": 0, "shared": 0}
PLAIN = {"contents": 1, "horizons": 3, "versioned": 0, "shared": 0}


class Ingest(Collecting):
    """Batches that any collector may accept, with nothing shared but a bucket."""

    safeguards: ClassVar = {
        "create-only-manifest": "an identity's manifest is written once: the create decides between rivals",
        "compare-after-412": "who is told that the manifest exists reads whose batch it names",
        "409-proves-nothing": "409 on the manifest is asked again, and is never taken for a duplicate",
        "read-back-on-unknown": "who was not told whether its manifest landed looks, or asks again",
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
        "identity-bound-to-agent": "the agent that is authenticated is the one that the batch names",
    }
    assumptions: ClassVar = {
        "single-authority": "all collectors create manifests in one and the same bucket",
        "deny-deletes": "nobody deletes a manifest",
        "linearizable-create": "the store never creates over a manifest, not even of two requests at once",
        "bounded-landing": "a request lands before the margin is over, or never",
        "bounded-skew": "two clocks differ by less than the margin",
    }

    shown_at: ClassVar = {
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

    # Never bad.

    @invariant
    def one_acceptance(s) -> Truth:
        """An identity has one manifest, never another, and `duplicate=false` is answered at most once."""
        split = s.manifest.is_there & s.replica.is_there
        return (s.news < 2) & ~s.overwritten & ~(split & (s.manifest.content != s.replica.content))

    @invariant
    def never_reopened(s) -> Truth:
        """What was accepted first is what is accepted."""
        return ~s.manifest.is_there | s.overwritten | (s.manifest.content == s.first)

    @invariant
    def ack_durable(s) -> Truth:
        """After any 200 the manifest stands and finds its data, for ever."""
        return all_of((s.told[h] != "stored") | s.is_accepted(h) for h in range(s.contents))

    def is_accepted(s, h: int) -> Truth:
        """Whether a manifest that names the batch stands and finds its data."""
        return any_of(m.holds(content=h) & s.stands(h, m.generation) for m in (s.manifest, s.replica))

    @invariant
    def conflict_durable(s) -> Truth:
        """A parked batch has its record, and the record finds its data, until an operator has decided."""
        return all_of(
            (s.told[h] != "parked") | (s.conflict[h].is_there & s.stands(h, s.conflict[h].generation))
            for h in range(s.contents)
        )

    @step
    def truthful_duplicate(before, after: "Ingest") -> Truth:
        """200 is told only of a batch that the manifest names."""
        return ~any_of(
            before.hears(after, h, "stored")
            & ~any_of(m.holds(content=h) for m in (before.manifest, before.replica))
            for h in range(before.contents)
        )

    @step
    def truthful_conflict(before, after: "Ingest") -> Truth:
        """409 is told only of a batch whose identity another one has."""
        return ~any_of(
            before.hears(after, h, "parked")
            & ~any_of(m.is_there & (m.content != h) for m in (before.manifest, before.replica))
            for h in range(before.contents)
        )

    def hears(before, after: "Ingest", h: int, what: str) -> Truth:
        return (before.told[h] != after.told[h]) & (after.told[h] == what)

    @invariant
    def no_early_effect(s) -> Truth:
        """Nothing is done with a batch that is not accepted."""
        return all_of(~s.live[h] | (s.first == h) for h in range(s.contents))

    @invariant
    def effects_once(s) -> Truth:
        """No batch is counted twice, and none that is not accepted."""
        return (s.rolled < 2) & ((s.rolled == 0) | (s.first >= 0))

    @always_recoverable
    def effects_eventually(s) -> Truth:
        """What is accepted can always come to be found by every index and counted."""
        return ~s.manifest.is_there | (s.listed & s.referenced & (s.rolled == 1) & s.is_readable())

    @always_recoverable
    def answered(s) -> Truth:
        """Every agent can come to be told what became of its batch."""
        return ~s.told.any("nothing")

    @step
    def gc_safe(before, after: "Ingest") -> Truth:
        """No generation goes that a manifest or record relies on."""
        return all_of(
            ~before.is_relied_on(h, g) | after.blob[h].has(g)
            for h in range(before.contents)
            for g in range(before.horizons + 1)
        )

    def is_relied_on(s, h: int, g: int) -> Truth:
        """Whether this generation was within the horizon when the manifest or the record came to be."""
        since = [(s.manifest.holds(content=h), s.manifest.generation)]
        since.append((s.conflict[h].is_there, s.conflict[h].generation))
        return s.blob[h].has(g) & any_of(
            there & ((generation == g) if s.is_named else (generation <= g)) for there, generation in since
        )

    @invariant
    def cursor_honest(s) -> Truth:
        """What the cursor has passed without its being repaired is old enough for the next audit."""
        audited = s.manifest.generation < s.era - 1
        return ~s.manifest.is_there | s.referenced | s.is_scanned() | audited

    @step
    def cursor_waits(before, after: "Ingest") -> Truth:
        """What is listed and cannot be repaired yet stays within the reach of the next listing."""
        return ~(before.listed & ~before.referenced & before.is_scanned()) | after.is_scanned()

    @invariant
    def no_forgery(s) -> Truth:
        """No agent's batch is accepted in the name of another."""
        return ~s.forged

    # Sometimes good. What a size is too small for is not asked of it.

    @reachable
    def counted(s) -> Truth:
        """Everybody is answered, and what is accepted is listed, referenced and counted."""
        return s.all_told() & s.listed & s.referenced & (s.rolled == 1)

    @reachable
    def accepted_unawares(s) -> Truth:
        """A batch can be accepted while its agent knows nothing and no collector is at it."""
        return s.manifest.is_there & s.told.all("nothing") & s.at.all("idle")

    @reachable
    def told_as_duplicate(s) -> Truth:
        """A batch can be answered as a duplicate though nobody was answered before."""
        return s.told.any("stored") & (s.news == 0)

    @reachable
    def conflict_parked(s) -> Truth:
        """One batch can be stored and another one parked."""
        return s.told.any("stored") & s.told.any("parked") if s.contents > 1 else Truth.constant(True)

    @reachable
    def without_data(s) -> Truth:
        """Where nothing is asked of time: a batch can be accepted with its data gone, and nobody told so."""
        if not s.versioned or not s.horizons:
            return Truth.constant(True)
        return s.manifest.is_there & ~s.is_readable()

    @reachable
    def stored_anew(s) -> Truth:
        """Where the horizon passes, a blob can stand in two generations, the older of them doomed."""
        if s.horizons <= s.margin:
            return Truth.constant(True)
        return any_of(s.doomed & (s.doomed_content == h) & (s.blob[h].size() > 1) for h in range(s.contents))

    @may_end
    def all_told(s) -> Truth:
        """All agents know what became of their batches."""
        return ~s.told.any("nothing")
