"""The protocol of `model/streams.py` as a run of the code is followed through it: what the store shows.

No event shows where a node is in its work, nor what it knows. So this machine has the store alone, and an
action is possible where some node can have come to it. Labels stand for labels of the model:

    created     create, late_create_lands              swapped      recreate
    owned       own                                    refreshed    refresh
    uploaded    upload, late_upload_lands              listed       move
    buried      delete, expire, begin_reap             manifest_deleted   delete_manifest
    data_deleted  delete_data, collect
"""

from fencepost.model import Bool, Each, Flags, Int, Machine, Size, Truth, action, any_of, invariant, reachable


class Followed(Machine):
    lives = Size(3, most=4, doc="incarnations of the name in one run")
    owners = Size(8, most=12, doc="owners of one incarnation")
    places = Size(6, most=10, doc="first offsets of segments of one incarnation")

    life = Int(0, lives)  # of the manifest, counted from 1; 0 for none
    ever = Flags(lives)
    owner = Int(0, owners)
    tomb = Bool()
    granted = Each(lives, Int(0, owners))  # the latest owner
    data = Each(lives, Each(owners, Flags(places)))
    listed = Each(places, Int(0, owners))  # by place the owner of the listed segment; 0 for none
    segments = Int(0, places)

    def begin(s, life: int, owner: int) -> None:
        s.require(~s.ever.has(life))
        s.ever = s.ever.plus(life)
        s.life, s.owner, s.tomb, s.segments, s.granted[life] = life + 1, owner + 1, False, 0, owner + 1
        for place in range(s.places):
            s.listed[place] = 0

    def is_of(s, life: int) -> Truth:
        return s.life == life + 1

    @action(life=lives, owner=owners)
    def created(s, life: int, owner: int) -> None:
        s.require(s.life == 0)
        s.begin(life, owner)

    @action(life=lives, owner=owners)
    def swapped(s, life: int, owner: int) -> None:
        """The tombstone's data is gone; what landed late is nobody's."""
        s.require((s.life > 0) & s.tomb)
        s.begin(life, owner)

    @action(life=lives, owner=owners)
    def owned(s, life: int, owner: int) -> None:
        s.require(s.is_of(life), ~s.tomb, s.owner == owner)
        s.owner, s.granted[life] = owner + 1, owner + 1

    @action(life=lives, owner=owners)
    def refreshed(s, life: int, owner: int) -> None:
        """Deadline, forks, a completed creation."""
        s.require(s.is_of(life), ~s.tomb, s.owner == owner + 1)
        s.life = life + 1

    @action(life=lives, owner=owners, place=places)
    def uploaded(s, life: int, owner: int, place: int) -> None:
        """By a node that was granted the epoch, however long ago."""
        s.require(s.ever.has(life), s.granted[life] > owner)
        s.data[life][owner] = s.data[life][owner].plus(place)

    @action(life=lives, owner=owners, place=places)
    def listed_segment(s, life: int, owner: int, place: int) -> None:
        s.require(s.is_of(life), ~s.tomb, s.owner == owner + 1, s.data[life][owner].has(place))
        s.require(s.listed[place] == 0, s.segments < s.places)
        s.listed[place], s.segments = owner + 1, s.segments + 1

    @action(life=lives, owner=owners)
    def buried(s, life: int, owner: int) -> None:
        s.require(s.is_of(life), ~s.tomb, s.owner == owner + 1)
        s.tomb = True

    @action(life=lives, owner=owners, place=places)
    def data_deleted(s, life: int, owner: int, place: int) -> None:
        """Behind a tombstone; or of an incarnation that is over, or of a fenced owner, unlisted."""
        fenced = (s.owner > owner + 1) & (s.listed[place] != owner + 1)
        s.require(~s.is_of(life) | s.tomb | fenced)
        s.data[life][owner] = s.data[life][owner].minus(place)

    @action(life=lives)
    def manifest_deleted(s, life: int) -> None:
        s.require(s.is_of(life), s.tomb)
        for place in range(s.places):
            gone = [(s.listed[place] != o + 1) | ~s.data[life][o].has(place) for o in range(s.owners)]
            s.require(*gone)
            s.listed[place] = 0
        s.life, s.owner, s.tomb, s.segments = 0, 0, False, 0

    @invariant
    def manifest_last(s) -> Truth:
        """Every segment that a live manifest lists stands."""
        broken = [
            s.is_of(life) & ~s.tomb & (s.listed[place] == o + 1) & ~s.data[life][o].has(place)
            for life in range(s.lives)
            for o in range(s.owners)
            for place in range(s.places)
        ]
        return ~any_of(broken)

    @reachable
    def twice(s) -> Truth:
        """A name can have a second incarnation."""
        return (s.life > 0) & (s.ever.size() > 1)
