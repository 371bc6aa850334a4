"""The designs of streams that 0020-streams.md rejects, each as a variant of the model.

    fencepost check docs/decisions/rejected_streams.py:Chained --set troubles=0

Each violates a property of `Streams`; the record quotes the counterexamples.
"""

from fencepost.model import *
from fencepost.model.streams import NONE, UNDER_WAY, Streams


class Chained(Streams):
    """(a) Manifests are a chain of create-only ids: after a reap has deleted the chain, each id is free."""

    def may_swap(s, n: int) -> Truth:
        return s.node[n].current | ~s.manifest.is_there


class DeletesBeforeCreating(Streams):
    """(b) A recreate deletes the manifest and creates another, and waits for no late copy of a create."""

    recreate = None

    @action(n=among(Streams.node, reap="data"))
    def delete_manifest(s, n: int) -> None:
        s.require(s.is_emptied(n), s.may_delete(n))
        s.remove_manifest(n)

    fires_at = {**Streams.fires_at, "late_create_lands": {}}


class ScansManifestsAlone(Streams):
    """(b) The scan lists manifests alone: data that was uploaded late has none that leads to it."""

    collect = None


class ServesTails(Streams):
    """(d) The owner serves bytes before the manifest lists them: another owner may list others there."""

    reading = Size(1, least=1, most=1, doc="number of readers")
    tail = Id(Streams.appends, nobody=True)  # read at the last offset, before a manifest listed it

    @action(n=among(Streams.node, at=UNDER_WAY))
    def read_tail(s, n: int) -> None:
        s.require(s.reads == s.node[n].life, s.position == s.node[n].length)
        s.tail = s.node[n].append
        s.position += 1

    @action
    def read(s) -> None:
        s.require(s.is_live(), s.reads == s.manifest.life, s.position < s.manifest.length)
        s.position += 1
        s.tail = NONE

    @action
    def start_over(s) -> None:
        s.require(s.is_live(), s.reads != s.manifest.life)
        s.reads = s.manifest.life
        s.position = 0
        s.tail = NONE

    @invariant(o=Streams.appends, a=Streams.appends)
    def cursor_honest(s, o: int, a: int) -> Truth:
        """The bytes that a reader has are the bytes of the stream."""
        has_read = (s.reads == s.manifest.life) & (s.position == o + 1) & (s.tail == a)
        return implies(s.is_live() & s.is_listed(o) & has_read & ~s.is_missing(o), s.shows(o, a))

    fires_at = {}
    changes_at = {}


class OffsetsWithoutLineage(Streams):
    """(d) An offset does not name its incarnation, so it is one of the next incarnation as well."""

    reading = Size(1, least=1, most=1, doc="number of readers")
    skipped = Bool()  # ghost: the reader went on behind the first bytes of an incarnation

    @action
    def start_over(s) -> None:
        s.require(s.is_live(), s.reads != s.manifest.life)
        s.skipped |= s.position > 0
        s.reads = s.manifest.life
        s.position = 0

    @invariant
    def cursor_honest(s) -> Truth:
        """A reader begins every incarnation at its first byte."""
        return ~s.skipped
