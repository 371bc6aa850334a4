"""The refinement map of publish: which actions of the model the store's events show.

    create recovery/<plan>            a plan begins, on the manifest that it names
    create table/<t>/version/<n>      a head of the plan or of its undo, where the machine puts it
    create branch/<b>/manifest/<id>   a claim, a commit by the plan's writer or by recovery, or an undo's
    put    branch/<b>/boundary        cleanup, first step
    delete manifest or version        cleanup, second and third
    delete recovery/<plan>            retired, by any process that may

A read changes no object, and neither does a create that found an object: `REQUEST_RULES` judge those. So the
decisions of a process are hidden: that it lost, that it must undo, that it may retire a sidecar. A crash is
hidden too.

An event belongs to the plan's own process (`own`) if the process that wrote the plan's sidecar sent it, and
has not restarted since. That process may act as its plan's writer and, with another handle, as an opener. All
other processes only recover.

The machine has one branch and two tables, one of nodes and one of edges. A run with more of either, or with a
merge or a sweep in it, is out of bounds: undecided.

The map leads into `model/publish_observed.py`, with the labels that rename long runs (see `replayed`).
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from fencepost.model import Label, Model, Truth, all_of
from fencepost.model.kernel.language.layout import U64
from fencepost.model.publish_observed import TABLES, PublishObserved
from fencepost.properties.publish.replayed import PublishReplayed, renamed, window
from fencepost.properties.refinement import (
    COUNTED,
    IMPOSSIBLE,
    OUT_OF_BOUNDS,
    STUTTER,
    Actions,
    Confirmed,
    Freed,
    Keys,
    Observation,
    Refinement,
    RequestRules,
    Role,
    Staged,
    where,
)

KINDS = {
    ("nodes", ""): "add",
    ("nodes", "edges"): "drop",
    ("edges", "nodes"): "link",
    ("edges,nodes", ""): "both",
}
"""The machine's kind of a plan, by the sorts of the tables that it moves and that it only reads."""
REQUEST_RULES = RequestRules(
    keys=(
        Keys("fragment", r"(?:.*/)?data/[^/]+/(?P<plan>[^/-]+)-[^/]+"),
        Keys("retirement", r"(?:.*/)?retired/.*"),
    ),
    conditions={
        "sidecar": ("absent",),
        "retirement": ("absent",),
        "version": ("absent",),
        "manifest": ("absent",),
        "fragment": ("absent",),
        "boundary": ("absent", "matches"),
    },
    kept=("boundary", "retirement"),
    staged=Staged("sidecar", "fragments", "fragment", then="version", unless="undo", owner="plan"),
    freed=Freed("fragment", by="manifest", name="kind", value="sweep"),
    confirmed=Confirmed(
        "manifest", "boundary", concluded="sidecar", noted="acked", owner="plan", guarded=True
    ),
    seen_first=("sidecar",),
    not_judged=(
        "rows, and the fragments of plans whose sidecars do not count them",
        "a boundary check after which its writer neither deletes its sidecar nor notes its outcome",
    ),
)
"""Conditions; a plan's fragments before its heads, and a sweep before their deletion; the boundary after a
create that succeeded, or between the sidecar and the create."""
FAR = 10**9


RENAMING = ("forget", "leave", "slide_versions", "slide_manifests", "slide_epochs")


