"""Detection of threads that change memory that another thread of their process may look at.

Theory. Threads of one process share memory, so the order of two of their steps may matter whatever requests
they send. It does not if neither changed what the other can reach. The effects of a thread since its last
step are a function of its history and of the memory it found, so they are computed once for every such pair.
The objects that the other threads can reach are compared before and after: module variables of the user, and
the local variables and arguments of the others with all that these lead to. Locks, events, queues and futures
are not looked into: every use of one is noted.

A step that changed something in one run may change nothing in the next. The steps that conflict must not
depend on that. So a place of the code (the thread, and the operation it waited for) that changed something
once counts as one that does, and a search that finds such a place starts over.

Not seen: state of objects that are written in C (a generator of a library, an iterator besides those of
itertools), module variables of libraries, and objects of the SDK.
"""

import asyncio
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from fencepost.sim.world.present import STEP, classify, is_users
from fencepost.sim.world.reachable import follow, reachable

Site = tuple[str, str, str]
"""The thread, and kind and subject of the operation it waited for."""
OBJECTS_MAX = 5_000
"""Where others can reach more than this, everything counts as changed."""


class Sharing:
    """Findings of a search about the threads of its program."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self._numbers: dict[Any, int] = {}
        self.writers: frozenset[Site] = frozenset()
        """The places that change memory."""
        self.found: set[Site] = set()
        self.known: dict[int, bool] = {}
        """By history: whether memory was changed after it."""
        self._names: set[str] = set()
        """Names by which code refers to the memory that was changed."""
        self._coders: dict[str, set[str]] = {}
        """By process: the threads that were seen in a function of the user."""
        self._variables: list[Any] | None = None

    def number(self, history: Any) -> int:
        """Return the number of a history."""
        try:
            return self._numbers.setdefault(history, len(self._numbers) + 1)
        except TypeError:
            number = self._numbers[object()] = len(self._numbers) + 1
            return number

    def adopt(self) -> bool:
        """Count the places that were found from the next run on; whether there are any new ones."""
        if self.found <= self.writers:
            return False
        self.writers |= self.found
        return True

    @property
    def names(self) -> frozenset[str]:
        """Names of what threads share; none where only one thread of each process runs the user's code."""
        several = any(len(threads) > 1 for threads in self._coders.values())
        return frozenset(self._names) if several else frozenset()

    def packed(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "places": sorted(map(list, self.writers | self.found)),
            "names": sorted(self._names),
            "threads": {name: sorted(threads) for name, threads in self._coders.items()},
        }

    def add(self, data: dict[str, Any]) -> None:
        self.found.update((who, kind, subject) for who, kind, subject in data.get("places", ()))
        self._names.update(data.get("names", ()))
        for name, threads in data.get("threads", {}).items():
            self._coders.setdefault(name, set()).update(threads)

    def take(self, process: Any) -> list[tuple[Any, Any]] | None:
        """Return the objects that the other threads can reach, with contents; None if there are too many."""
        if self._variables is None:
            followed = reachable(self._program, _is_followed)
            self._variables = [one for one in followed if _content(one) is not None]
        roots: list[Any] = [*self._variables]
        machine = process.machine
        for other in (machine, *machine.threads):
            if other is not process and other.pending is not None:
                roots += [other.fn, other.args, other.kwargs]
                # A thread that has not begun yet: its target and arguments.
                roots += [] if other.thread is None else vars(other.thread).values()
                found = [*_namespaces(other.worker)]
                roots += [value for names in found for value in names.values()]
                if found:
                    self._coders.setdefault(machine.name, set()).add(other.name)
        for made, kept in (machine.sync or {}).items():
            if hasattr(made, "_ready"):  # an event loop
                roots += [task.get_coro() for task in asyncio.all_tasks(made)]
            roots.append(kept if type(kept) is deque else getattr(getattr(kept, "it", None), "queue", None))
        everything = follow(roots, _is_followed, OBJECTS_MAX)
        return None if everything is None else [(one, _content(one)) for one in everything]

    def changed(self, before: list[tuple[Any, Any]] | None) -> bool:
        """Return True if something is not as it was."""
        from fencepost.sim.world.variables import same_content

        return before is None or any(
            content is not None and not same_content(_content(one), content) for one, content in before
        )

    def learn_names(self, before: list[tuple[Any, Any]] | None, process: Any) -> None:
        """Learn the names of what is not as it was."""
        from fencepost.sim.world.variables import is_container, same_content

        changed: list[Any] = []
        """Containers: code that uses one names a variable or an attribute that holds it."""
        for one, content in before or ():
            now = None if content is None else _content(one)
            if content is None or same_content(now, content):
                continue
            if is_container(one):
                changed.append(one)
            if type(now) is dict and type(content) is dict:
                keys = {
                    key
                    for key in now.keys() | content.keys()
                    if now.get(key, self) is not content.get(key, self)
                }
                self._add_names(keys)
        machine = process.machine
        for strand in (machine, *machine.threads):
            for names in _namespaces(strand.worker):
                self._coders.setdefault(machine.name, set()).add(strand.name)
                self._add_names({name for name, value in names.items() if _is_among(value, changed)})
        for one, content in before or ():
            if type(content) is dict:
                self._add_names({name for name, value in content.items() if _is_among(value, changed)})
            if type(one) is types.FunctionType and one.__closure__:
                cells = zip(one.__code__.co_freevars, one.__closure__, strict=True)
                self._add_names({name for name, cell in cells if _is_among(cell, changed)})

    def _add_names(self, names: set[Any]) -> None:
        self._names.update(name for name in names if isinstance(name, str) and name.isidentifier())


def _is_followed(value: Any) -> bool:
    """Also objects of libraries: threads share them. Not those of the SDK and the harness."""
    from fencepost.sim.world.variables import is_followed

    return is_followed(value) or classify(str(type(value).__module__)) == STEP


def _is_among(value: Any, objects: list[Any]) -> bool:
    return any(value is one for one in objects)


def _namespaces(worker: Any) -> Iterator[dict[str, Any]]:
    """Yield the local variables, by name, of each of the user's functions that a thread is in."""
    frame = None if worker is None else worker.gr_frame
    while frame is not None:
        module = sys.modules.get(frame.f_globals.get("__name__", ""))
        if module is None or is_users(module):
            yield frame.f_locals
        frame = frame.f_back


def _content(value: Any) -> Any:
    from fencepost.sim.world.variables import content_of

    if type(value).__module__ == "itertools":
        return repr(value)
    if type(value) is types.GeneratorType:
        frame = value.gi_frame
        return (None if frame is None else frame.f_lasti,)
    if hasattr(type(value), "__length_hint__"):  # an iterator
        return (value.__length_hint__(),)
    return content_of(value)
