"""A collector that listens in a thread of the test, and its clients."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.server import Server, listener
from fencepost.impl.http.tokens import Principal, Tokens
from fencepost.impl.ingest.frames import Point, encode
from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.service.app import Collector, Plan, collecting
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.ingest.settings import Settings
from fencepost.impl.store.interface import Store
from fencepost.impl.store.memory import MemoryStore

ENV = SystemEnvironment()
BINARY = "application/octet-stream"
TIMEOUT_S = 120
"""After this time a waiting test fails: the collector hangs."""
QUICK = Settings(pause_s=0.001, attempts_max=2)
"""Gives up at once: the faults of a test are permanent."""


@dataclass
class Served:
    """A collector that is listening."""

    url: str
    collector: Collector
    store: Store
    tokens: Mapping[str, str]
    client: httpx.Client
    stop: Any = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def post(self, identity: Identity, body: bytes, token: str = "agent-a", **headers: str) -> httpx.Response:
        return self.client.post(
            f"{self.url}/v1/batches?{query(identity)}",
            content=body,
            headers={**self.auth(token), "content-type": BINARY, **headers},
        )

    def auth(self, token: str = "agent-a") -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens.get(token, token)}"}

    def listing(self) -> dict[str, str]:
        return listing(self.store)

    def raw(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)

    def head(
        self, body: bytes | int, *lines: str, identity: "Identity | None" = None, token: str = "agent-a"
    ) -> bytes:
        """The head of a POST as bytes."""
        length = body if isinstance(body, int) else len(body)
        return "".join(
            f"{line}\r\n"
            for line in [
                f"POST /v1/batches?{query(identity or batch())} HTTP/1.1",
                "host: x",
                f"authorization: Bearer {self.tokens[token]}",
                f"content-type: {BINARY}",
                *([f"content-length: {length}"] if length >= 0 else []),
                *lines,
                "",
            ]
        ).encode()


def batch(start: int = 1, end: int = 2, agent: str = "agent-a", boot: str = "boot-1") -> Identity:
    return Identity(agent, boot, start, end)


def frame(identity: Identity | None = None, value: float = 1.0) -> bytes:
    return encode(identity or batch(), [Point("cpu.load", {"host": "a"}, 1_760_000_000_000_000_000, value)])


def query(identity: Identity) -> str:
    return str(
        httpx.QueryParams(
            agent_id=identity.agent,
            boot_id=identity.boot,
            seq_start=identity.seq_start,
            seq_end=identity.seq_end,
        )
    )


def listing(store: Store) -> dict[str, str]:
    return {found.key: found.etag for page in store.pages() for found in page.objects}


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    store: Store | None = None,
    limits: Limits | None = None,
    settings: Settings = QUICK,
    spool: Path | None = None,
    landing_s: float = 0.01,
    maintenance_s: float = 0.0,
    tls: tuple[Path, Path] | None = None,
) -> Iterator[Served]:
    file = token_file(folder / "tokens.json")
    tokens = {name: file.enrol(Principal("agent", name), ENV) for name in ("agent-a", "agent-b")}
    tokens["namesake"] = file.enrol(Principal("operator", "agent-a"), ENV)
    tokens["dashboard"] = file.enrol(Principal("reader", "dashboard"), ENV)
    tokens["ops"] = file.enrol(Principal("operator", "ops"), ENV)
    store = store or MemoryStore()
    plan = Plan(
        store,
        ENV,
        Tokens(file),
        "collector-1",
        settings,
        limits or Limits(),
        spool,
        landing_s,
        maintenance_s=maintenance_s,
        search_s=maintenance_s,
    )
    with collecting(plan) as collector, listener("127.0.0.1", 0) as bound:
        listening = threading.Event()
        urls: list[str] = []
        server = Server(
            collector,
            on_listening=lambda url: (urls.append(url), listening.set()),
            certificate=str(tls[0]) if tls else None,
            key=str(tls[1]) if tls else None,
        )
        thread = threading.Thread(target=server.run, args=([bound],), name="server")
        thread.start()
        assert listening.wait(TIMEOUT_S)
        try:
            trust = ssl.create_default_context(cafile=str(tls[0])) if tls else True
            with httpx.Client(trust_env=False, timeout=TIMEOUT_S, verify=trust) as client:
                yield Served(urls[0], collector, store, tokens, client, server.stop)
        finally:
            server.stop()
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "the server did not end"


def answer_of(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one answer, and no byte more, from a bare connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += _some(connection, 1, head)
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = b""
    while len(body) < int(headers.get("content-length", 0)):
        body += _some(connection, int(headers["content-length"]) - len(body), head + body)
    return int(first.split()[1]), headers, body


def _some(connection: socket.socket, size: int, before: bytes) -> bytes:
    found = connection.recv(size)
    assert found, f"the connection ended after {before!r}"
    return found
