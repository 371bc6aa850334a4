"""Streams as the store shows them: the manifest of one name, and the segments of its incarnations.

The specification that `model/streams.py` refines and that traces of the code are judged by. A trace of the
store shows neither the state of a node nor what the node has read, so this machine has the store alone: an
action is possible where some node can have come to it.

                     owned, refreshed, listed_segment
                              ┌────────┐
                 created      v        │   buried               manifest_deleted
    no manifest ---------->  live manifest  -------->  tombstone  ------------>  no manifest
                              ^                            │
                              └───────── swapped ──────────┘

Segments are `uploaded` and `data_deleted` at any time, within the rules of these two actions.

An owner is numbered within its incarnation, from 0; so is a place, the first offset of a segment. The number
of a place does not give its order in the stream: uploads of several sizes can begin at one offset. Three
properties of `model/streams.py` have no counterpart, because the store does not show what they are about:
`append_once` (producers), `cursor_honest` (readers), `boot_never_bricks` (a node's boot). `zombie_fenced`
here is of owners alone, and not of producers.
"""

from fencepost.model import *
from fencepost.model.store import Key

NONE = -1


class StreamsObserved(Machine):
    """One name of a stream on an object store: its manifest, and the segments of its incarnations."""

    # Constants.
    lives = Size(2, most=4, doc="incarnations of the name in one run")
    owners = Size(2, most=12, doc="owners of one incarnation")
    places = Size(2, most=10, doc="first offsets of segments of one incarnation")

    # State: the manifest, and the list of segments in it.
    manifest = Key(
        life=Id(lives),
        owner=Id(owners),
        tomb=Bool(),
        count=Int(0, places),  # listed segments
        last=Id(places, nobody=True),  # the place of the last listed segment
    )
    listed = Each(places, Id(owners, nobody=True))  # by place: the owner of the listed segment

    # State: segments, and the owners that may upload some.
    data = Each(lives, Each(owners, Flags(places)))  # the places at which a segment of the owner exists
    granted = Each(lives, Int(0, owners))  # owners so far; 0 before the incarnation begins

    # Definitions.
    is_live = define(lambda s: s.manifest.is_there & ~s.manifest.tomb)
    is_dead = define(lambda s: s.manifest.is_there & s.manifest.tomb)
    is_live_at = define(lambda s, life: s.is_live() & (s.manifest.life == life))
    is_owned = define(lambda s, life, owner: s.is_live_at(life) & (s.manifest.owner == owner))

    def is_missing(s, place: int) -> Truth:
        """The manifest lists a segment at this place that does not exist."""
        missing = [
            (s.manifest.life == life) & (s.listed[place] == owner) & ~s.data[life][owner].has(place)
            for life in range(s.lives)
            for owner in range(s.owners)
        ]
        return s.manifest.is_there & any_of(missing)

    def is_remaining(s, place: int) -> Truth:
        """The manifest lists a segment at this place that exists."""
        return (s.listed[place] != NONE) & ~s.is_missing(place)

    def is_whole(s) -> Truth:
        return ~any_of(s.is_missing(place) for place in range(s.places))

    def has_listed_data(s) -> Truth:
        return any_of(s.is_remaining(place) for place in range(s.places))

    def adds_up(s) -> Truth:
        """The manifest counts the segments that it lists, and the last one is one of them."""
        is_listed = [s.listed[place] != NONE for place in range(s.places)]
        has_last = all_of(implies(s.manifest.last == place, listed) for place, listed in enumerate(is_listed))
        return (s.manifest.count == count_of(is_listed)) & has_last

    def begin(s, life: int) -> None:
        """Write the first manifest of an incarnation, which lists nothing."""
        s.require(s.granted[life] == 0)
        s.manifest.put(life=life, owner=0, tomb=False, count=0, last=NONE)
        s.granted[life] = 1
        s.clear_list()

    def clear_list(s) -> None:
        for place in range(s.places):
            s.listed[place] = NONE

    def change_manifest(s, **changes: object) -> None:
        """Write the manifest with these parts changed."""
        parts = {part: getattr(s.manifest, part) for part in ("life", "owner", "tomb", "count", "last")}
        s.manifest.put(**{**parts, **changes})

    # Actions: an incarnation begins.
    @action(life=lives)
    def created(s, life: int) -> None:
        """Create-only."""
        s.require(~s.manifest.is_there)
        s.begin(life)

    @action(life=lives)
    def swapped(s, life: int) -> None:
        """Replace the tombstone, after the data that it lists is deleted. Late uploads may be left."""
        s.require(s.is_dead())
        s.require(~s.has_listed_data())
        s.begin(life)

    # Actions: the owner of a live manifest.
    @action(life=lives)
    def owned(s, life: int) -> None:
        """The next owner takes the stream: from now on the one before is fenced."""
        s.require(s.is_live_at(life), s.granted[life] < s.owners)
        s.change_manifest(owner=s.granted[life])
        s.granted[life] += 1

    @action(life=lives, owner=owners)
    def refreshed(s, life: int, owner: int) -> None:
        """Write what this machine does not have: the deadline, forks, the end of a stream, an index."""
        s.require(s.is_owned(life, owner))

    @action(life=lives, owner=owners, place=places)
    def uploaded(s, life: int, owner: int, place: int) -> None:
        """Create-only, by a node that was granted the epoch, however long ago."""
        s.require(s.granted[life] > owner, ~s.data[life][owner].has(place))
        s.data[life][owner] = s.data[life][owner].plus(place)

    @action(life=lives, owner=owners, place=places)
    def listed_segment(s, life: int, owner: int, place: int) -> None:
        """The owner lists a segment of its own, which exists."""
        s.require(s.is_owned(life, owner), s.data[life][owner].has(place))
        s.require(s.listed[place] == NONE, s.manifest.count < s.places)
        s.change_manifest(count=s.manifest.count + 1, last=place)
        s.listed[place] = owner

    # Actions: an incarnation ends.
    @action(life=lives, owner=owners)
    def buried(s, life: int, owner: int) -> None:
        """The manifest becomes a tombstone, which keeps everything else."""
        s.require(s.is_owned(life, owner))
        s.change_manifest(tomb=True)

    @action(life=lives, owner=owners, place=places)
    def data_deleted(s, life: int, owner: int, place: int) -> None:
        """Of an incarnation that is over, or of a fenced owner and not listed. It may be gone already."""
        is_fenced = (s.manifest.owner > owner) & (s.listed[place] != owner)
        s.require(~s.is_live_at(life) | is_fenced)
        s.data[life][owner] = s.data[life][owner].minus(place)

    @action
    def manifest_deleted(s) -> None:
        """The tombstone goes last, when no segment is left that it lists."""
        s.require(s.is_dead())
        s.require(~s.has_listed_data())
        s.manifest.delete()
        s.clear_list()

    # Properties: never bad.
    goes_on = define(
        lambda s, after: s.is_live() & after.is_live() & (s.manifest.life == after.manifest.life)
    )
    has_data = define(lambda s: any_of(~line.is_empty() for lines in s.data for line in lines))
    manifest_last = step(
        "Under a live manifest no segment that it lists is missing, and when a tombstone goes none is left."
    )(
        lambda before, after: (
            implies(after.is_live(), after.is_whole() & after.adds_up())
            & implies(before.is_dead() & ~after.is_dead(), ~before.has_listed_data())
        )
    )
    immutable_by_position = step("A listed segment stays listed, and is the same.", place=places)(
        lambda before, after, place: implies(
            before.goes_on(after) & (before.listed[place] != NONE),
            after.listed[place] == before.listed[place],
        )
    )
    zombie_fenced = step("A segment becomes visible only if it is of the present owner.", place=places)(
        lambda before, after, place: implies(
            before.goes_on(after) & (after.listed[place] != before.listed[place]),
            (after.listed[place] == before.manifest.owner) & (after.manifest.owner == before.manifest.owner),
        )
    )
    no_resurrection = step("What got a tombstone is never readable again.", life=lives)(
        lambda before, after, life: implies(
            ~before.is_live_at(life) & after.is_live_at(life), before.granted[life] == 0
        )
    )
    recreate_clean = step("A new incarnation shows no segment of an old one.")(
        lambda before, after: implies(after.is_live() & ~before.goes_on(after), after.listed.all(NONE))
    )
    live_untouched = step("A live manifest is not deleted, and no segment that it lists.")(
        lambda before, after: (
            implies(before.is_live(), after.manifest.is_there)
            & implies(before.goes_on(after) & before.is_whole(), after.is_whole())
        )
    )
    eventually_empty = always_recoverable("A stream can always be deleted without a trace.")(
        lambda s: ~s.manifest.is_there & ~s.has_data()
    )

    # Properties: sometimes good.
    recreated = reachable("A name can have a second incarnation, and take an append in it.")(
        lambda s: s.is_live() & (s.manifest.count > 0) & ((s.granted.count(0) < s.lives - 1) | (s.lives == 1))
    )
    fenced = reachable("A fenced owner can upload a segment.", life=lives)(
        lambda s, life: (
            s.is_live_at(life)
            & (s.manifest.owner == 1)
            & ~s.data[life][0].is_empty()
            & (s.manifest.count == 0)
        )
    )
    left_behind = reachable("Segments can be left without a manifest.")(
        lambda s: ~s.manifest.is_there & s.has_data()
    )
    done = may_end(lambda s: ~s.manifest.is_there)
