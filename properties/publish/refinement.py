"""The refinement map of publish: which actions of the model the store's events show.

    create recovery/<plan>            a plan begins, on the manifest that it names
    create table/<t>/version/<n>      a head of the plan or of its undo, where the machine puts it
    create branch/<b>/manifest/<id>   a claim, a commit by the plan's writer or by recovery, or an undo's
    put    branch/<b>/boundary        cleanup, first step
    delete manifest or version        cleanup, second and third
    delete recovery/<plan>            retired, by any process that may

To the model reading shows nothing, and neither does a create that found an object: `REQUEST_RULES` judge
that. So the conclusions of a process from what it read are hidden: that it lost, that it must undo, that a
sidecar need not be left alone. A process that crashes shows nothing either.

The process is known as far as it matters: `own` is the process that wrote the plan's sidecar, as long as it
lives. It may act as its plan's writer and, with another handle, as one that recovers. All others only
recover.

The machine has one branch and two tables, one of nodes and one of edges. A run with more of either, or with a
merge or a sweep in it, is out of bounds: undecided.

There are two machines: `PublishRefinement` maps into the one that follows runs (see `followed`),
`AsModelled` into the model as it is checked, for its coverage.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from fencepost.model import Label, Model, Truth, all_of
from fencepost.model.kernel.language.layout import U64
from fencepost.model.publish import TABLES, Publish
from fencepost.properties.publish.followed import Followed, renamed, window
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
    keys=(Keys("fragment", r"(?:.*/)?data/[^/]+/(?P<plan>[^/-]+)-[^/]+"),),
    conditions={
        "sidecar": ("absent",),
        "version": ("absent",),
        "manifest": ("absent",),
        "fragment": ("absent",),
        "boundary": ("absent", "matches"),
    },
    kept=("boundary",),
    staged=Staged("sidecar", "fragments", "fragment", then="version", unless="undo", owner="plan"),
    freed=Freed("fragment", by="manifest", name="kind", value="sweep"),
    confirmed=Confirmed("manifest", "boundary", concluded="sidecar", noted="acked", owner="plan"),
    not_judged=(
        "rows, and the fragments of plans whose sidecars do not count them",
        "a boundary check after which its writer neither deletes its sidecar nor notes its outcome",
    ),
)
"""Conditions; a plan's fragments before its heads, and a sweep before their deletion; the boundary after a
create that succeeded."""
APPLIED = ("done", "reply_lost")
FAR = 10**9


class PublishMap(Refinement):
    """The map, but for the actions whose names differ between the machines."""

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
        "look_again",
        "check_boundary",
        "undo_own_ends",
        "crash",
    )
    notes = frozenset({"outcome"})
    request_rules = REQUEST_RULES

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        sizes = model.sizes
        self.ids = 1 + sizes["claims"] + 3 * sizes["writers"]
        numbers = ("nodes_base@nodes", "edges_base@edges", "nodes_number@nodes", "edges_number@edges")
        self.roles = (
            Role("branch", ("branch",), most=0),
            Role("plan", ("plan",), most=sizes["writers"] - 1),
            Role("nodes", ("nodes", "location?"), most=0),
            Role("edges", ("edges", "location?"), most=0),
            Role("epoch", ("before", "epoch"), COUNTED, most=sizes["claims"], least=-FAR),
            Role("manifest", ("base", "parent", "id?", "boundary?"), COUNTED, start=1, least=-FAR),
            Role("version", (*numbers, "number?@location"), COUNTED, least=-FAR),
        )

    def hides(self, label: Label) -> bool:
        if label.action == "create_manifest":
            return dict(label.parameters)["answer"] not in APPLIED
        return super().hides(label)

    # Recovery and the begin of a plan have other names in other machines.

    recovery: ClassVar[Mapping[str, str]]
    """The machine's actions of a process that recovers, by those of the model."""

    def recovers(self, action: str, w: int, **parameters: object) -> Actions:
        return self.does(self.recovery[action], w=w, **parameters)

    def begins(self, w: int, kind: str, base: int) -> Actions:
        """The sidecar of a plan made on manifest `base` lands."""
        raise NotImplementedError

    def undoes_head(self, w: int, epoch: int, table: str) -> Actions:
        raise NotImplementedError

    def moves_boundary(self, to: int) -> Actions:
        raise NotImplementedError

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
        begins = (*self.begins(w, kind, base), *self.does("stage_again", w=w))
        return where(
            f"manifest {base} has epoch {epoch} and the pins that the plan names",
            lambda s: (s.began[w] == epoch) & _based(s, w, seen),
            begins,
        )

    def outcome(self, seen: Observation) -> Actions:
        """A caller learned that its plan is published. The audit checks every other outcome."""
        w = seen.rank("plan")
        if seen.outcome != "acked" or w < 0:
            return STUTTER
        return where(f"plan {w} is published", lambda s: s.outcome[w] == "published", STUTTER)

    def retired(self, seen: Observation) -> Actions:
        w = seen.rank("plan")
        by_writer = self.does("retire", w=w) if seen.own else IMPOSSIBLE
        gone = where(f"the sidecar of {w} was gone before", lambda s: ~s.sidecar[w], STUTTER)
        return (*by_writer, *self.recovers("retire_settled", w), *gone)

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
            moved = self.undoes_head(w, epoch, table)
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
        if kind == "claim":
            readings = self.does("claim")
        elif kind == "publish":
            readings = self.recovers("roll_forward", w)
            if seen.own:
                own = self.does("create_manifest", w=w, answer=APPLIED)
                readings = (*own, *self.does("manifest_lands", w=w), *readings)
        elif kind == "undo":
            readings = (*self.recovers("undo_commit", w), *self.does("finish_undo", w=w))
            if seen.own:
                readings = (*self.does("undo_own_commit", w=w), *readings)
        else:
            return OUT_OF_BOUNDS
        return where(
            f"it is manifest {id_} of epoch {epoch} and pins what it pins",
            lambda s: ((s.last == id_) & (s.epoch == epoch) & _pinned(s, seen)) | (s.deleted >= id_),
            readings,
        )

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
        return STUTTER if to < 1 else self.moves_boundary(to)


