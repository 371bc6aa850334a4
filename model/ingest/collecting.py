"""The garbage collector: blobs that nobody refers to, and nobody will.

Judging the age and reading the references are one step: the age is judged first, and a blob only grows
older until the references are read. Deleting is another, any time later, for a request may land late; so a
collector that crashed may still delete what it had decided on.

The audit that the absence of a reference needs reads the manifests themselves, after the age was judged.
"""

from fencepost.model.ingest.deriving import Deriving
from fencepost.model.kernel import Bool, Id, Truth, action


class Collecting(Deriving):
    """What may be deleted."""

    doomed = Bool()
    doomed_content = Id(Deriving.contents)
    doomed_generation = Id(Deriving.horizons + 1)

    @action(h=Deriving.contents, generation=Deriving.horizons + 1)
    def decide(s, h: int, generation: int) -> None:
        """Older than the horizon and the margin, and nothing refers to it."""
        s.require(~s.doomed & s.blob[h].has(generation))
        s.guard("gc-age", s.era > generation + s.margin)
        s.require(~s.is_referenced(h))
        s.doomed = True
        s.doomed_content = h
        s.doomed_generation = generation

    def is_referenced(s, h: int) -> Truth:
        """As far as the garbage collector knows."""
        accepted = s.manifest.holds(content=h)
        if not s.is_on("gc-audit-before-trust"):
            accepted = accepted & s.referenced
        if not s.is_on("gc-quarantine-refs"):
            return accepted
        return accepted | s.conflict[h].is_there

    @action(h=Deriving.contents, generation=Deriving.horizons + 1)
    def delete(s, h: int, generation: int) -> None:
        """Of that generation alone; without generations, of whatever stands there by now."""
        s.require(s.doomed & (s.doomed_content == h) & (s.doomed_generation == generation))
        kind = "version" if s.versioned else "generation"
        if s.is_on(f"gc-stalled-writer-{kind}"):
            s.blob[h] = s.blob[h].minus(generation)
        else:
            s.blob[h] = frozenset[int]()
        s.doomed = False
        s.doomed_content = 0
        s.doomed_generation = 0
