"""Which steps of the publish machine the store's events show.

    create recovery/<plan>            a plan begins, on the manifest that it names
    create table/<t>/version/<n>      a head of the plan or of its undo, where the machine puts it
    create branch/<b>/manifest/<id>   a claim, a commit by the plan's writer or by recovery, or an undo's
    put    branch/<b>/boundary        cleanup, first step
    delete manifest or version        cleanup, second and third
    delete recovery/<plan>            retired, by whoever may

Reading shows nothing, and neither does a create that met what was there already. So what a process
concludes from what it read is hidden: that it lost, that it must undo, that a sidecar need not be left alone.
A process that crashes shows nothing either.

Who did it is known as far as it matters: `own` is the process that wrote the plan's sidecar, as long as it
lives. It may act as its plan's writer and, with another handle, as somebody who recovers. All others only
recover.

The machine has one branch and two tables, one of nodes and one of edges. For a run with more of either, or
with a merge or a sweep in it, it has no room: undecided.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

from fencepost.model import Label, Model, Truth
from fencepost.model.publish import EDGES, NODES, TABLES
from fencepost.properties.publish.followed import Followed
from fencepost.properties.refinement import (
    COUNTED,
    IMPOSSIBLE,
    OUT_OF_BOUNDS,
    STUTTER,
    Actions,
    Keys,
    Observation,
    Refinement,
    Role,
    where,
)

KINDS = {
    ("nodes", ""): "add",
    ("nodes", "edges"): "drop",
    ("edges", "nodes"): "link",
    ("edges,nodes", ""): "both",
}
"""What a plan is to the machine, by the sorts of the tables that it moves and that it only read."""
TOLD = ("done", "reply-lost")
FAR = 10**9


class PublishMap(Refinement):
    """What the events mean. What those who recover do is for `PublishRefinement` and `AsModelled` to name."""

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
            return dict(label.parameters)["answer"] not in TOLD
        return super().hides(label)

    # What has other names in other machines.

    def begins(self, w: int, kind: str, base: int) -> Actions:
        """The sidecar lands of a plan made on manifest `base`."""
        raise AssertionError

    def rolls_forward(self, w: int) -> Actions:
        raise AssertionError

    def undoes_head(self, w: int, epoch: int, table: str) -> Actions:
        raise AssertionError

    def commits_undo(self, w: int) -> Actions:
        raise AssertionError

    def retires(self, w: int) -> Actions:
        raise AssertionError

    def moves_boundary(self, to: int) -> Actions:
        raise AssertionError

    # What is the same.

    def actions(self, seen: Observation) -> Actions:
        if seen.phase == "note":
            return self.told(seen)
        if not seen.done:
            return STUTTER
        if seen.trace_field("wide"):
            return OUT_OF_BOUNDS
        ways = _DELETED if seen.kind == "delete" else _PUT
        return ways[seen.what](self, seen)

    # Plans.

    def begun(self, seen: Observation) -> Actions:
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

    def told(self, seen: Observation) -> Actions:
        """A caller was told that its plan is published. What else it is told, the audit judges."""
        w = seen.rank("plan")
        if seen.outcome != "acked" or w < 0:
            return STUTTER
        return where(f"the caller of {w} can be told", lambda s: s.outcome[w] == "published", STUTTER)

    def retired(self, seen: Observation) -> Actions:
        w = seen.rank("plan")
        by_writer = self.does("retire", w=w) if seen.own else IMPOSSIBLE
        gone = where(f"the sidecar of {w} was gone before", lambda s: ~s.sidecar[w], STUTTER)
        return (*by_writer, *self.retires(w), *gone)

    # Heads.

    def head(self, seen: Observation) -> Actions:
        table = next((table for table in TABLES if seen.rank(table) == 0), None)
        w, undo, epoch = seen.rank("plan"), seen.trace_field("undo") == "yes", seen.rank("epoch")
        if table is None:
            return OUT_OF_BOUNDS
        t, number = TABLES.index(table), seen.rank(f"{table}_number")
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
            f"it stands at number {number}",
            lambda s: s.version[t][number - 1].holds(plan=w, undo=undo, epoch=epoch),
            own if seen.own else IMPOSSIBLE,
            moved,
        )

    def head_deleted(self, seen: Observation) -> Actions:
        table = next((table for table in TABLES if seen.rank(table) == 0 or self._at(seen, table)), None)
        number = seen.rank("number in version")
        if table is None or number < 1:
            return STUTTER
        t = TABLES.index(table)
        gone = where("it was gone before", lambda s: ~s.version[t][number - 1].is_there, STUTTER)
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
            readings = self.rolls_forward(w)
            if seen.own:
                own = self.does("create_manifest", w=w, answer=TOLD)
                readings = (*own, *self.does("manifest_lands", w=w), *readings)
        elif kind == "undo":
            readings = (*self.commits_undo(w), *self.does("finish_undo", w=w))
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
    """The tables that a plan moves or has read."""
    return [
        table
        for trace_field in ("moves", "reads")
        for table in seen.trace_field(trace_field).split(",")
        if table
    ]


def _based(s: Followed, w: int, seen: Observation) -> Truth:
    """Whether the plan stands on the versions that its sidecar names."""
    return _agree(seen, "base", s.base[w])


def _pinned(s: Followed, seen: Observation) -> Truth:
    """Whether the newest manifest pins what the document says."""
    return _agree(seen, "number", s.pin)


def _agree(seen: Observation, name: str, column: object) -> Truth:
    said = {t: seen.rank(f"{TABLES[t]}_{name}") for t in (NODES, EDGES)}
    holds = Truth.constant(True)
    for t, number in said.items():
        if seen.rank(TABLES[t]) == 0:
            holds = holds & (column[t] == number)  # type: ignore[index]  # a column of an array field
    return holds


_PUT: Mapping[str, Callable[[PublishMap, Observation], Actions]] = {
    "sidecar": PublishMap.begun,
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
