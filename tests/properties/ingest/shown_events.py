"""Steps of the ingest machine, as the events that a store would record."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from fencepost.model import Label, Model, Step
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.refinement import Automaton, EventRow, Follower, Reader, Verdict

IDENTITY = "agent=61/boot=62/00000000000000000001-00000000000000000002"


def sha(h: int) -> str:
    return f"{h:064x}"


def blob_key(h: int, generation: int, *, named: bool) -> str:
    suffix = f"~{generation:010d}" if named else ""
    return f"raw-blobs/v1/sha256/{sha(h)[:2]}/{sha(h)[2:4]}/{sha(h)}{suffix}.lmbatch"


def landed(kind: str, key: str, trace_fields: str = "") -> EventRow:
    return ("landed", kind, key, "absent", "done", trace_fields)


def note(topic: str, h: int, what: str = "") -> EventRow:
    return ("note", "note", topic, "", "", f"sha={sha(h)}" + (f" what={what}" if what else ""))


def manifest(h: int, generation: int, *, named: bool) -> EventRow:
    return landed("put", f"accepted/v1/{IDENTITY}.json", _trace_fields(h, generation, named=named))


def record(h: int, generation: int, *, named: bool) -> EventRow:
    key = f"quarantine/v1/identity-conflict/{IDENTITY}/{sha(h)}.json"
    return landed("put", key, _trace_fields(h, generation, named=named))


def entry(which: str, h: int) -> EventRow:
    if which == "reference":
        return landed(
            "put", f"accepted-by-blob/v1/sha256/{sha(h)[:2]}/{sha(h)[2:4]}/{sha(h)}/{IDENTITY}.json"
        )
    return landed(
        "put", "accepted-by-time/v1/date=2026-01-01/hour=00/1-2.json", f"identity={IDENTITY} sha={sha(h)}"
    )


def _trace_fields(h: int, generation: int, *, named: bool) -> str:
    prefix = f"generation={generation:010d} " if named else ""
    return f"{prefix}identity={IDENTITY} sha={sha(h)}"


class EventWriter:
    """Writes the events of labels. Without generations every blob of a plain bucket has the same name."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.named = not model.sizes["versioned"]
        self.same = "gc-stalled-writer-generation" in model.without

    def events(self, label: Label, before: dict, after: dict) -> Iterator[EventRow]:
        given = dict(label.parameters)
        c = given.get("c", 0)
        answer = given.get("answer", "done")
        if label.action in ("put_blob", "store_anew", "put_blob_back", "another_stores_it"):
            if answer in ("done", "reply_lost"):
                h = given["h"] if "h" in given else before["collector"][c].batch
                new = after["blob"][h] - before["blob"][h]
                # In a plain bucket a create of what exists is no event; in a versioned one it is a version.
                if new or not self.named or self.same:
                    yield self.blob("put", h, min(new) if new else after["collector"][c].known)
        elif label.action in ("create_manifest", "late_manifest_lands"):
            if answer in ("done", "reply_lost"):
                which = "manifest" if after["manifest"] != before["manifest"] else "replica"
                stands = after[which].content
                yield manifest(stands["content"], self.generation(stands["generation"]), named=self.named)
        elif label.action == "record_conflict" and answer == "done":
            h = before["collector"][c].batch
            generation = self.generation(after["conflict"][h].content["generation"])
            yield record(h, generation, named=self.named)
        elif label.action in ("follow_up", "repair"):
            yield entry(given["entry"], after["manifest"].content["content"])
        elif label.action == "delete":
            yield self.blob("delete", given["h"], given["generation"])
        elif label.action == "answer":
            what = {"duplicate": "duplicate", "parked": "conflict"}.get(given["reply"], "accepted")
            yield note("outcome", before["collector"][c].batch, what)
        yield from (
            note("live", h)
            for h, (was, shown) in enumerate(zip(before["live"], after["live"], strict=True))
            if shown and not was
        )

    def generation(self, generation: int) -> int:
        return 0 if self.same else generation

    def blob(self, kind: str, h: int, generation: int) -> EventRow:
        return landed(kind, blob_key(h, self.generation(generation), named=self.named))

    def counterexample(self, steps: Sequence[Step]) -> Iterator[EventRow]:
        """The events of a counterexample of the machine."""
        for step in taken(self.model, steps):
            yield from self.events(*step)


def follow(automaton: Automaton, rows: Sequence[EventRow]) -> Verdict | None:
    """None when the map allows them all."""
    follower = Follower(Reader(automaton))
    for row in rows:
        error = follower.see(row, "x", 0)
        if error is not None:
            return error
    return None


def taken(model: Model, steps: Sequence[Step]) -> Iterator[tuple[Label, dict, dict]]:
    """The steps of a counterexample, with the states before and after."""
    state = model.initial()[:, :1]
    for step in steps:
        label = next(
            label
            for label in model.labels
            if label.action == step.action and dict(label.parameters) == dict(step.parameters)
        )
        after = model.successors(state, label).states
        yield label, model.unpack(state[:, 0]), model.unpack(after[:, 0])
        state = after


def walks(
    model: Model, rows: int, length: int, seed: int, often: Collection[str] = ()
) -> Iterator[list[tuple[Label, dict, dict]]]:
    """Random walks from the start, all at once. The actions of `often` are taken more often than others."""
    rng = np.random.default_rng(seed)
    states = np.repeat(model.initial()[:, :1], rows, axis=1)
    walked: list[list[tuple[Label, dict, dict]]] = [[] for _ in range(rows)]
    for _ in range(length):
        best = np.full(rows, -1.0)
        chosen: list[Label | None] = [None] * rows
        following = states.copy()
        for label in model.labels:
            after = model.successors(states, label)
            if not len(after.origin):
                continue
            luck = rng.random(len(after.origin)) ** (0.1 if label.action in often else 1.0)
            better = luck > best[after.origin]
            best[after.origin[better]] = luck[better]
            following[:, after.origin[better]] = after.states[:, better]
            for row in after.origin[better].tolist():
                chosen[row] = label
        for row, label in enumerate(chosen):
            if label is not None:
                walked[row].append((label, model.unpack(states[:, row]), model.unpack(following[:, row])))
        states = following
    yield from walked


def automaton(*, versioned: bool, contents: int = 2, horizons: int = 9, bounded: bool = True) -> Automaton:
    return Automaton(IngestRefinement(contents, horizons, versioned=versioned, bounded=bounded))
