"""A publish plan: the complete intent of one write, before anything of it is visible.

The verbs build plans; the live commit and recovery execute them, by the same `apply`. A plan says on
which pins it stands (expectations) and what each touched table becomes (actions). It is a value, goes to
JSON and back without loss, and the same plan always gives the same bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.impl.publish.documents import FORMAT, Entry, Manifest, Pin, decode, encode
from fencepost.impl.publish.errors import Damaged

if TYPE_CHECKING:
    from fencepost.impl.publish.commit import Ended
    from fencepost.impl.publish.context import BranchContext


@dataclass(frozen=True, slots=True)
class Action:
    """What becomes of one table."""

    table: str
    verbs: tuple[str, ...]
    """append, upsert, overwrite, delete, alter, fork, register, tombstone, restore, rewrite, adopt."""
    base: Pin | None
    """The pin it stands on; None when the table is not there yet."""
    entry: Entry | None
    """What the manifest will say, its version and digest still open when a head is moved. None drops it."""
    columns: tuple[tuple[str, str], ...] = ()
    runs: tuple[Mapping[str, Any], ...] = ()

    @property
    def moves_head(self) -> bool:
        return self.entry is not None and "adopt" not in self.verbs

    @property
    def contested(self) -> bool:
        """Whether its head stands in a lineage that other plans extend too."""
        return (
            self.moves_head
            and self.entry is not None
            and self.base is not None
            and self.entry.location == self.base.location
        )

    @property
    def first_number(self) -> int:
        return self.base.version + 1 if self.base else 1


@dataclass(frozen=True, slots=True)
class PublishPlan:
    """See the top of this module."""

    id: str
    branch: str
    kind: str
    """init, publish, undo, claim, sweep, branch, merge, delete-branch."""
    author: str
    time_ns: int
    epoch: int
    base: int
    """The id of the manifest it was built on; 0 for none."""
    incarnation: str = ""
    message: str = ""
    members: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    """In order of the tables' names."""
    reads: Mapping[str, Pin] = field(default_factory=dict)
    """Tables that were only read, at the pin they were read."""
    schema_since: int | None = None
    tables_digest: str = ""
    """When set, the parent's tables must be exactly these (fast-forward)."""
    hold: tuple[str, int] | None = None
    """A manifest of a branch that cleanup must retain while this plan's sidecar stands."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    merges: str = ""
    undoes: str = ""
    horizon: str = ""

    @property
    def moving(self) -> tuple[Action, ...]:
        return tuple(action for action in self.actions if action.moves_head)

    @property
    def recoverable(self) -> bool:
        """Whether it leaves traces before its manifest, so that it needs a sidecar."""
        return (bool(self.moving) or self.hold is not None) and not self.undoes

    def apply(self, context: "BranchContext", parent: Manifest | None, epoch: int) -> "Ended":
        """Move the heads, then the manifest. Nothing else moves either.

        Its expectations hold on `parent`; `epoch` is the executor's, not the plan's.
        """
        from fencepost.impl.publish.commit import commit
        from fencepost.impl.publish.endings import Blocked, Unknown
        from fencepost.impl.publish.heads import place

        placed = place(context, self, epoch)
        if isinstance(placed, Blocked | Unknown):
            return placed
        return commit(context, self, parent, epoch, placed)

    def to_bytes(self) -> bytes:
        return encode(
            {
                "format": FORMAT,
                "id": self.id,
                "branch": self.branch,
                "kind": self.kind,
                "author": self.author,
                "time_ns": self.time_ns,
                "epoch": self.epoch,
                "base": self.base,
                "incarnation": self.incarnation,
                "message": self.message,
                "members": list(self.members),
                "actions": [_action_to_json(action) for action in self.actions],
                "reads": {table: list(pin) for table, pin in self.reads.items()},
                "schema_since": self.schema_since,
                "tables_digest": self.tables_digest,
                "hold": list(self.hold) if self.hold else None,
                "origin": dict(self.origin),
                "merges": self.merges,
                "undoes": self.undoes,
                "horizon": self.horizon,
            }
        )

    @staticmethod
    def from_bytes(body: bytes, what: str = "plan") -> "PublishPlan":
        found = decode(body, what)
        del found["format"]
        try:
            hold = found["hold"]
            return PublishPlan(
                **{
                    **found,
                    "members": tuple(found["members"]),
                    "actions": tuple(_action_from_json(action) for action in found["actions"]),
                    "reads": {table: Pin(*pin) for table, pin in found["reads"].items()},
                    "hold": (hold[0], hold[1]) if hold else None,
                }
            )
        except (KeyError, TypeError) as error:
            raise Damaged(f"{what} lacks or misspells {error}; restore it from a copy") from None


def _action_to_json(action: Action) -> dict[str, Any]:
    return {
        "table": action.table,
        "verbs": list(action.verbs),
        "base": list(action.base) if action.base else None,
        "entry": action.entry.to_json() if action.entry else None,
        "columns": [list(column) for column in action.columns],
        "runs": [dict(run) for run in action.runs],
    }


def _action_from_json(found: Mapping[str, Any]) -> Action:
    return Action(
        table=found["table"],
        verbs=tuple(found["verbs"]),
        base=Pin(*found["base"]) if found["base"] else None,
        entry=Entry.from_json(found["entry"]) if found["entry"] else None,
        columns=tuple((name, kind) for name, kind in found["columns"]),
        runs=tuple(found["runs"]),
    )
