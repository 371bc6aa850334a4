"""A long life in a small machine: what is over leaves its place, and numbers are counted from further on.

A catalog publishes thousands of plans, and this machine has room for a few. But few are under way at a time,
and nothing that is over is ever looked at again. So a long run is read in a window that moves along with it:
between its events stand labels of this machine that nobody does, which only rename (`sim.replay.windows`
says where, from what the rest of the run still names).

    forget(w)          nothing later in the run names plan w: its slot is free for another one
    leave(w)           the same, though its sidecar may still be deleted: w is settled
    slide_<what>()     all numbers become smaller by one; 0 is "older than anything that counts"

Why that is sound. Let R be the renaming, s a state in which its guard holds, and e any run of events that
names nothing which R has taken away. Then s allows e exactly if R(s) allows R(e). What a state is
asked, by everything that somebody may still do:

- *Slots.* Plans have no order here (`machine`), so which slot a plan has is a name. A plan that no event
  names again does nothing that shows. Others meet it only in its versions; those above the pin keep it in
  its slot (the guard), and one at or below it is looked at only from a base that is gone, where it is in
  the way whoever made it: the version that moved the pin on from that base is a rival's, a later one's, or
  one's own.
- *Settled.* Of a settled plan every way leads to the deletion of its sidecar and none to a commit: its
  writer may crash at any time, whoever reads the sidecar then owes its deletion. So the deletion says
  nothing, at any time. Nor does it of a plan whose sidecar is only asked for, when the pins that it would
  stand on have moved on.
- *Versions* are looked at from a base on, and bases are compared with pins. The guard asks that the pin stays
  above 0. So a base that becomes 0 is one from which the pin has moved on: that is seen as before, and so is
  that whoever looks from there finds the place taken. Nothing else is asked of it, but whether the plan
  has a head in this table: the guard asks that none leaves the window, unless the plan is settled.
- *Manifests* are compared with the newest, the boundary, and the parent of a plan. A parent that becomes 0 is
  older than the newest, which stays above 0; the guard asks that the boundary is then no further than it.
  A boundary that becomes 0 is older than whatever can still be created.
- *Epochs* are compared with the newest, which stays above 0. A plan of an epoch that becomes 0 was fenced and
  still is. Whoever executes a plan in such an epoch cannot commit, and what else he does names his epoch.
  That he had read the sidecar is forgotten: whoever reads it in the newest epoch owes its deletion wherever
  he does, but where a rival of an old epoch stands before the plan's head, and that was judged when the two
  came to stand.

Where a guard does not hold, nobody knows: such a run is undecided from there on, and the guard says why. What
is deleted behind the window shows nothing more here; whether it might go is seen from the run itself
(`sim.replay.sweeping`).
"""

from dataclasses import replace

from fencepost.model import Label, Number, Truth, action, pick
from fencepost.model.publish.lineages import TABLES
from fencepost.model.publish.writing import BOTH
from fencepost.model.store.keys import THERE, KeyView
from fencepost.properties.publish.machine import SETS, Unlimited
from fencepost.properties.refinement import Observation
from fencepost.properties.refinement.window import Slide, Window


class Windowed(Unlimited):
    """See the top of this module."""

    # Slots.

    @action(w=Unlimited.writers)
    def forget(s, w: int) -> None:
        s.free(w)

    @action(w=Unlimited.writers)
    def leave(s, w: int) -> None:
        s.require((s.at[w] == "new") | s.is_settled(w))
        s.free(w)

    def free(s, w: int) -> None:
        """The slot as in the beginning; what stands of the plan is nobody's."""
        for t in BOTH:
            for n, version in s.versions(t):
                s.require(~(version.is_there & (version.plan == w)) | (s.pin[t] >= n))
                _put(version, version.is_there, pick(version.plan == w, -1, version.plan), version)
            s.base[w][t] = 0
        for field, first in _OF_A_PLAN.items():
            getattr(s, field)[w] = first
        for epoch in range(s.claims + 1):
            s.read[w][epoch] = False
            for sets in range(len(SETS)):
                s.undoing[sets][w][epoch] = False
            for t in BOTH:
                s.seen_moved[w][epoch][t] = False
                s.seen_still[w][epoch][t] = False

    # Versions.

    @action(table=TABLES)
    def slide_versions(s, table: str) -> None:
        t = TABLES.index(table)
        s.require(s.pin[t] > 1)
        for w in range(s.writers):
            out_of_sight = ~s.version[t][0].holds(plan=w) | s.is_settled(w)
            s.require((s.at[w] == "new") | ~s.touches(w, t) | (s.base[w][t] > 1) | out_of_sight)
        versions = s.version[t]
        for number in range(1, 2 * s.writers):
            later = versions[number]
            _put(versions[number - 1], later.is_there, later.plan, later)
        versions[2 * s.writers - 1].delete()
        s.pin[t] = s.pin[t] - 1
        s.kept[t] = _less(s.kept[t])
        for w in range(s.writers):
            s.base[w][t] = _less(s.base[w][t])
        for id_ in range(s.ids):
            s.pins_at[id_][t] = _less(s.pins_at[id_][t])

    # Manifests.

    @property
    def ids(s) -> int:
        return 1 + s.claims + 3 * s.writers

    @action
    def slide_manifests(s) -> None:
        s.require(s.last > 1)
        for w in range(s.writers):
            known = (s.parent[w] > 1) | (s.boundary <= s.parent[w])
            s.require((s.at[w] == "new") | known | s.is_settled(w))
        s.last = s.last - 1
        s.boundary = _less(s.boundary)
        s.deleted = _less(s.deleted)
        for w in range(s.writers):
            s.parent[w] = _less(s.parent[w])
            s.manifest[w] = pick(s.manifest[w] > 1, s.manifest[w] - 1, s.manifest[w])
        for id_ in range(s.ids - 1):
            s.epoch_at[id_] = s.epoch_at[id_ + 1]
            for t in BOTH:
                s.pins_at[id_][t] = s.pins_at[id_ + 1][t]
        s.epoch_at[s.ids - 1] = 0
        for t in BOTH:
            s.pins_at[s.ids - 1][t] = 0

    # Epochs.

    @action
    def slide_epochs(s) -> None:
        s.require(s.epoch > 1)
        s.epoch = s.epoch - 1
        for w in range(s.writers):
            s.began[w] = _less(s.began[w])
        for t in BOTH:
            for _, version in s.versions(t):
                _put(version, version.is_there, version.plan, version, _less(version.epoch))
        for id_ in range(s.ids):
            s.epoch_at[id_] = _less(s.epoch_at[id_])
        for w in range(s.writers):
            s.slide_readings(w)

    def slide_readings(s, w: int) -> None:
        """What somebody has read of a plan, or set out to do with it, by epoch."""
        tables = [s.read[w], *(s.undoing[sets][w] for sets in range(len(SETS)))]
        for told in tables:
            for epoch in range(s.claims):
                told[epoch] = told[epoch + 1] if epoch else False
            told[s.claims] = False
        for seen in (s.seen_moved[w], s.seen_still[w]):
            for t in BOTH:
                for epoch in range(s.claims):
                    seen[epoch][t] = seen[epoch + 1][t] if epoch else False
                seen[s.claims][t] = False