class PublishRefinement(Refinement):
    """Map the events of a catalog to the actions of `PublishObserved`."""

    keys = (
        Keys("sidecar", r"(?:.*/)?recovery/(?P<plan>[^/]+)\.json"),
        Keys("version", r"(?:.*/)?table/(?P<location>[^/]+)/version/(?P<number>[0-9]+)\.json"),
        Keys("manifest", r"(?:.*/)?branch/(?P<branch>[^/]+)/manifest/(?P<id>[0-9]+)\.json"),
        Keys("boundary", r"(?:.*/)?branch/(?P<branch>[^/]+)/boundary\.json"),
    )
    trace_fields = ("kind", "undo", "moves", "reads", "wide")
    owned = "plan"
    hidden: ClassVar[tuple[str, ...]] = (
        "probe_finds_winner",
        "heads_blocked",
        "retry",
        "learn_success",
        "learn_refusal",
        "undo_own_ends",
        "crash",
    )
    eager: ClassVar[tuple[str, ...]] = (
        "recovery_reads",
        "recovery_settles",
        "recovery_judges",
        "recovery_leaves_to_rival",
    )
    left_out: ClassVar[tuple[str, ...]] = RENAMING
    forgets: ClassVar[tuple[str, ...]] = ("ghost",)
    machine: ClassVar[type[PublishObserved]] = PublishReplayed
    notes = frozenset({"outcome"})
    request_rules = REQUEST_RULES

    def __init__(self, writers: int = 6, claims: int = 3, *, skew: bool = False) -> None:
        """Bounds on the plans and claims of a run. With `skew`, clocks may differ by any time."""
        sizes = {"writers": writers, "claims": claims}
        super().__init__(Model(self.machine, sizes, without=("bounded-skew",) if skew else ()))
        self.skew = skew
        self.ids = 1 + claims + 3 * writers
        numbers = ("nodes_base@nodes", "edges_base@edges", "nodes_number@nodes", "edges_number@edges")
        self.roles = (
            Role("branch", ("branch",), most=0),
            Role("plan", ("plan",), most=writers - 1),
            Role("nodes", ("nodes", "location?"), most=0),
            Role("edges", ("edges", "location?"), most=0),
            Role("epoch", ("before", "epoch"), COUNTED, most=claims, least=-FAR),
            Role("manifest", ("base", "parent", "id?", "boundary?"), COUNTED, start=1, least=-FAR),
            Role("version", (*numbers, "number?@location"), COUNTED, least=-FAR),
        )
        self.window = window(self.ids, writers, claims)
        slot = self.model.layout.slots["recovery.read"]
        epochs = range(1 + claims)
        self._read = {
            (w, epoch): slot.place(w * len(epochs) + epoch) for w in range(writers) for epoch in epochs
        }
        self._by_epoch: dict[tuple[str, int, int], list[Label]] = {}

    @property
    def name(self) -> str:
        return "publish-observed"

    def hides(self, label: Label) -> bool:
        """With any skew a crash enables nothing new, so it need not be followed."""
        return super().hides(label) and not (self.skew and label.action == "crash")

    def shows(self, label: Label) -> bool:
        return super().shows(label) and label.action != "crash"

    def covering(self) -> "PublishCoverage":
        return PublishCoverage()

    def renamed(self, seen: Observation, label: Label) -> Observation | None:
        return renamed(seen, label)

    def saturated(self, states: U64) -> U64:
        """As in general, without trying labels of epochs in which no process has read the sidecar."""
        always, others = self.eager[:2], self.eager[2:]
        for name in always:
            for label in self._labels[name]:
                states = self.after_eager(states, label)
        for (w, epoch), (word, shift) in self._read.items():
            if (states[word] >> np.uint64(shift) & np.uint64(1)).any():
                for name in others:
                    for label in self._of(name, w, epoch):
                        states = self.after_eager(states, label)
        return states

    def _of(self, action: str, w: int, epoch: int) -> list[Label]:
        key = (action, w, epoch)
        if key not in self._by_epoch:
            self._by_epoch[key] = [
                reading.label for reading in self.does(action, w=w, epoch=epoch) if reading.label is not None
            ]
        return self._by_epoch[key]

    def actions(self, seen: Observation) -> Actions:
        if seen.phase == "note":
            return self.outcome(seen)
        if not seen.done:
            return STUTTER
        if seen.trace_field("wide"):
            return OUT_OF_BOUNDS
        maps = _DELETED if seen.kind == "delete" else _PUT
        return maps[seen.what](self, seen)

    # Plans.

    def sidecar(self, seen: Observation) -> Actions:
        kind = KINDS.get((seen.trace_field("moves"), seen.trace_field("reads")))
        base = seen.rank("base")
        if kind is None or seen.trace_field("kind") != "publish" or base < 1:
            return OUT_OF_BOUNDS
        w, epoch = seen.rank("plan"), seen.rank("epoch")
        if epoch < 0:
            return OUT_OF_BOUNDS
        if base > self.ids or min(seen.rank(f"{table}_base") for table in _based_on(seen)) < 0:
            return OUT_OF_BOUNDS
        begins = (*self.does("stage", w=w, kind=kind, parent=base - 1), *self.does("stage_again", w=w))
        return where(
            f"manifest {base} has epoch {epoch} and the pins that the plan names",
            lambda s: (s.plan[w].began == epoch) & _based(s, w, seen),
            begins,
        )

    def outcome(self, seen: Observation) -> Actions:
        """A caller learned that its plan is published. The audit checks every other outcome."""
        w = seen.rank("plan")
        if seen.outcome != "acked" or w < 0:
            return STUTTER
        return where(f"plan {w} is published", lambda s: s.writer[w].outcome == "published", STUTTER)

    def retired(self, seen: Observation) -> Actions:
        w = seen.rank("plan")
        by_writer = self.does("retire", w=w) if seen.own else IMPOSSIBLE
        gone = where(f"the sidecar of {w} was gone before", lambda s: ~s.plan[w].sidecar, STUTTER)
        return (*by_writer, *self.does("recovery_retires", w=w), *gone)

    # Heads.

    def head(self, seen: Observation) -> Actions:
        table = next((table for table in TABLES if seen.rank(table) == 0), None)
        w, undo, epoch = seen.rank("plan"), seen.trace_field("undo") == "yes", seen.rank("epoch")
        if table is None:
            return OUT_OF_BOUNDS
        number = seen.rank(f"{table}_number")
        if number < 1 or epoch < 0:
            return OUT_OF_BOUNDS
        if undo:
            moved = self.does("recovery_undoes_head", w=w, epoch=epoch, table=table)
            own = self.does("undo_own_head", w=w, table=table)
        else:
            moved = IMPOSSIBLE
            own = (*self.does("move_head", w=w, table=table), *self.does("head_lands", w=w, table=table))
        if number > 2 * self.model.sizes["writers"]:
            return OUT_OF_BOUNDS
        return where(
            f"it is version {number}",
            lambda s: s.version[table][number - 1].holds(plan=w, undo=undo, epoch=epoch),
            own if seen.own else IMPOSSIBLE,
            moved,
        )

    def head_deleted(self, seen: Observation) -> Actions:
        table = next((table for table in TABLES if seen.rank(table) == 0 or self._at(seen, table)), None)
        number = seen.rank("number in version")
        if table is None or number < 1:
            return STUTTER
        gone = where("it was gone before", lambda s: ~s.version[table][number - 1].is_there, STUTTER)
        return (*self.does("delete_version", table=table, number=number - 1), *gone)

    def _at(self, seen: Observation, table: str) -> bool:
        return (f"location in {table}", 0) in seen.ranks

    # Manifests.

    def committed(self, seen: Observation) -> Actions:
        kind, id_ = seen.trace_field("kind"), seen.rank("id in manifest")
        if id_ < 2:
            return OUT_OF_BOUNDS
        w, epoch = seen.rank("plan"), seen.rank("epoch")
        own = IMPOSSIBLE
        if kind == "claim":
            readings = self.does("claim")
        elif kind == "publish":
            readings = self.does("recovery_rolls_forward", w=w)
            if seen.own:
                own = self.does("create_manifest", w=w)
                readings = (*own, *self.does("manifest_lands", w=w), *readings)
        elif kind == "undo":
            readings = (*self.does("recovery_commits_undo", w=w), *self.does("finish_undo", w=w))
            if seen.own:
                readings = (*self.does("undo_own_commit", w=w), *readings)
        else:
            return OUT_OF_BOUNDS
        shown = where(
            f"it is manifest {id_} of epoch {epoch} and pins what it pins",
            lambda s: (s.last == id_) & (s.epoch == epoch) & _pinned(s, seen),
            readings,
        )
        # On an id that was deleted the create shows nothing to anybody, whoever sends it.
        missed = where(
            f"manifest {id_} was deleted, and is the next of its writer",
            lambda s: (s.deleted >= id_) & (s.writer[w].parent + 1 == id_),
            own,
        )
        unseen = where(f"manifest {id_} was deleted", lambda s: s.deleted >= id_, STUTTER)
        return (*shown, *missed, *unseen)

    def deleted(self, seen: Observation) -> Actions:
        id_ = seen.rank("id in manifest")
        gone = where(f"manifest {id_} was gone before", lambda s: s.deleted >= id_, STUTTER)
        return (
            *where(f"manifest {id_} may go", lambda s: s.deleted >= id_, self.does("delete_manifests")),
            *gone,
        )

    def boundary(self, seen: Observation) -> Actions:
        to = seen.rank("boundary in manifest")
        if to >= self.ids:
            return OUT_OF_BOUNDS
        return STUTTER if to < 1 else self.does("move_boundary", to=to)


