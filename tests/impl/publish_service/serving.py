"""A server of a catalog that listens in a thread of the test."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from fencepost.impl.http.server import Server, listener
from fencepost.impl.publish import Catalog
from fencepost.impl.publish.service.app import CatalogServer, Setup
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore

TIMEOUT_S = 120
"""After this time a waiting test fails: the server hangs."""


@dataclass
class Served:
    url: str
    server: CatalogServer
    client: httpx.Client
    stop: Any = field(repr=False)

    def post(self, order: Any, branch: str = "main", **headers: str) -> httpx.Response:
        return self.client.post(f"{self.url}/v1/branches/{branch}/commits", json=order, headers=headers)

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        lines = self.client.get(f"{self.url}/metrics").text.splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"fencepost_catalog_{name} ")))


def order(request: str, table: str, *rows: dict[str, Any], verb: str = "append", **more: Any) -> Any:
    """What a client of any language sends."""
    changes = [{"table": table, "verb": verb, "rows": [*rows]}]
    return {"request": request, "since": 1, "changes": changes, **more}


def founded(tables: int = 3) -> MemoryStore:
    """A store with a catalog of a few empty tables."""
    store = MemoryStore()
    with Catalog.open(store, create=True) as catalog, catalog.transaction() as txn:
        for number in range(tables):
            txn.create_table(f"t{number}", {"id": "int64", "name": "string"}, key="id")
    return store


@contextlib.contextmanager
def serving(store: Store, **setup: Any) -> Iterator[Served]:
    service = CatalogServer(Setup(store, author="server", **setup))
    with listener("127.0.0.1", 0) as bound:
        listening = threading.Event()
        urls: list[str] = []
        server = Server(service, on_listening=lambda url: (urls.append(url), listening.set()))
        thread = threading.Thread(target=server.run, args=([bound],), name="server")
        thread.start()
        assert listening.wait(TIMEOUT_S)
        try:
            with httpx.Client(trust_env=False, timeout=TIMEOUT_S) as client:
                yield Served(urls[0], service, client, server.stop)
        finally:
            server.stop()
            thread.join(TIMEOUT_S)
            service.close()
            assert not thread.is_alive(), "the server did not end"
