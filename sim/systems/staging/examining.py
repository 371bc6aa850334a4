"""What a bucket holds at the end, examined on a copy, and once: it is equal far more often than runs are."""

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import ABSENT
from fencepost.impl.store.memory import MemoryStore

KEPT_MAX = 20_000
"""Findings in memory; then one begins anew."""

S = TypeVar("S", bound=Hashable)
F = TypeVar("F")
Examination = Callable[[Mapping[str, bytes], S], F]


def once(examination: Examination[S, F]) -> Examination[S, F]:
    """The same examination, made once for the same contents and the same table of safeguards."""
    known: dict[tuple[S, frozenset[tuple[str, bytes]]], F] = {}

    @functools.wraps(examination)
    def examine(contents: Mapping[str, bytes], safeguards: S) -> F:
        key = (safeguards, frozenset(contents.items()))
        if key not in known:
            if len(known) > KEPT_MAX:
                known.clear()
            known[key] = examination(contents, safeguards)
        return known[key]

    return examine


def copy_of(contents: Mapping[str, bytes], start_ns: int = 0) -> MemoryStore:
    """A store outside the world with these objects."""
    store = MemoryStore(env=SeededEnvironment(2, start_ns))
    for key, body in contents.items():
        store.put(key, body, when=ABSENT)
    return store
