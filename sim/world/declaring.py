"""Declarations of a program before anything runs: its processes and its properties.

The world under control and the real one share them, and differ in their use.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from typing import Any

from fencepost.impl.store.errors import Misuse
from fencepost.sim.world.properties import Always, Check, Eventually, Finally, Property, Sometimes
from fencepost.sim.world.view import Ending

DEFERRED = CO_COROUTINE | CO_GENERATOR | CO_ASYNC_GENERATOR
RESERVED = ("setup", "clock", "power")


class Declaring:
    """A world that is being set up."""

    repeats = True
    """True if its runs are repeated and merged."""

    @property
    @abstractmethod
    def setting_up(self) -> bool:
        """True until the program that sets the world up has returned."""

    @property
    @abstractmethod
    def processes(self) -> Sequence[Ending]:
        """The processes spawned so far."""

    @property
    @abstractmethod
    def properties(self) -> Sequence[Property]:
        """The properties declared so far."""

    @property
    def muted(self) -> frozenset[str]:
        """Properties that are not judged."""
        return frozenset()

    @property
    def promises_only(self) -> bool:
        """True if the program's own properties are left out, and only promises are judged."""
        return False

    @abstractmethod
    def _declare(self, promise: Property) -> None:
        """Take up a property."""

    def promise(self, text: str) -> None:
        """Judge a ready property, as `--promise` does: `queue=jobs/`. See docs/guides/promises.md."""
        raise Misuse("promises are judged by audits under control, and not in a run on a real store")

    def always(self, name: str, check: Check, *, when: Check | None = None) -> None:
        """`check` must hold after every step in which `when` is true; if it never is, that is a finding."""
        self._promise(Always, name, check, when)

    def eventually(self, name: str, check: Check) -> None:
        """`check` must hold at some time in every run."""
        self._promise(Eventually, name, check)

    def sometimes(self, name: str, check: Check) -> None:
        """`check` should hold at some time in some run; when it never does, that is a finding."""
        self._promise(Sometimes, name, check)

    def finally_(self, name: str, check: Check, *, when: Check | None = None) -> None:
        """`check` must hold at the end of every run in which `when` is true, when every process has ended."""
        self._promise(Finally, name, check, when)

    def _promise(self, kind: type[Property], name: str, check: Check, when: Check | None = None) -> None:
        self._only_at_first("properties are declared")
        if name in [promise.name for promise in self.properties]:
            raise Misuse(f"two properties cannot both be called {name!r}")
        if name not in self.muted and not self.promises_only:
            self._declare(kind(name, check, when=when, repeats=self.repeats))

    def _only_at_first(self, what: str) -> None:
        if not self.setting_up:
            raise Misuse(f"{what} by the program, before any process runs")

    def _name_for(self, fn: Callable[..., Any], name: str) -> str:
        """Return the name of a process that is to run `fn`; `name`: the one that the program gives."""
        self._only_at_first("processes are spawned")
        code = getattr(fn, "__code__", None)
        if code is not None and code.co_flags & DEFERRED:
            # Calling it would only make an object, and its body would pass without being run.
            raise Misuse(
                f"{fn.__qualname__} is async or a generator; a process is an ordinary function that blocks"
            )
        taken = {*RESERVED, *(process.name for process in self.processes)}
        if name in taken:
            raise Misuse(f"two processes cannot both be called {name!r}; give one another name=")
        return name or _fresh(getattr(fn, "__name__", "process"), taken)


def _fresh(base: str, taken: set[str]) -> str:
    number = 1
    while f"{base}-{number}" in taken:
        number += 1
    return f"{base}-{number}"