def _based_on(seen: Observation) -> list[str]:
    """The tables that a plan moves or read."""
    return [
        table
        for trace_field in ("moves", "reads")
        for table in seen.trace_field(trace_field).split(",")
        if table
    ]


def _based(s: Followed, w: int, seen: Observation) -> Truth:
    """Whether the plan is based on the versions that its sidecar names."""
    return _agree(seen, "base", s.base[w])


def _pinned(s: Followed, seen: Observation) -> Truth:
    """Whether the newest manifest pins the versions that the document names."""
    return _agree(seen, "number", s.pin)


def _agree(seen: Observation, name: str, column: object) -> Truth:
    tables = [table for table in TABLES if seen.rank(table) == 0]
    return all_of(column[table] == seen.rank(f"{table}_{name}") for table in tables)  # type: ignore[index]  # a column of an array field


_PUT: Mapping[str, Callable[[PublishMap, Observation], Actions]] = {
    "sidecar": PublishMap.sidecar,
    "version": PublishMap.head,
    "manifest": PublishMap.committed,
    "boundary": PublishMap.boundary,
}
_DELETED: Mapping[str, Callable[[PublishMap, Observation], Actions]] = {
    "sidecar": PublishMap.retired,
    "version": PublishMap.head_deleted,
    "manifest": PublishMap.deleted,
    "boundary": lambda _self, _seen: OUT_OF_BOUNDS,
}


RECOVERY = ("roll_forward", "undo_head", "undo_commit", "retire_settled")
"""Actions of openers that events show."""
BY_THEMSELVES = ("classify", "leave_to_rival", "undo_lost", "give_up")
"""Actions of openers that no event shows."""
RENAMING = ("forget", "leave", "slide_versions", "slide_manifests", "slide_epochs")


class PublishRefinement(PublishMap):
    """Into the machine that follows runs, see `followed`."""

    eager = ("sidecar_is_read", "sidecar_is_judged", "one_is_left_to_rival")
    left_out = ("begin", "move_boundary", *RECOVERY, "read_sidecar", *BY_THEMSELVES, *RENAMING)
    forgets = ("dropped",)
    recovery: ClassVar[Mapping[str, str]] = dict(
        zip(
            RECOVERY,
            ("somebody_rolls_forward", "somebody_undoes_head", "somebody_commits_undo", "somebody_retires"),
            strict=True,
        )
    )

    def __init__(self, writers: int = 6, claims: int = 3, *, skew: bool = False) -> None:
        """Bounds on the plans and claims of a run. With `skew`, clocks may differ by any time."""
        given_up = ("bounded-landing", *(("bounded-skew",) if skew else ()))
        sizes = {"writers": writers, "claims": claims, "openers": 1}
        self.skew = skew
        super().__init__(Model(Followed, sizes, without=given_up))
        self.window = window(self.ids, writers, claims)
        slot = self.model.layout.slots["read"]
        epochs = range(1 + claims)
        self._read = {
            (w, epoch): slot.place(w * len(epochs) + epoch) for w in range(writers) for epoch in epochs
        }
        self._by_epoch: dict[tuple[str, int, int], list[Label]] = {}

    def hides(self, label: Label) -> bool:
        """With any skew a crash enables nothing new, so it need not be followed."""
        return super().hides(label) and not (self.skew and label.action == "crash")

    def shows(self, label: Label) -> bool:
        return super().shows(label) and label.action != "crash"

    def saturated(self, states: U64) -> U64:
        """As in general, without trying labels of epochs in which no process has read the sidecar."""
        first, *others = self.eager
        for label in self._labels[first]:
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

    def covering(self) -> "AsModelled":
        return AsModelled()

    def renamed(self, seen: Observation, label: Label) -> Observation | None:
        return renamed(seen, label)

    def begins(self, w: int, kind: str, base: int) -> Actions:
        return self.does("begin_on", w=w, kind=kind, parent=base - 1)

    def undoes_head(self, w: int, epoch: int, table: str) -> Actions:
        return self.recovers("undo_head", w, epoch=epoch, table=table)

    def moves_boundary(self, to: int) -> Actions:
        return self.does("boundary_to", to=to)


class AsModelled(PublishMap):
    """Into the model as it is checked, for its coverage: sizes, troubles and openers are those of the bound.

    A plan whose sidecar lands when its manifest is no longer the newest has left the bound, and so has a run
    with more troubles than the model has room for.
    """

    hidden = (*PublishMap.hidden, "read_sidecar", *BY_THEMSELVES)
    recovery: ClassVar[Mapping[str, str]] = {name: name for name in RECOVERY}

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(Model(Publish, sizes))

    def begins(self, w: int, kind: str, base: int) -> Actions:
        begins = self.does("begin", w=w, kind=kind)
        return where(f"manifest {base} is the newest", lambda s: s.parent[w] == base, begins)

    def undoes_head(self, w: int, epoch: int, table: str) -> Actions:
        return self.recovers("undo_head", w, table=table)

    def moves_boundary(self, to: int) -> Actions:
        return where(f"the boundary is {to}", lambda s: s.boundary == to, self.does("move_boundary"))