_OF_A_PLAN = {
    "kind": "link",
    "began": 0,
    "sidecar": False,
    "manifest": 0,
    "at": "new",
    "parent": 0,
    "told": "nothing",
    "dropped": False,
    "torn": False,
    "owed": False,
}
"""Fields with a value a plan, and what a plan that has not begun has there."""


def _less(number: Number) -> Number:
    return pick(number > 0, number - 1, 0)


def _put(place: KeyView, there: Truth, plan: Number, other: KeyView, epoch: Number | None = None) -> None:
    """What stands at a place, if anything does, is what stands at another, under these names."""
    nobody = pick(there, plan, -1)
    content = {
        THERE: there,
        "plan": nobody,
        "undo": other.undo,
        "epoch": other.epoch if epoch is None else epoch,
    }
    place.access.put(place.frame, place.flat, content)


def window(ids: int, writers: int, claims: int) -> Window:
    """The window of the map into a machine of these sizes."""
    versions = tuple(
        Slide(
            "slide_versions",
            (f"{table}_base", f"{table}_number"),
            reached=f"{table}_number",
            capacity=2 * writers,
            room=max(1, writers - 1),
            parameters=(("table", table),),
            looked=(("number in version", f"location in {table}"),),
            made="version",
            base=f"{table}_base",
            moved=("moves", table),
        )
        for table in TABLES
    )
    manifests = Slide(
        "slide_manifests",
        ("base", "parent"),
        reached="id in manifest",
        capacity=ids,
        room=max(1, ids - writers - 2),
        looked=(("id in manifest", ""), ("boundary in manifest", "")),
        made="manifest",
    )
    epochs = Slide(
        "slide_epochs", ("before", "epoch"), reached="epoch", capacity=claims, room=max(1, claims - 1)
    )
    return Window(
        (*versions, manifests, epochs),
        value="plan",
        slots=writers,
        commit="manifest",
        document="sidecar",
        swept=("manifest", "version"),
        boundary="boundary in manifest",
        id="id in manifest",
    )


def renamed(seen: Observation, label: Label) -> Observation | None:
    """A request that is under way, after a renaming; None when its landing would change nothing any more."""
    told = dict(label.parameters)
    if "w" in told:
        return None if seen.rank("plan") == told["w"] else seen
    ranks = dict(seen.ranks)
    for name in _numbers(label.action, str(told.get("table", ""))):
        if name in ranks:
            ranks[name] -= 1
    if label.action == "slide_versions":
        table = told["table"]
        if "number in version" in ranks and ranks.get(f"location in {table}") == 0:
            ranks["number in version"] -= 1
        if any(ranks.get(name, 1) < 1 for name in (f"{table}_number", "number in version")):
            return None
        if f"{table}_base" in ranks:
            ranks[f"{table}_base"] = max(0, ranks[f"{table}_base"])
    elif label.action == "slide_manifests":
        if ranks.get("boundary in manifest", 0) < 0:
            ranks["boundary in manifest"] = 0
        if any(ranks.get(name, 1) < 1 for name in ("base", "parent", "id in manifest")):
            return None
    else:
        for name in ("before", "epoch"):
            if name in ranks:
                ranks[name] = max(0, ranks[name])
    return replace(seen, ranks=tuple(ranks.items()))


def _numbers(action: str, table: str) -> tuple[str, ...]:
    """The values that a slide makes smaller."""
    return {
        "slide_versions": (f"{table}_base", f"{table}_number"),
        "slide_manifests": ("base", "parent", "id in manifest", "boundary in manifest"),
        "slide_epochs": ("before", "epoch"),
    }[action]
