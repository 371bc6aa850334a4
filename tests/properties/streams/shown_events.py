"""Steps of the machine of streams, as the events that a store would record.

The machine numbers owners through all incarnations; the keys of the code count them in each.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.model import Label, Model, Step
from fencepost.properties.refinement import EventRow
from tests.properties.ingest.shown_events import taken

HASH = "0" * 32
Values = dict[str, Any]


def landed(kind: str, key: str, condition: str, fields: str = "") -> EventRow:
    return ("landed", kind, f"streams/{HASH}/{key}", condition, "done", fields)


class EventWriter:
    """Of one walk, from its start."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.first: dict[int, int] = {}
        """The epoch with which each incarnation began."""

    def events(self, label: Label, before: Values, after: Values) -> Iterator[EventRow]:
        given, was, now = dict(label.parameters), before["manifest"].content, after["manifest"].content
        answer = given.get("answer", "done")
        if label.action in ("create", "late_create_lands"):
            yield self.manifest(after, "absent")
        elif label.action in ("own", "refresh", "recreate", "move", "delete", "expire", "begin_reap"):
            if was != now or label.action == "refresh":
                yield self.manifest(after, "matches")
        elif label.action in ("upload", "late_upload_lands") and answer == "done":
            ((epoch, place),) = self.standing(after) - self.standing(before)
            yield self.segment("put", epoch, place, after)
        elif label.action in ("delete_data", "collect"):
            yield self.segment("delete", given["e"], given["o"], before)
        elif label.action == "delete_manifest":
            yield landed("delete", "manifest.json", "matches")

    def counterexample(self, steps: Sequence[Step]) -> Iterator[EventRow]:
        for step in taken(self.model, steps):
            yield from self.events(*step)

    @staticmethod
    def standing(state: Values) -> set[tuple[int, int]]:
        """The segments that stand, by epoch and place."""
        lines = enumerate(state["data"])
        return {(e, o) for e, line in lines for o, key in enumerate(line) if key.content is not None}

    def manifest(self, state: Values, condition: str) -> EventRow:
        manifest, listed = state["manifest"].content, state["listed"]
        first = self.first.setdefault(manifest["life"], manifest["epoch"])
        count = manifest["length"]
        last = f" start={count - 1} listed={listed[count - 1] - first + 1}" if count else ""
        return landed(
            "put",
            "manifest.json",
            condition,
            f"incarnation=i{manifest['life']} owner={manifest['epoch'] - first + 1} "
            f"state={'tombstone' if manifest['tomb'] else 'live'} segments={count}{last}",
        )

    def segment(self, kind: str, epoch: int, place: int, state: Values) -> EventRow:
        life = state["data"][epoch][place].content["life"]
        owner = epoch + 1 - self.first[life] + 1
        key = f"segments/i{life}.{owner:08d}-{place:016d}.seg"
        fields = f"incarnation=i{life} owner={owner} start={place}" if kind == "put" else ""
        return landed(kind, key, "absent" if kind == "put" else "anything", fields)