def _based_on(seen: Observation) -> list[str]:
    """The tables that a plan moves or read."""
    return [
        table
        for trace_field in ("moves", "reads")
        for table in seen.trace_field(trace_field).split(",")
        if table
    ]


def _based(s: PublishObserved, w: int, seen: Observation) -> Truth:
    """The plan is based on the versions that its sidecar names."""
    return _agree(seen, "base", s.plan[w].base)


def _pinned(s: PublishObserved, seen: Observation) -> Truth:
    """The newest manifest pins the versions that the document names."""
    return _agree(seen, "number", s.pin)


def _agree(seen: Observation, name: str, column: object) -> Truth:
    tables = [table for table in TABLES if seen.rank(table) == 0]
    return all_of(column[table] == seen.rank(f"{table}_{name}") for table in tables)  # type: ignore[index]  # a column of an array field


_PUT: Mapping[str, Callable[[PublishRefinement, Observation], Actions]] = {
    "sidecar": PublishRefinement.sidecar,
    "version": PublishRefinement.head,
    "manifest": PublishRefinement.committed,
    "boundary": PublishRefinement.boundary,
}
_DELETED: Mapping[str, Callable[[PublishRefinement, Observation], Actions]] = {
    "sidecar": PublishRefinement.retired,
    "version": PublishRefinement.head_deleted,
    "manifest": PublishRefinement.deleted,
    "boundary": lambda _self, _seen: OUT_OF_BOUNDS,
}


class PublishCoverage(PublishRefinement):
    """The same map into the observed machine alone, at a bound at which its transitions are counted.

    A run leaves the bound at its first claim and at its third plan.
    """

    hidden: ClassVar[tuple[str, ...]] = (*PublishRefinement.hidden, *PublishRefinement.eager)
    eager: ClassVar[tuple[str, ...]] = ()
    left_out: ClassVar[tuple[str, ...]] = ()
    forgets: ClassVar[tuple[str, ...]] = ()
    machine = PublishObserved

    def __init__(self, writers: int = 2, claims: int = 0) -> None:
        super().__init__(writers, claims)
        self.window = None
