"""Labels that rename a long run into a small machine, and why renaming loses nothing.

A catalog publishes thousands of plans, and `model/publish_observed.py` has room for a few. But few are under
way at a time, and no later event depends on one that is over. So a long run is read through a window that
moves along with it. Between its events are labels that no process performs and that only rename the state.
`properties.refinement.long_runs` places them, from the names that the rest of the run still uses.

    forget(w)          no later event names plan w: its slot is free for another plan
    leave(w)           the same, though its sidecar may still be deleted: w is settled
    slide_<numbers>()  all numbers become smaller by one; 0 is "older than anything that counts"

The claim. Let R be the renaming, s a state in which its guard holds, and e any run of events that names
nothing which R has removed. Then s allows e exactly if R(s) allows R(e).

`tests/properties/publish/test_renaming.py` checks it in every state of a machine with one plan and two
claims, one step deep: R leads from the state after a step to the state after the renamed step. The argument
for any size, by everything that can still happen:

- *Slots.* Plans have no order here, so the slot of a plan is a name. A plan that no event names again does
  nothing visible. Others meet it only in its versions. The guard keeps a plan with a version above the pin in
  its slot. A version at or below the pin is read only from a base that is gone. There it is in the way,
  whichever plan made it: the version that moved the pin on from that base is a rival's, a later one's, or the
  reader's own.
- *Settled.* Every continuation of a settled plan leads to the deletion of its sidecar and none to a commit:
  its writer may crash at any time, and a reader of the sidecar may then retire it. So the deletion proves
  nothing, at any time. The same holds for a plan whose sidecar is only requested, once the pins of its base
  have moved on.
- *Versions* are read from a base on, and bases are compared with pins. The guard keeps the pin above 0. So a
  base that becomes 0 is one from which the pin has moved on. That stays visible, and so does the fact that a
  look from there finds the place taken. The guard requires that it is taken, as cleanup may have deleted the
  version there. Nothing else depends on the base, except whether the plan has a head in this table: the guard
  lets no head leave the window, unless the plan is settled.
- *Manifests* are compared with the newest, the boundary, and the parent of a plan. A parent that becomes 0 is
  older than the newest, which stays above 0. The guard requires that the boundary has then not passed it. A
  boundary that becomes 0 is older than any id that can still be created.
- *Epochs* are compared with the newest, which stays above 0. A plan of an epoch that becomes 0 was fenced and
  still is. An executor in such an epoch cannot commit, and everything else that it does names its epoch. The
  window forgets that this executor had read the sidecar. A reader in the newest epoch may retire it wherever
  the old one may, with one exception: a rival of an old epoch precedes the plan's head. That case was judged
  when the two appeared.

Where a guard does not hold, the answer is not known. Such a run is undecided from there on, and the guard is
the reason that the verdict gives. Deletions behind the window show nothing here: `long_runs` decides from the
run itself whether they are allowed.
"""

from dataclasses import replace
from itertools import pairwise

from fencepost.model import Label, Number, Truth, action, pick
from fencepost.model.publish_observed import TABLES, PublishObserved
from fencepost.model.store import restart
from fencepost.properties.refinement import Observation, Slide, Window


class PublishReplayed(PublishObserved):
    """The observed machine, with labels that rename its state."""

    # Slots.

    @action(w=PublishObserved.writers)
    def forget(s, w: int) -> None:
        s.free(w)

    @action(w=PublishObserved.writers)
    def leave(s, w: int) -> None:
        s.require((s.writer[w].at == "new") | s.is_settled(w))
        s.free(w)

    def free(s, w: int) -> None:
        """Reset the slot to its first state. Versions of the plan that remain belong to no plan."""
        for t in TABLES:
            for n, version in s.versions(t):
                s.require(~version.holds(plan=w) | (s.pin[t] >= n))
                version.assign(version, plan=pick(version.plan == w, -1, version.plan))
        restart(s.plan[w], "base", "kind", "began", "sidecar", "manifest")
        restart(s.ghost[w])
        restart(s.writer[w], "at", "parent", "outcome")
        restart(s.recovery[w], "read", "seen_moved", "seen_still", "undoing", "owed")

    # Numbers.

    @action(table=TABLES)
    def slide_versions(s, table: str) -> None:
        s.require(s.pin[table] > 1)
        for w in range(s.writers):
            s.require(s.is_beyond_first(w, table))
        versions = [*s.version[table]]
        for place, later in pairwise(versions):
            place.assign(later)
        versions[-1].delete()
        for numbers in (s.pin, *s.pins_at, *(s.plan[w].base for w in range(s.writers))):
            numbers[table] = _less(numbers[table])

    def is_beyond_first(s, w: int, t: str) -> Truth:
        """Plan w has no head at number 1 of the table, and would not look for its place there.

        It looks there if cleanup has deleted the version, and the pin of its base is older.
        """
        first = s.version[t][0]
        base: Number = s.plan[w].base[t]
        is_behind = (base > 1) | (~first.holds(plan=w) & (first.is_there | (base == 1)))
        return (s.writer[w].at == "new") | ~s.touches(w, t) | s.is_settled(w) | is_behind

    @action
    def slide_manifests(s) -> None:
        s.require(s.last > 1)
        for w in range(s.writers):
            known = (s.writer[w].parent > 1) | (s.boundary <= s.writer[w].parent)
            s.require((s.writer[w].at == "new") | known | s.is_settled(w))
        s.last = s.last - 1
        s.boundary = _less(s.boundary)
        s.deleted = _less(s.deleted)
        for w in range(s.writers):
            s.writer[w].parent = _less(s.writer[w].parent)
            s.plan[w].manifest = pick(s.plan[w].manifest > 1, s.plan[w].manifest - 1, s.plan[w].manifest)
        s.epoch_at = (*[*s.epoch_at][1:], 0)
        s.pins_at = (*[*s.pins_at][1:], (0, 0))

    @action
    def slide_epochs(s) -> None:
        s.require(s.epoch > 1)
        s.epoch = s.epoch - 1
        for i, epoch in enumerate(s.epoch_at):
            s.epoch_at[i] = _less(epoch)
        for t in TABLES:
            for _, version in s.versions(t):
                version.assign(version, epoch=_less(version.epoch))
        for w in range(s.writers):
            s.plan[w].began = _less(s.plan[w].began)
            known = s.recovery[w]
            known.read = (False, *[*known.read][2:], False)
            known.seen_moved = ((False, False), *[*known.seen_moved][2:], (False, False))
            known.seen_still = ((False, False), *[*known.seen_still][2:], (False, False))
            known.undoing = ((False, False, False), *[*known.undoing][2:], (False, False, False))


def _less(number: Number) -> Number:
    return pick(number > 0, number - 1, 0)


def window(ids: int, writers: int, claims: int) -> Window:
    """Return the window of the map into a machine of these sizes."""
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
    """Rename a request that is under way; None when its landing would change nothing any more."""
    parameters = dict(label.parameters)
    if "w" in parameters:
        return None if seen.rank("plan") == parameters["w"] else seen
    ranks = dict(seen.ranks)
    for name in _numbers(label.action, str(parameters.get("table", ""))):
        if name in ranks:
            ranks[name] -= 1
    if label.action == "slide_versions":
        table = parameters["table"]
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
    """Return the names of the values that a slide makes smaller."""
    return {
        "slide_versions": (f"{table}_base", f"{table}_number"),
        "slide_manifests": ("base", "parent", "id in manifest", "boundary in manifest"),
        "slide_epochs": ("before", "epoch"),
    }[action]
