"""A write resolves the branch once, and reads the schema of each table it needs once, however many stages."""

from collections import Counter
from typing import Any

import pytest

from fencepost.impl.publish import Catalog
from fencepost.impl.publish.cache import Cache
from fencepost.impl.publish.planner import Planner
from fencepost.impl.publish.schema import Schema
from fencepost.impl.store.layers import Metered
from fencepost.impl.store.memory import MemoryStore

COLUMNS = {"id": "int64", "at": "int64"}


def founded(tables: int) -> MemoryStore:
    store = MemoryStore()
    with Catalog.open(store, create=True) as catalog, catalog.transaction() as txn:
        for number in range(tables):
            edges = {"at": f"t{number - 1}"} if number else {}
            txn.create_table(f"t{number}", COLUMNS, key="id", edges=edges)
            txn.append(f"t{number}", [{"id": 1, "at": 1 if number else None}])
    return store


def reads(store: Metered, act: Any) -> Counter[str]:
    """The objects that `act` received, by kind. A newer manifest is requested once at the most."""
    with store.operation("act") as cost:
        act()
    got = [sent for sent in cost.sent if sent.kind == "get"]
    assert sum(_family(sent.key) == "manifest" for sent in got) <= 1
    return Counter(_family(sent.key) for sent in got if sent.bytes_received)


def _family(key: str) -> str:
    head, _, rest = key.partition("/")
    return rest.split("/")[1] if head == "branch" else head


def change(txn: Any) -> None:
    """Three verbs on two tables, with edges to check: several stages of one plan."""
    txn.upsert("t1", [{"id": 2, "at": 1}])
    txn.append("t2", [{"id": 3, "at": 2}])
    txn.delete("t2", [3])


@pytest.mark.parametrize("tables", [4, 40])
def test_a_new_handle_reads_each_schema_that_a_write_needs_once(tables: int) -> None:
    """Columns are in the versions: of three tables that it writes or points at, and one that points back."""
    store = Metered(founded(tables))
    catalog = Catalog.open(store, mode="join")
    found = reads(store, lambda: catalog.write(change))
    assert found["table"] == 4
    assert found["manifest"] == 0, "opening has resolved the branch"


def test_a_warm_handle_reads_no_schema_and_no_manifest() -> None:
    store = Metered(founded(4))
    catalog = Catalog.open(store, mode="join")
    catalog.write(change)
    found = reads(store, lambda: catalog.write(lambda txn: txn.append("t2", [{"id": 9, "at": 2}])))
    assert (found["table"], found["manifest"], found["data"]) == (0, 0, 0)


def test_a_write_is_planned_once_and_its_new_schema_is_validated_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A retry against others that changed nothing it depends on moves no head and plans nothing again."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, name, staticmethod(counting) if name == "of" else counting)

    count(Schema, "of")
    count(Planner, "finish")
    store = founded(4)
    one, two = Catalog.open(store, mode="join"), Catalog.open(store, mode="join")
    counted.clear()
    one.write(lambda txn: txn.create_table("fresh", COLUMNS, key="id"))
    assert counted == {"of": 1, "finish": 1}
    counted.clear()
    two.write(lambda txn: txn.append("t0", [{"id": 5}]))  # loses the race to the commit above, and goes on
    assert counted == {"finish": 1}


def test_a_handle_that_forgot_its_view_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts can fail: a planner that reads its tables for each verb, as the other engine does."""
    store = Metered(founded(4))
    catalog = Catalog.open(store, mode="join")
    inner = Planner._apply

    def forgetful(self: Planner, *args: Any) -> None:
        self._reader.cache = Cache()
        self._reader.contents({"t1": self._snapshot.tables["t1"]})
        inner(self, *args)

    monkeypatch.setattr(Planner, "_apply", forgetful)
    assert reads(store, lambda: catalog.write(change))["table"] > 4
