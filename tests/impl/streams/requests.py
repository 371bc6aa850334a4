"""Requests to a server, without a connection."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from fencepost.impl.http.service import Service


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def scope_of(method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
    path, _, query = target.partition("?")
    raw = [(name.lower().encode(), text.encode("latin-1")) for name, text in headers.items()]
    return {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": [(b"host", b"here"), *raw], "client": ("127.0.0.1", 1),
        "scheme": "http", "server": ("127.0.0.1", 80), "http_version": "1.1",
    }  # fmt: skip


async def asked(server: Service, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
    """`headers` have underscores for dashes."""
    given = {name.replace("_", "-"): text for name, text in headers.items()}
    if body:
        given["content-length"] = str(len(body))
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    found: list[Any] = []

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        found.append(message)

    await server(scope_of(method, target, given), receive, send)
    shown = {name.decode(): text.decode("latin-1") for name, text in found[0]["headers"]}
    return Answer(found[0]["status"], shown, b"".join(bytes(one.get("body", b"")) for one in found[1:]))


def ask(server: Service, method: str, target: str, body: bytes = b"", **headers: str) -> Answer:
    return asyncio.run(asked(server, method, target, body, **headers))
