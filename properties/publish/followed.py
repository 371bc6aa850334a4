"""The publish model as a run of the code is followed through it: its steps as the store's events show them.

Differences from `model/publish.py`, and why this is the same protocol:

- *A plan begins when it is captured*, which no event shows. Its sidecar is visible, perhaps several commits
  later. `begin_on` begins the plan where its sidecar lands, on the manifest that the sidecar names: what
  others did between the two, the model lets them do after both. So the pins and the epoch of every manifest
  are recorded (`pins_at`, `epoch_at`), and plans have no order.
- *Cleanup moves the boundary to a manifest that it read*, not to the newest one: `boundary_to`. It also
  deletes versions between two that are pinned (heads of undone plans), where the model stops at the oldest
  pinned.
- *Rows.* The model has one node and an edge to it. A catalog has many, so a plan that removes one may follow
  a plan that removed another. `begin_on` checks no rows: the properties of the audit do.
- *Openers are not counted.* An opener stops others only by what it writes, may stop at any step, and others
  may do the same at the same time. So the state records what *some* opener may know by now: `read`, the
  epochs in which one read the sidecar; `undoing`, the epochs in which one set out to restore which tables;
  `owed`, that one set out to retire it. That only grows. Every run of the model with any number of openers is
  a run of this machine, step by step, and the other way round.
- *Troubles are not counted*: the adversary decides how many crashes a run has.

**A long run in a small machine.** A catalog publishes thousands of plans, and this machine has room for a
few. But few are under way at a time, and nobody looks at one that is over. So a long run is read in a window
that moves along with it: between its events are labels of this machine that no process does, and that only
rename (`properties.refinement.windowing` places them, from what the rest of the run still names).

    forget(w)          nothing later in the run names plan w: its slot is free for another one
    leave(w)           the same, though its sidecar may still be deleted: w is settled
    slide_<what>()     all numbers become smaller by one; 0 is "older than anything that counts"

Why that is sound. Let R be the renaming, s a state in which its guard holds, and e any run of events that
names nothing which R has removed. Then s allows e exactly if R(s) allows R(e). By everything that can still
happen:

- *Slots.* Plans have no order here, so the slot of a plan is a name. A plan that no event names again does
  nothing visible. Others meet it only in its versions. The guard keeps a plan with a version above the pin in
  its slot. A version at or below the pin is looked at only from a base that is gone, where it is in the way
  whoever made it: the version that moved the pin on from that base is a rival's, a later one's, or one's own.
- *Settled.* Every continuation of a settled plan leads to the deletion of its sidecar and none to a commit:
  its writer may crash at any time, and a reader of the sidecar then owes its deletion. So the deletion proves
  nothing, at any time. Neither does that of a plan whose sidecar is only requested, when the pins that it
  would stand on have moved on.
- *Versions* are looked at from a base on, and bases are compared with pins. The guard keeps the pin above 0.
  So a base that becomes 0 is one from which the pin has moved on: that stays visible, and so does that a look
  from there finds the place taken. Nothing else depends on it except whether the plan has a head in this
  table: the guard lets none leave the window, unless the plan is settled.
- *Manifests* are compared with the newest, the boundary, and the parent of a plan. A parent that becomes 0 is
  older than the newest, which stays above 0; the guard requires that the boundary is then no further than it.
  A boundary that becomes 0 is older than whatever can still be created.
- *Epochs* are compared with the newest, which stays above 0. A plan of an epoch that becomes 0 was fenced and
  still is. An executor in such an epoch cannot commit, and everything else that it does names its epoch. That
  it had read the sidecar is forgotten: a reader in the newest epoch owes its deletion wherever it does,
  except where a rival of an old epoch stands before the plan's head, and that was judged when the two
  appeared.

Where a guard does not hold, the answer is not known: such a run is undecided from there on, and the guard
says why. Deletions behind the window show nothing here; whether they are allowed is seen from the run itself
(`properties.refinement.windowing`).
"""

from dataclasses import replace
from itertools import pairwise

from fencepost.model import Bool, Each, Int, Label, Number, Truth, action, all_of, any_of, implies, pick
from fencepost.model.publish import KINDS, TABLES, Publish
from fencepost.model.store import Budget, restart
from fencepost.properties.refinement import Observation
from fencepost.properties.refinement.window import Slide, Window

EPOCHS = 1 + Publish.claims
SETS = {"nodes": ("nodes",), "edges": ("edges",), "both": TABLES}
"""Tables that an undo restores."""


