"""A node on a store, a stream, and what it holds, for all tests of the library."""

from dataclasses import replace
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.store import Store
from fencepost.impl.streams import Configuration, Node, Settings

NAME = "/a"
TEXT = Configuration("text/plain")
SETTINGS = Settings(landing_bound_s=0.0, skew_bound_s=1.0, backoff_s=0.0)


def node_of(store: Store, env: Environment, state: Any = None, **settings: Any) -> Node:
    return Node(store, env, replace(SETTINGS, **settings), *([] if state is None else [state]))


def append(node: Node, body: bytes, **how: Any) -> Any:
    return node.append(NAME, body, content_type=TEXT.content_type, **how)


def everything(node: Node, offset: str = "-1") -> bytes:
    found = b""
    while True:
        chunk = node.read_from(NAME, offset)
        found, offset = found + chunk.body, chunk.manifest.offset(chunk.end)
        if chunk.up_to_date:
            return found
