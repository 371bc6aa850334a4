"""Plans and their sidecars: what a plan does, on which pins it stands, and whether it may commit.

link    adds an edge to the node        touches edges, reads nodes
drop    removes the node                touches nodes, reads edges
add     adds another node               touches nodes
both    another node, and its edge      touches both
"""

from fencepost.model.kernel import Bool, Each, Enum, Int, Number, Truth, all_of, any_of, pick
from fencepost.model.publish.lineages import EDGES, NODES, TABLES, Lineages

KINDS = ("link", "drop", "add", "both")


class Sidecars(Lineages):
    """The plans, whether executed by their writers or by recovery."""

    kind = Each(Lineages.writers, Enum(*KINDS))
    began = Each(Lineages.writers, Int(0, Lineages.claims))  # the epoch in which a plan was made
    sidecar = Each(Lineages.writers, Bool())
    manifest = Each(Lineages.writers, Int(0, 1 + Lineages.claims + 3 * Lineages.writers))  # its id; 0 is none

    def touches(s, w: int, t: int) -> Truth:
        """Whether the plan of writer w moves the head of table t."""
        return s.kind[w] != "link" if t == NODES else s.kind[w].is_in("link", "both")

    def touches_in_sidecar(s, w: int, t: int) -> Truth:
        """The same, as far as recovery can know."""
        if s.is_on("whole-plan-in-sidecar") or t == NODES:
            return s.touches(w, t)
        return s.kind[w] == "link"

    def stands(s, w: int, t: int) -> Truth:
        """Whether the newest manifest still pins what the plan stands on."""
        return s.pin[t] == s.base[w][t]

    def as_read(s, w: int) -> Truth:
        """Whether every table that the plan only read is as it was read."""
        if not s.is_on("pins-re-evaluated-on-retry"):
            return Truth.constant(True)
        reads = {NODES: s.kind[w] == "link", EDGES: s.kind[w] == "drop"}
        return all_of(~reads[t] | s.stands(w, t) for t in reads)

    def untouched(s, w: int) -> Truth:
        """Whether every table that the plan touches is as it was."""
        return all_of(~s.touches(w, t) | s.stands(w, t) for t in range(len(TABLES)))

    def in_epoch(s, epoch: Number | int) -> Truth:
        """Whether an executor of this epoch is not fenced."""
        return s.epoch <= epoch if s.is_on("epoch-check") else Truth.constant(True)

    def is_visible(s, kind: str) -> Truth:
        """Whether a plan of this kind is in the chain."""
        return any_of((s.manifest[w] > 0) & (s.kind[w] == kind) for w in range(s.writers))

    def show(s, w: int, tables: list[Truth], new: Truth | bool = True) -> None:
        """Where `new`, the next manifest is one that publishes these tables of the plan."""
        for t in (NODES, EDGES):
            s.pin[t] = pick(tables[t], s.head(t, w), s.pin[t])
        s.last = pick(new, s.last + 1, s.last)
        s.manifest[w] = pick(new, s.last, s.manifest[w])

    def restore(s, w: int, tables: list[Truth]) -> None:
        """The next manifest is one that undoes these tables of the plan: their undo heads stand."""
        heads = [s.head(t, w, undo=True) for t in (NODES, EDGES)]
        s.require(*(~tables[t] | (heads[t] > s.base[w][t]) for t in (NODES, EDGES)))
        for t in (NODES, EDGES):
            s.pin[t] = pick(tables[t], heads[t], s.pin[t])
        s.last = s.last + 1
