"""Scripted interleavings: stop a handle at one request, run other code there, or let the handle crash.

store = Scripted(inner)
store.before("put", "branch/main/manifest/", lambda: rival.publish(draft))
store.crash_before("put", "branch/main/manifest/")
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish import STANDARD, Catalog, Published, Safeguards, Unknown
from fencepost.impl.publish.safeguards import Epoch, Head, Standing
from fencepost.impl.store import ANYTHING
from fencepost.impl.store.interface import Layer, Store
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Request


class Crashed(BaseException):
    """The process crashed here; not an Exception, so that no code under test catches it."""


@dataclass
class _Hook:
    kind: str
    prefix: str
    act: Callable[[], object]
    when: str

    def fits(self, request: Request[Any]) -> bool:
        return request.kind == self.kind and request.subject.startswith(self.prefix)


class Scripted(Layer):
    """Runs each hook once, before or after the first step that holds a request it fits."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._hooks: list[_Hook] = []

    def before(self, kind: str, prefix: str, act: Callable[[], object]) -> None:
        self._hooks.append(_Hook(kind, prefix, act, "before"))

    def after(self, kind: str, prefix: str, act: Callable[[], object]) -> None:
        self._hooks.append(_Hook(kind, prefix, act, "after"))

    def crash_before(self, kind: str, prefix: str) -> None:
        self.before(kind, prefix, _die)

    def crash_after(self, kind: str, prefix: str) -> None:
        self.after(kind, prefix, _die)

    def crash_amid(self, kind: str, prefix: str) -> None:
        """Die when the first request that fits has landed, and the others of its step have not."""
        self.amid(kind, prefix, _die)

    def amid(self, kind: str, prefix: str, act: Callable[[], object]) -> None:
        """Act when the first request that fits has landed, and those behind it in its step have not."""
        self._hooks.append(_Hook(kind, prefix, act, "amid"))

    def within(self, kind: str, prefix: str, act: Callable[[], object]) -> None:
        """Act when the last request that fits has landed, and those before it in its step have not."""
        self._hooks.append(_Hook(kind, prefix, act, "within"))

    @property
    def spent(self) -> bool:
        """Whether everything scripted happened."""
        return not self._hooks

    def send(self, request: Request[Any]) -> Any:
        return self.send_all([request])[0]

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        for hook in self._due(requests, "before"):
            hook.act()
        for hook in self._due(requests, "amid"):
            first = next(at for at, request in enumerate(requests) if hook.fits(request))
            self.inner.send_all(requests[: first + 1])
            hook.act()
        for hook in self._due(requests, "within"):
            last = max(at for at, request in enumerate(requests) if hook.fits(request))
            reply = self.inner.send(requests[last])
            hook.act()
            others = self.inner.send_all([*requests[:last], *requests[last + 1 :]])
            return [*others[:last], reply, *others[last:]]
        replies = self.inner.send_all(requests)
        for hook in self._due(requests, "after"):
            hook.act()
        return replies

    def _due(self, requests: Sequence[Request[Any]], when: str) -> list[_Hook]:
        due = [h for h in self._hooks if h.when == when and any(h.fits(request) for request in requests)]
        for hook in due:
            self._hooks.remove(hook)
        return due


def _die() -> None:
    raise Crashed


MUTANTS: dict[str, Callable[..., Any]] = {
    "create-only-manifest": lambda: ANYTHING,
    "sidecar-before-heads": lambda fragments, sidecar: fragments,
    "whole-plan-in-sidecar": lambda plan: dataclasses.replace(plan, actions=plan.actions[:1]),
    "epoch-check": lambda mine, theirs: Epoch.SAME,
    "grace-window": lambda *_: Standing.FENCED,
    # As if every table had a manifest of its own: writers of other tables are no rivals.
    "shared-head": lambda plan, winners: any(
        winner.pin(action.table) != action.base for winner in winners for action in plan.actions
    ),
    "pins-re-evaluated-on-retry": lambda plan, parent: None,
    "reads-checked-within-group": lambda read, changed: None,
    "requests-recorded": lambda requests: (),
    "requests-searched": lambda ids: (),
    "inbound-check-on-removal": lambda removed, pointed_at: None,
    "boundary-check-after-sidecar": lambda next_id, boundary: True,
    "manifests-held-for-plans": lambda plan, id_: False,
    "retired-plans-recorded": lambda record: [],
    "boundary-check-after-create": lambda created, boundary: True,
    "read-back-on-unknown": lambda put: False,
    "late-head": lambda found, plan, base, against: Head.OWN if found.plan == plan.id else Head.RIVAL,
}
"""Each safeguard's mutant, which every check must catch."""


def name_of(ended: Published | Unknown) -> str:
    """Return the name of the result: a commit of this process is a `Published`, too."""
    return Published.__name__ if isinstance(ended, Published) else Unknown.__name__


def without(name: str | None) -> Safeguards:
    """The table of safeguards with one of them replaced by its mutant; None replaces none."""
    if name is None:
        return STANDARD
    return dataclasses.replace(STANDARD, **{name.replace("-", "_"): MUTANTS[name]})


PERSON = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}]


def graph(seed: int = 1) -> MemoryStore:
    """A store with a catalog of two node tables and one edge table."""
    store = MemoryStore(env=SeededEnvironment(seed))
    edge = {"id": "int64", "a": "int64", "b": "int64"}
    catalog = Catalog.open(store, author="founder", create=True)
    with catalog, catalog.transaction("found") as txn:
        txn.create_table("person", {"id": "int64", "name": "string"}, key="id")
        txn.create_table("place", {"id": "int64", "name": "string"}, key="id")
        txn.create_table("knows", edge, key="id", edges={"a": "person", "b": "person"})
        txn.append("person", PERSON)
    return store


def dangling(catalog: Catalog) -> list[Any]:
    """Visible edges that point at missing rows."""
    tables = catalog.snapshot().load()
    found = []
    for table, rows in tables.items():
        for column, target in catalog.snapshot().schema(table).edges:
            there = {row["id"] for row in tables[target]}
            found += [row for row in rows if row[column] is not None and row[column] not in there]
    return found