class Followed(Publish):
    trouble = Budget(None)
    pins_at = Each(Publish.ids, Each(TABLES, Int(0, Publish.numbers)))
    epoch_at = Each(Publish.ids, Int(0, Publish.claims))
    read = Each(Publish.writers, Each(EPOCHS, Bool()))
    undoing = Each(tuple(SETS), Each(Publish.writers, Each(EPOCHS, Bool())))
    owed = Each(Publish.writers, Bool())
    # By plan, epoch and table: at some time since it was read, its head was to be restored, or was not.
    seen_moved = Each(Publish.writers, Each(EPOCHS, Each(TABLES, Bool())))
    seen_still = Each(Publish.writers, Each(EPOCHS, Each(TABLES, Bool())))

    def add_manifest(s, new: Truth | bool = True) -> None:
        super().add_manifest(new)
        s.pins_at[s.last - 1] = s.pin
        s.epoch_at[s.last - 1] = s.epoch

    @action(w=Publish.writers, kind=KINDS, parent=Publish.ids)
    def begin_on(s, w: int, kind: str, parent: int) -> None:
        """The sidecar lands of a plan that was made on manifest `parent + 1`."""
        s.require(s.at[w] == "new", s.last > parent)
        s.at[w], s.kind[w], s.parent[w] = "heads", kind, parent + 1
        s.began[w], s.base[w] = s.epoch_at[parent], s.pins_at[parent]
        s.sidecar[w] = s.is_on("sidecar-before-heads")

    @action(w=Publish.writers)
    def stage_again(s, w: int) -> None:
        """The create of the sidecar had an unknown outcome; the writer repeats it, or the first request
        lands late; meanwhile the plan was settled, and its sidecar retired.
        """
        s.require((s.at[w] != "new") & ~s.sidecar[w])
        s.sidecar[w] = True

    @action(to=Publish.ids)
    def boundary_to(s, to: int) -> None:
        """All manifests before `to + 1` may go, and with them what only they pinned."""
        s.require(s.boundary < to, s.last > to)
        s.boundary, s.kept = to, s.pins_at[to]

    @action(table=TABLES, number=Publish.numbers)
    def delete_version(s, table: str, number: int) -> None:
        """Cleanup, third step: a version that no retained manifest pins, older than one that is pinned."""
        s.require(s.version[table][number].is_there, s.pin[table] > number + 1)
        for id_, pins in enumerate(s.pins_at):
            s.require(implies((s.boundary < id_ + 1) & (s.last > id_), pins[table] != number + 1))
        s.version[table][number].delete()

    # What some opener may know by now.

    @action(w=Publish.writers)
    def sidecar_is_read(s, w: int) -> None:
        s.require(s.sidecar[w], ~s.read[w][s.epoch])
        if s.is_on("bounded-skew"):
            s.guard("grace-window", (s.began[w] < s.epoch) | ~s.is_at_work(w))
        s.read[w][s.epoch] = True

    @action(w=Publish.writers, epoch=EPOCHS)
    def sidecar_is_judged(s, w: int, epoch: int) -> None:
        """Settled, or in nobody's way: it is owed. Otherwise rolled forward, or some tables are restored.

        The heads are read one by one and move meanwhile: one may have been read before it moved and the other
        after. So `seen_moved` and `seen_still` keep what was true of each table at some time since.
        """
        s.require(s.read[w][epoch])
        settled = s.is_settled(w)
        s.require(~(settled & s.owed[w]))
        forward = s.may_roll_forward(w, epoch)
        restored = {t: s.must_restore(w, epoch, t) for t in TABLES}
        kept = {t: s.sidecar_touches(w, t) & ~restored[t] for t in TABLES}
        moved = {t: s.seen_moved[w][epoch][t] | restored[t] for t in TABLES}
        still = {t: s.seen_still[w][epoch][t] | kept[t] for t in TABLES}
        owed = settled | ~(forward | any_of(restored.values()))
        wanted = {"both": all_of(restored.values()) & ~forward}
        for t, other in (TABLES, TABLES[::-1]):
            alone = restored[t] & ~s.sidecar_touches(w, other) & ~forward
            wanted[t] = (moved[t] & still[other]) | alone
        new = [wanted[tables] & ~s.undoing[tables][w][epoch] for tables in SETS]
        new += [moved[t] & ~s.seen_moved[w][epoch][t] for t in TABLES]
        new += [still[t] & ~s.seen_still[w][epoch][t] for t in TABLES]
        s.require((owed & ~s.owed[w]) | any_of(new))
        s.owed[w] = s.owed[w] | owed
        s.seen_moved[w][epoch], s.seen_still[w][epoch] = (*moved.values(),), (*still.values(),)
        for tables in SETS:
            s.undoing[tables][w][epoch] |= wanted[tables]

    @action(w=Publish.writers, epoch=EPOCHS, table=TABLES)
    def one_is_left_to_rival(s, w: int, epoch: int, table: str) -> None:
        """A rival occupies the number: no late head of the plan can land there; the other is restored."""
        other = s.undoing[TABLES[1 - TABLES.index(table)]][w]
        s.require(s.undoing["both"][w][epoch] & ~other[epoch])
        s.require(s.place(table, w, epoch, undo=True) == "rival")
        other[epoch] = True

    # What some opener does.

    @action(w=Publish.writers, epoch=EPOCHS)
    def somebody_rolls_forward(s, w: int, epoch: int) -> None:
        s.require(s.read[w][epoch])
        s.require(s.may_roll_forward(w, epoch))
        s.publish(w, [s.sidecar_touches(w, t) for t in TABLES])
        s.owed[w] = True

    @action(w=Publish.writers, epoch=EPOCHS, table=TABLES)
    def somebody_undoes_head(s, w: int, epoch: int, table: str) -> None:
        s.require(s.undoing[table][w][epoch] | s.undoing["both"][w][epoch])
        s.require(s.place(table, w, epoch, undo=True) == "free")
        s.create_head(table, w, epoch, undo=True)

    @action(w=Publish.writers, epoch=EPOCHS, tables=tuple(SETS))
    def somebody_commits_undo(s, w: int, epoch: int, tables: str) -> None:
        s.require(s.undoing[tables][w][epoch])
        s.require(~s.is_fenced(epoch, s.epoch))
        s.require(*(s.is_current(w, t) & s.is_undone(w, t) for t in SETS[tables]))
        s.publish(w, [t in SETS[tables] for t in TABLES], undo=True)
        s.owed[w] = True

    @action(w=Publish.writers)
    def somebody_retires(s, w: int) -> None:
        s.require(s.owed[w] & s.sidecar[w])
        s.sidecar[w] = False

    # The window: slots.

    @action(w=Publish.writers)
    def forget(s, w: int) -> None:
        s.free(w)

    @action(w=Publish.writers)
    def leave(s, w: int) -> None:
        s.require((s.at[w] == "new") | s.is_settled(w))
        s.free(w)

    def free(s, w: int) -> None:
        """The slot as in the beginning; what stands of the plan belongs to no plan."""
        for t in TABLES:
            for n, version in s.versions(t):
                s.require(~version.holds(plan=w) | (s.pin[t] >= n))
                version.assign(version, plan=pick(version.plan == w, -1, version.plan))
        restart(s, w, "base", "kind", "began", "sidecar", "manifest", "at", "parent", "outcome", "dropped")
        restart(s, w, "owed", "read", "seen_moved", "seen_still")
        for tables in s.undoing:
            tables[w] = (False,) * (s.claims + 1)

    # The window: numbers.

    @action(table=TABLES)
    def slide_versions(s, table: str) -> None:
        s.require(s.pin[table] > 1)
        for w in range(s.writers):
            out_of_sight = ~s.version[table][0].holds(plan=w) | s.is_settled(w)
            s.require((s.at[w] == "new") | ~s.touches(w, table) | (s.base[w][table] > 1) | out_of_sight)
        versions = [*s.version[table]]
        for place, later in pairwise(versions):
            place.assign(later)
        versions[-1].delete()
        for numbers in (s.pin, s.kept, *s.base, *s.pins_at):
            numbers[table] = _less(numbers[table])

    @action
    def slide_manifests(s) -> None:
        s.require(s.last > 1)
        for w in range(s.writers):
            known = (s.parent[w] > 1) | (s.boundary <= s.parent[w])
            s.require((s.at[w] == "new") | known | s.is_settled(w))
        s.last, s.boundary, s.deleted = s.last - 1, _less(s.boundary), _less(s.deleted)
        for w in range(s.writers):
            s.parent[w] = _less(s.parent[w])
            s.manifest[w] = pick(s.manifest[w] > 1, s.manifest[w] - 1, s.manifest[w])
        s.epoch_at = (*[*s.epoch_at][1:], 0)
        s.pins_at = (*[*s.pins_at][1:], (0, 0))

    @action
    def slide_epochs(s) -> None:
        s.require(s.epoch > 1)
        s.epoch = s.epoch - 1
        for numbers in (s.began, s.epoch_at):
            for i, epoch in enumerate(numbers):
                numbers[i] = _less(epoch)
        for t in TABLES:
            for _, version in s.versions(t):
                version.assign(version, epoch=_less(version.epoch))
        for w in range(s.writers):
            for known in (s.read, *s.undoing):
                known[w] = (False, *[*known[w]][2:], False)
            for seen in (s.seen_moved, s.seen_still):
                seen[w] = ((False, False), *[*seen[w]][2:], (False, False))


def _less(number: Number) -> Number:
    return pick(number > 0, number - 1, 0)


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
    """The values that a slide makes smaller."""
    return {
        "slide_versions": (f"{table}_base", f"{table}_number"),
        "slide_manifests": ("base", "parent", "id in manifest", "boundary in manifest"),
        "slide_epochs": ("before", "epoch"),
    }[action]
