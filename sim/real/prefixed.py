"""A part of a store as a store of its own: every key below one prefix, and nothing above it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Misuse
from fencepost.impl.store.interface import Layer, Store, settle
from fencepost.impl.store.requests import R, Request
from fencepost.impl.store.validity import check
from fencepost.sim.probe.scratch import ScratchPrefix


class Prefixed(Layer):
    """Puts `prefix` before every key that goes in, and takes it off every key that comes out.

    `scratch` records every key that is written, so that it can be removed."""

    def __init__(self, inner: Store, prefix: str, scratch: ScratchPrefix) -> None:
        super().__init__(inner)
        self._prefix = prefix
        self._scratch = scratch

    def send(self, request: Request[R]) -> R:
        there = self._there(request)
        self._scratch.before(there)
        reply = self.inner.send(there)
        self._scratch.after(there, reply)
        here: R = self._here(reply)
        return here

    def send_all(self, requests: Sequence[Request[Any]]) -> Sequence[Any]:
        try:
            there = [self._there(request) for request in requests]
        except Misuse:
            return settle(self.send, requests)  # the others are sent all the same
        for each in there:
            self._scratch.before(each)
        replies = self.inner.send_all(there)
        for each, reply in zip(there, replies, strict=True):
            self._scratch.after(each, reply)
        return [self._here(reply) for reply in replies]

    def _there(self, request: Any) -> Any:
        check(request)  # before the prefix makes a key of what is none
        if isinstance(request, ask.Keyed):
            return replace(request, key=self._prefix + request.key)
        changed = {"prefix": self._prefix + request.prefix}
        if getattr(request, "after", ""):
            changed["after"] = self._prefix + request.after
        return replace(request, **changed)

    def _here(self, reply: Any) -> Any:
        if getattr(reply, "info", None) is not None:
            return replace(reply, info=self._bare(reply.info))
        changed: dict[str, Any] = {
            name: tuple(self._bare(each) for each in getattr(reply, name))
            for name in ("objects", "versions", "uploads")
            if getattr(reply, name, ())
        }
        if getattr(reply, "prefixes", ()):
            changed["prefixes"] = tuple(group.removeprefix(self._prefix) for group in reply.prefixes)
        return replace(reply, **changed) if changed else reply

    def _bare(self, answer: Any) -> Any:
        return replace(answer, key=answer.key.removeprefix(self._prefix))
