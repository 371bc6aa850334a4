"""Rules that single requests of a run must keep, beside the model: conditions, data objects, reads.

The model covers the meaning of documents. It leaves out the condition with which a document was written, the
existence of the data that it refers to, and the results of reads. These rules cover them, for all runs of a
table at once:

    conditions   a write of some kind of key carries one of its conditions
    kept         nothing deletes a key of some kind
    staged       a document counts the data objects of its owner: all are stored before the owner goes on
    freed        a data object that the run stored is deleted only after a document that allows it
    confirmed    after a write was answered `done`, a key is read before its owner concludes; or it was read
                 before the write, and after the owner's document
    read_first   a process that writes one kind of key has read another one before
    seen_first   a process that deletes a key of some kind has written or read that key before
    existence    no request finds an object missing that was there and that nothing can have deleted since,
                 nor one that was missing and that nothing can have written since

A request takes effect at one moment: where it landed if the run records that; else between its request and
its response, or any time later if its outcome is unknown. A rule is broken only where no such moment explains
the run. Requests of different processes are in a known order only in runs that record landings; elsewhere
their order comes from clocks, and existence is judged for each process by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.properties.refinement.observation import Keys


@dataclass(frozen=True)
class Staged:
    """The trace field `count` of a `document` is the number of keys of kind `data` that its owner stores
    before it writes a first `then`, unless that has the trace field `unless=yes`. Each names the owner in
    `owner`, a group of the key or a trace field.
    """

    document: str
    count: str
    data: str
    then: str
    unless: str
    owner: str


@dataclass(frozen=True)
class Freed:
    """Keys of kind `data` are deleted only after a `by` whose trace field `name` is `value`."""

    data: str
    by: str
    name: str
    value: str


@dataclass(frozen=True)
class Confirmed:
    """After its `written` was answered `done`, a process reads `read`, and then deletes the owner's
    `concluded` or notes the outcome `noted`. With `guarded`, it may instead read `read` after it has written
    `concluded`, and before it sends `written`.
    """

    written: str
    read: str
    concluded: str
    noted: str
    owner: str
    guarded: bool = False


@dataclass(frozen=True)
class RequestRules:
    """See the top of this module. Kinds of keys are those of the map, and those of `keys`."""

    keys: tuple[Keys, ...] = ()
    """Kinds of keys that the model does not know."""
    conditions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    staged: Staged | None = None
    freed: Freed | None = None
    confirmed: Confirmed | None = None
    read_first: tuple[tuple[str, str], ...] = ()
    """Pairs of kinds: the one that is written, and the one that is read before."""
    seen_first: tuple[str, ...] = ()
    """Kinds of keys that a process deletes only after it wrote or read the key. Keys that the run does not
    show being written are left out: a process may have seen them before the run began."""
    deletes_all: bool = True
    """A delete leaves no object at its key. Not so where it names one version of several."""
    not_judged: tuple[str, ...] = ()
    """Texts that name what neither the model nor these rules judge."""


UNDECLARED = ("conditions, data objects and reads, for which this map declares no rules",)
ALWAYS = (
    "what was there before the run began, and what processes did that the trace leaves out",
    "whether what is owed happens at all",
    "reads that no rule requires",
    "listings",
    "the bytes of objects whose hash the trace does not show",
    "requests whose condition is not recorded",
    "what one process read against what another wrote, where only clocks order them",
    "keys that the map does not name",
)


def not_judged(rules: RequestRules | None) -> tuple[str, ...]:
    """Return texts on what a verdict by a map with these rules leaves open."""
    return UNDECLARED if rules is None else (*rules.not_judged, *ALWAYS)
