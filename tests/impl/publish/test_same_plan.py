"""same-plan: any executor of a plan leaves the same bytes, for every point where its writer can crash."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.impl.publish import Catalog
from fencepost.impl.publish.documents import (
    Manifest,
    Placed,
    PublishPlan,
    next_manifest,
    read_manifest,
    read_version,
    version_document,
)
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Request
from tests.impl.publish.scripted import Crashed, graph

MANIFEST, SIDECAR = "branch/main/manifest/", "recovery/"


class Mortal(Layer):
    """Crashes at one of its writes, before or after it lands. Parallel writes land one after another, in
    order or backwards, so that some crash leaves every part of a step behind.
    """

    def __init__(self, inner: MemoryStore, at: int, *, landed: bool, backwards: bool = False) -> None:
        super().__init__(inner)
        self.left = at
        self.landed = landed
        self.backwards = backwards
        self.plans: dict[str, PublishPlan] = {}

    def send(self, request: Request[Any]) -> Any:
        if request.reads:
            return self.inner.send(request)
        if request.kind == "put" and request.subject.startswith(SIDECAR):
            plan = PublishPlan.from_bytes(request.body)  # type: ignore[attr-defined]  # a put has one
            self.plans[plan.id] = plan
        self.left -= 1
        if self.left == 0 and not self.landed:
            raise Crashed
        reply = self.inner.send(request)
        if self.left == 0:
            raise Crashed
        return reply

    def send_all(self, requests: Any) -> Any:
        if not self.backwards:
            return [self.send(request) for request in requests]
        return [self.send(request) for request in reversed(requests)][::-1]


def two_tables(catalog: Catalog) -> None:
    draft = catalog.draft("two tables")
    draft.append("person", [{"id": 3, "name": "Cyd"}])
    draft.delete("person", [1])
    draft.append("place", [{"id": 1, "name": "Rome"}])
    catalog.publish(draft)


def alive() -> tuple[Mapping[str, bytes], int]:
    """The objects that the live commit leaves, and the number of its writes."""
    store = graph()
    writer = Mortal(store, -1, landed=True)
    two_tables(Catalog.open(writer, author="victim", mode="join"))
    return kept(store), -1 - writer.left


def kept(store: MemoryStore) -> dict[str, bytes]:
    return {key: body for key, body in store.contents().items() if not key.startswith((SIDECAR, "retired/"))}


LIVE, WRITES = alive()
DEATHS = list(itertools.product(range(1, WRITES + 1), (False, True), (False, True)))


def died(at: int, landed: bool, backwards: bool) -> tuple[MemoryStore, PublishPlan | None]:
    store = graph()
    victim = Mortal(store, at, landed=landed, backwards=backwards)
    with pytest.raises(Crashed):
        two_tables(Catalog.open(victim, author="victim", mode="join"))
    store.env.sleep(100)
    return store, next(iter(victim.plans.values()), None)


def test_there_is_a_crash_at_every_write() -> None:
    assert WRITES == 6, "two fragments, the sidecar, two heads, the manifest"


@pytest.mark.parametrize(("at", "landed", "backwards"), DEATHS)
def test_a_joining_opener_leaves_the_same_bytes_or_nothing(at: int, landed: bool, backwards: bool) -> None:
    store, plan = died(at, landed, backwards)
    opener = Catalog.open(store, author="another writer", mode="join")
    shown = [manifest for manifest in opener.log() if plan is not None and manifest.plan == plan.id]
    if shown:
        assert kept(store) == LIVE
    else:
        assert opener.snapshot().load() == Catalog.open(graph(), mode="read").snapshot().load()
    assert bool(shown) == (at == WRITES or (at == WRITES - 1 and landed))


@pytest.mark.parametrize(("at", "landed", "backwards"), DEATHS)
@pytest.mark.parametrize("mode", ["join", "claim"])
def test_every_object_is_a_function_of_the_plan(at: int, landed: bool, backwards: bool, mode: str) -> None:
    """Of the plan as staged, the parent and the numbers, and not of the executor."""
    store, plan = died(at, landed, backwards)
    Catalog.open(store, author="another writer", mode=mode)
    versions = {key: read_version(body, key) for key, body in kept(store).items() if "/version/" in key}
    for key, version in versions.items():
        if plan is not None and version.plan == plan.id:
            action = next(action for action in plan.actions if action.table == version.table)
            assert version_document(plan, action, version.number) == store.contents()[key]
    chain = {m.id: m for m in map(read_manifest, bodies(store, MANIFEST))}
    shown = [manifest for manifest in chain.values() if plan is not None and manifest.plan == plan.id]
    assert bool(shown) == (at == WRITES or (at == WRITES - 1 and landed))
    for manifest in shown:
        assert plan is not None
        placed = {action.table: placed_in(manifest, action.table) for action in plan.moving}
        again = next_manifest(chain[manifest.id - 1], plan, placed)
        assert again.body() == store.contents()[f"{MANIFEST}{manifest.id:020d}.json"]


def bodies(store: MemoryStore, prefix: str) -> list[bytes]:
    return [body for key, body in store.contents().items() if key.startswith(prefix)]


def placed_in(manifest: Manifest, table: str) -> Placed:
    return Placed(manifest.tables[table].version, manifest.tables[table].digest)
