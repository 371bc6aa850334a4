"""The acceptance authority: one bucket and prefix, as far as one identity and its blobs are concerned.

One identity, because identities share nothing but blobs: what another identity's batch with the same bytes
does to a blob is `another_stores_it`. The content of a batch is its hash; two batches of one identity are two
contents, and whoever sends the second is a twin of the agent (a restored disk, a cloned machine).

Time is counted in eras: in each of them the retry horizon passes once. A blob's generation is the era in
which it was stored, so `s.blob[h]` is the set of the generations that stand, and one that was removed never
comes again: its era is over. What a generation is depends on the bucket.

    versioned   a version of the key. Its age is told by the store's own clock (Last-Modified), as is the
                manifest's, so anybody can tell whether a version was within the horizon when the manifest
                came to be: no clock of ours takes part. `manifest.generation` is the era of its creation.
    plain       a key of its own, which names the era by the collector's clock. The manifest names that key:
                `manifest.generation` is the generation that it names.

Without `gc-stalled-writer-generation` a plain bucket has one key a blob, and deleting takes whatever stands
there by then; the same without `gc-stalled-writer-version` in a versioned one.
"""

from fencepost.model.kernel import (
    Bool,
    Each,
    Flags,
    Id,
    Int,
    Machine,
    Number,
    Size,
    Truth,
    action,
    any_of,
    pick,
)
from fencepost.model.store import Budget, Key, KeyView, Late

USABLE = 2
"""Eras, in a plain bucket: a clock may be one behind, a request one more on its way. The protocol's own."""


class Authority(Machine):
    """What stands in the bucket, and how time passes."""

    collectors = Size(2, most=4, doc="processes that accept batches")
    contents = Size(2, most=3, doc="different batches that come under the one identity")
    horizons = Size(1, least=0, most=16, doc="how often the retry horizon passes in one run")
    troubles = Size(1, least=0, most=4, doc="crashes, lost answers and late requests, all together")
    shared = Size(1, least=0, most=3, doc="contents that batches of other identities may have as well")
    scanning = Size(0, least=0, most=1, doc="whether the reconciler's cursor moves: 1 or 0")
    versioned = Size(1, least=0, most=1, doc="whether the bucket keeps versions: 1 or 0")

    era = Int(0, horizons)
    blob = Each(contents, Flags(horizons + 1))
    manifest = Key(content=Id(contents), generation=Int(0, horizons))
    replica = Key(content=Id(contents), generation=Int(0, horizons))  # of a bucket that should not accept
    late = Late(manifest, only=("create",))
    conflict = Each(contents, Key(generation=Int(0, horizons)))  # quarantine record of a refused content
    trouble = Budget(troubles)

    # Ghosts: for properties only.
    first = Id(contents, nobody=True)  # what was accepted first
    overwritten = Bool()  # a manifest took the place of one with another content

    # The bucket's kind.

    @property
    def is_named(s) -> bool:
        """Whether the keys of blobs name their generation."""
        return not s.versioned and s.is_on("gc-stalled-writer-generation")

    @property
    def margin(s) -> int:
        """So many eras after its own a generation may be relied on; what is older may be collected."""
        return 0 if s.versioned else USABLE

    # Blobs.

    def holds_blob(s, h: int | Number, generation: int | Number) -> Truth:
        """Whether a create-only put is told that there is one."""
        return s.blob[h].has(generation) if s.is_named else ~s.blob[h].is_empty()

    def stands(s, h: int | Number, since: Number) -> Truth:
        """Whether the data is found by who reads a manifest or record of this generation."""
        return s.blob[h].has(since) if s.is_named else ~s.blob[h].is_empty()

    def is_kept(s, h: int | Number, since: Number) -> Truth:
        """Whether it is found in a generation that nobody may have decided to collect before the manifest."""
        if s.is_named:
            return s.blob[h].has(since)
        return any_of(s.blob[h].has(g) & (since <= g) for g in range(s.horizons + 1))

    def store(s, h: int | Number, generation: Number) -> None:
        s.blob[h] = s.blob[h].plus(generation)

    @action(h=shared)
    def another_stores_it(s, h: int) -> None:
        """A batch of another identity has the same bytes; or a request of ours was late, or needless."""
        s.require(h < s.contents)
        s.require(~s.blob[h].has(s.era))
        s.store(h, s.era)

    @action
    def time_passes(s) -> None:
        s.require(s.era < s.horizons)
        if not s.versioned:
            s.assume("bounded-landing", s.late.is_free | (s.late.generation > s.era - USABLE))
        s.era = s.era + 1

    # Manifests.

    def authority(s, c: int) -> KeyView:
        """The manifest as collector c can see it."""
        return s.manifest if s.is_on("single-authority") or c % 2 == 0 else s.replica

    def accept(s, manifest: KeyView, h: int | Number, generation: int | Number) -> None:
        """A create takes effect."""
        if not (s.is_on("create-only-manifest") and s.is_on("linearizable-create")):
            s.overwritten = s.overwritten | (manifest.is_there & (manifest.content != h))
            manifest.put(content=h, generation=generation)
        else:
            manifest.create("done", content=h, generation=generation)
        s.first = pick(s.first < 0, h, s.first)

    @action
    def manifest_deleted(s) -> None:
        """An operator, a lifecycle rule: in a versioned bucket this leaves a marker, and the key is free."""
        s.assume("deny-deletes", False)
        s.require(s.manifest.is_there)
        s.manifest.delete()
