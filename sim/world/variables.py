"""Variables of the user's modules, of which each process of a world has its own.

All processes of a world share one interpreter, and a run begins where the last one ended. In production each
process has its own variables and begins with those that its modules had when they were loaded. So variables
that a run changed are kept apart from then on (`OwnVariables`): the set-up of every run finds them as they
were before the first run, and every life of every process as the set-up left them. While a process runs, the
variables hold its values; its threads share them. In between they hold those of the set-up, which is what
checks read.

Kept apart are global names and attributes of classes that are bound again, containers (also of the user's
classes, with all that the set-up put into them), arrays and generators of random numbers. So are cells of
closures, default arguments, attributes of functions and of objects of the user's classes, caches of
`functools`, and `itertools.count` in a global name. Clients of an SDK are shared, which only saves time.

Other iterators that a module keeps cannot be kept apart; `lasting` names them. Variables
that only the set-up or a check changes stay as they are: they collect something over many runs.

A run in which processes are watched compares all variables before and after every step. These are the runs
before a search, some of its runs, and all of them once a variable has changed unnoticed.
"""

import array
import ast
import copy
import functools
import itertools
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

from fencepost.sim.world import caches
from fencepost.sim.world.operations import Finish, own
from fencepost.sim.world.places import ABSENT, set_binding
from fencepost.sim.world.present import is_sdk, is_users_class
from fencepost.sim.world.process import Process
from fencepost.sim.world.reachable import identity, is_class, reachable, slots


class Variables:
    """Variables that the program can change in the user's modules, classes, functions and objects."""

    def __init__(self, program: Any) -> None:
        self._objects = [one for one in reachable(program, is_followed) if content_of(one) is not None]

    def copy(self) -> list[tuple[Any, Any]]:
        """Return the variables as they are: each container with its content."""
        return [(one, content_of(one)) for one in self._objects]

    def put_back(self, copies: Sequence[tuple[Any, Any]]) -> None:
        for one, content in copies:
            if not same_content(content_of(one), content):
                _restore(one, content)


# By the methods of the container itself: those of a subclass may do something else.
_CONTAINERS: dict[Any, Callable[[Any], Any]] = {
    dict: lambda mapping: dict(dict.items(mapping)),
    OrderedDict: lambda mapping: dict(OrderedDict.items(mapping)),
    list: lambda sequence: list(list.__iter__(sequence)),
    set: lambda elements: set(set.__iter__(elements)),
    deque: lambda sequence: list(deque.__iter__(sequence)),
    bytearray: bytes,
    array.array: list,
    types.CellType: lambda cell: _cell(cell),
    random.Random: lambda drawing: drawing.getstate(),
}


def _cell(cell: Any) -> Any:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _container(value: Any) -> Any:
    """Return the container that an object is, by itself or by its class."""
    return next((kind for kind in type(value).__mro__ if kind in _CONTAINERS), None)


def is_container(value: Any) -> bool:
    """Return True if an object is a container, by itself or by its class."""
    return _container(value) is not None


def content_of(value: Any) -> Any:
    """Return the content of a container; None for any other object."""
    kind = _container(value)
    if kind is not None:
        return _CONTAINERS[kind](value)
    if is_class(value):
        return {name: one for name, one in vars(value).items() if not name.startswith("__")}
    return slots(value) or None


def is_followed(value: Any) -> bool:
    """Return True if the walk for variables enters it: objects of libraries are their own business."""
    kind = type(value)
    return bool(_container(value) or kind.__module__ in ("builtins", "functools") or is_users_class(kind))


def same_content(one: Any, other: Any) -> bool:
    """By identity: two containers with equal content may part later."""
    if type(one) in (list, dict) and len(one) == len(other):
        pairs = zip(one.items(), other.items(), strict=True) if type(one) is dict else ()
        if type(one) is dict:
            return all(a == b and x is y for (a, x), (b, y) in pairs)
        return all(x is y for x, y in zip(one, other, strict=True))
    return bool(one == other)


def _restore(target: Any, content: Any) -> None:
    kind = _container(target)
    if kind is random.Random:
        target.setstate(content)
    elif kind in (set, OrderedDict):
        kind.clear(target)
        kind.update(target, content)
    elif kind in (list, deque, bytearray):
        kind.clear(target)
        kind.extend(target, content)
    elif kind is array.array:
        target[:] = array.array(target.typecode, content)
    elif kind is types.CellType:
        if content:
            target.cell_contents = content[0]
    else:
        now = content_of(target)
        for name in now.keys() - content.keys():
            dict.pop(target, name) if kind is dict else delattr(target, name)
        for name, value in content.items():
            if name not in now or now[name] is not value:
                dict.__setitem__(target, name, value) if kind is dict else set_binding(target, name, value)


def _name_of_cache(made: caches.OwnCache) -> str:
    return f"{made.__module__} {getattr(made, '__qualname__', '')}"


# Kept apart.


class _Kept(Protocol):
    """A variable of which each process has its own."""

    def take(self) -> Any:
        """Return the content."""

    def put(self, content: Any) -> None:
        """Set the content."""


class _Whole:
    """A container, or an object with all its attributes."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def take(self) -> Any:
        return content_of(self.target)

    def put(self, content: Any) -> None:
        if not same_content(content_of(self.target), content):
            _restore(self.target, content)


class _Names:
    """Some names of a module or class."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.names: set[str] = set()

    def take(self) -> dict[str, Any]:
        names = self.target if type(self.target) is dict else vars(self.target)
        return {name: names.get(name, ABSENT) for name in self.names}

    def put(self, content: dict[str, Any]) -> None:
        names = self.target if type(self.target) is dict else vars(self.target)
        for name, value in content.items():
            if names.get(name, ABSENT) is value:
                continue
            if type(self.target) is dict and value is ABSENT:
                del names[name]
            else:
                set_binding(self.target, name, value)


class OwnVariables:
    """The variables of one program that are kept apart, as the runs so far showed."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self._at_import: list[tuple[Any, Any]] = []
        """Every variable with its content before the first run."""
        self._known: frozenset[int] = frozenset()
        """Identities of these variables."""
        self._iterators: list[tuple[Any, str, Any, str]] = []
        """Iterators with names: the module or class, the name, the iterator, and its progress as text."""
        self._kept: dict[int, _Kept] = {}
        """By identity of the object."""
        self._first: dict[int, Any] = {}
        """Contents of those before the first run."""
        self._caches: set[caches.OwnCache] = set()
        self._fresh: list[Any] | None = None
        """Contents that the set-up of the present run left."""
        self._current: Any = None
        """Process whose values the variables hold; None: those of the set-up."""
        self._own_type: type[Process] = type("OwnProcess", (_OwnProcess,), {"variables": self})
        self._watched_type: type[Process] = type("WatchedProcess", (_WatchedProcess,), {"variables": self})
        self._runs = 0
        """Number of runs so far."""
        self._watches_all = False
        """True if processes of every run are watched."""
        self._new: set[int] = set()
        """Identities of the containers and objects that are to be kept apart."""
        self._new_names: dict[int, set[str]] = {}
        """By identity of the module or class: the names that are to be kept apart."""
        self._new_caches: set[caches.OwnCache] = set()
        self._others: set[int] = set()
        """Identities of variables that the set-up or a check changes."""
        self._last: list[Any] = []
        """Contents of the variables after the last step that was watched."""

    @property
    def active(self) -> bool:
        """True if some variable is kept apart."""
        return bool(self._kept or self._caches)

    def has_cache(self, made: caches.OwnCache) -> bool:
        """Return True if each life of a process has its own of this cache."""
        return made in self._caches

    # Learning.

    def watch(self) -> None:
        """Remember the variables as they are, before the first run."""
        if self._at_import:
            return
        self._at_import = Variables(self._program).copy()
        self._known = frozenset(identity(one) for one, _ in self._at_import)
        self._iterators = list(_iterators_of(one for one, _ in self._at_import))

    def type_of_processes(self, *, watched: bool) -> type[Process]:
        """Return the class of the processes of the next run. Some runs are watched in any case."""
        self._runs += 1
        if self._at_import and (watched or self._watches_all or self._is_sampled()):
            self._last = self._contents()
            return self._watched_type
        return self._own_type if self.active else Process

    @property
    def has_learnt(self) -> bool:
        """True if a run showed variables that are not kept apart yet."""
        return bool(self._new or self._new_names or self._new_caches)

    def _is_sampled(self) -> bool:
        """Return True if this run is watched: the first, the second, the fourth, and so on."""
        return self._runs & (self._runs - 1) == 0

    def learns(self) -> bool:
        """Keep the variables apart that runs showed; return True if there are any."""
        if not self.has_learnt:
            return False
        for one, content in self._at_import:
            key = identity(one)
            if key in self._new:
                self._kept[key], self._first[key] = _Whole(one), content
            elif key in self._new_names:
                kept = self._kept.get(key)
                known = self._kept[key] = kept if isinstance(kept, _Names) else _Names(one)
                known.names |= self._new_names[key]
                self._first[key] = {name: content.get(name, ABSENT) for name in known.names}
        self._caches |= self._new_caches
        self._new, self._new_names, self._new_caches = set(), {}, set()
        return True

    def packed(self) -> list[Any]:
        """Return what is, or is to be, kept apart as plain data that fits another interpreter.

        With it goes the flag that all runs are watched.
        """
        rows = []
        for place, (one, _) in enumerate(self._at_import):
            key = identity(one)
            kept = self._kept.get(key)
            names = (kept.names if isinstance(kept, _Names) else set()) | self._new_names.get(key, set())
            if names or kept is not None or key in self._new:
                rows.append([place, sorted(names)])
        made = {_name_of_cache(each) for each in self._caches | self._new_caches}
        return [len(self._at_import), rows, sorted(made), self._watches_all]

    def add(self, data: list[Any]) -> None:
        """Keep the variables apart that another interpreter found. Both must have loaded the same code."""
        count, rows, made, watches_all = data
        self._watches_all |= watches_all
        if count != len(self._at_import):
            return  # of other code: what this interpreter finds by itself counts
        for place, names in rows:
            one = self._at_import[place][0]
            if names:
                self._notice_names(one, set(names))
            elif identity(one) not in self._kept:
                self._new.add(identity(one))
        self._new_caches |= {each for each in caches.reached() if _name_of_cache(each) in made} - self._caches
        self.learns()

    def suspects(self) -> bool:
        """Return True if a variable has changed, perhaps by a process that was not watched.

        From then on all are watched.
        """
        if self._watches_all:
            return False
        self._watches_all = any(
            identity(one) not in self._kept
            and identity(one) not in self._others
            and not same_content(now, content)
            and not _only_clients_came(content, now)
            for (one, content), now in zip(self._at_import, self._contents(), strict=True)
        )
        return self._watches_all

    def restore(self) -> None:
        """Give every variable its content from before the first run."""
        for one, content in self._at_import:
            _Whole(one).put(content)
        for made in self._caches:
            made.real.cache_clear()

    def _contents(self) -> list[Any]:
        return [content_of(one) for one, _ in self._at_import]

    def look(self, act: Callable[[], Any]) -> Any:
        """Call `act`, which runs a process, and notice the variables that it changes."""
        before = self._contents()
        counted = [_progress(value) for _, _, value, _ in self._iterators]
        sizes = {made: made.size() for made in caches.reached()}
        for (one, _), content, last in zip(self._at_import, before, self._last, strict=True):
            if not same_content(content, last):
                self._others.add(identity(one))
        try:
            return act()
        finally:
            self._last = self._contents()
            for (one, _), content, now in zip(self._at_import, before, self._last, strict=True):
                if not same_content(now, content):
                    self._notice(one, content, now)
            for (target, name, value, _), text in zip(self._iterators, counted, strict=True):
                if type(value) is itertools.count and repr(value) != text:
                    self._notice_names(target, {name})
            for made, size in sizes.items():
                if made.size() > size and made not in self._caches and made.has_results(_is_client):
                    self._new_caches.add(made)

    def _notice(self, one: Any, before: Any, now: Any) -> None:
        if _is_namespace(one):
            names = before.keys() | now.keys()
            changed = {name for name in names if before.get(name, ABSENT) is not now.get(name, ABSENT)}
            self._notice_names(one, {name for name in changed if not _is_client(now.get(name))})
        elif identity(one) not in self._kept and not _only_clients_came(before, now):
            self._new.add(identity(one))

    def _notice_names(self, one: Any, names: set[str]) -> None:
        kept = self._kept.get(identity(one))
        new = names - kept.names if isinstance(kept, _Names) else names
        if new:
            self._new_names.setdefault(identity(one), set()).update(new)

    def lasting(self) -> list[str]:
        """Return the iterators that runs may have changed and that cannot be kept apart."""
        return [
            f"{place_of(target, name)} ({type(value).__qualname__})"
            for target, name, value, text in self._iterators
            if text == UNKNOWN or _progress(value) != text
        ]

    def read_by(self, check: Any) -> str:
        """Return the place of a variable that is kept apart and that a function reads; empty if none is."""
        named: dict[int, set[str] | None] = {
            key: kept.names if isinstance(kept, _Names) else None for key, kept in self._kept.items()
        }
        return _read(check, named, set())

    # Runs.

    def begin(self) -> None:
        """Begin or end a run: the variables are as they were before the first one."""
        self._fresh = self._current = None
        for key, kept in self._kept.items():
            kept.put(_renewed(self._first[key], self._known, {}, self._texts()))
        for made in self._caches:
            made.real.cache_clear()

    def _texts(self) -> dict[int, str]:
        return {identity(value): text for _, _, value, text in self._iterators}

    def renew(self, machine: Any) -> None:
        """Begin a life of a process: its variables are as the set-up left them."""
        assert self._fresh is not None, "a process begins within its own variables"
        machine.caches = {}
        copies: dict[int, Any] = {}
        for kept, content in zip(self._kept.values(), self._fresh, strict=True):
            kept.put(_renewed(content, self._known, copies, {}))

    end = begin

    def within(self, machine: Any, act: Callable[[], Any]) -> Any:
        """Call `act` while the variables hold the values of a process."""
        if self._current is machine:
            return act()
        before, self._current = self._current, machine
        outside = [kept.take() for kept in self._kept.values()]
        if self._fresh is None:
            self._fresh = outside
        self._put(self._fresh if machine.kept is None else machine.kept)
        try:
            return act()
        finally:
            machine.kept = [kept.take() for kept in self._kept.values()]
            self._put(outside)
            self._current = before

    def _put(self, contents: Sequence[Any]) -> None:
        for kept, content in zip(self._kept.values(), contents, strict=True):
            kept.put(content)


class _OwnProcess(Process):
    """A process with variables of its own, which its threads share."""

    variables: ClassVar[OwnVariables]
    kept: Any = None
    """Contents of its variables while it does not run; None before its first step."""
    caches: Any = None
    """By cached function: the cache of this life."""

    def within(self, act: Callable[[], Any]) -> Any:
        return self.variables.within(self.machine, act)

    def start(self) -> Any:
        return self._own_result(self.within(super().start))

    def resume(self, answer: Any, last: int) -> Any:
        return self._own_result(self.within(lambda: super(_OwnProcess, self).resume(answer, last)))

    def crash(self) -> bool:
        return bool(self.within(super().crash))

    def kill(self) -> bool:
        return bool(self.within(super().kill))

    def _start(self) -> Any:
        if self.machine is self:
            self.variables.renew(self)
        return super()._start()

    def _own_result(self, op: Any) -> Any:
        """Copy a result, which may be one of the variables."""
        if type(op) is Finish:
            op.result = own(op.result)
        return op


class _WatchedProcess(_OwnProcess):
    """A process of which the changes to variables are noticed."""

    def start(self) -> Any:
        return self.variables.look(super().start)

    def resume(self, answer: Any, last: int) -> Any:
        return self.variables.look(lambda: super(_WatchedProcess, self).resume(answer, last))

    def crash(self) -> bool:
        return bool(self.variables.look(super().crash))


_PAIRS = frozenset({dict, OrderedDict, Counter, defaultdict})
_COPIED = _PAIRS | {list, set, deque}


def _renewed(content: Any, known: frozenset[int], copies: dict[int, Any], texts: dict[int, str]) -> Any:
    """Return a content with copies of the containers and counters that are no variables of a module."""
    if type(content) is dict:
        return {name: _renewed_value(one, known, copies, texts) for name, one in content.items()}
    if type(content) is list:
        return [_renewed_value(one, known, copies, texts) for one in content]
    return content


def _renewed_value(value: Any, known: frozenset[int], copies: dict[int, Any], texts: dict[int, str]) -> Any:
    kind = type(value)
    if kind is itertools.count:
        return count_of(texts.get(identity(value), repr(value)))
    if kind not in _COPIED or identity(value) in known:
        return value
    if identity(value) not in copies:
        made = copies[identity(value)] = copy.copy(value)
        if kind in _PAIRS:
            for key, one in value.items():
                dict.__setitem__(made, key, _renewed_value(one, known, copies, texts))
        elif kind is not set:
            for at, one in enumerate(value):
                made[at] = _renewed_value(one, known, copies, texts)
    return copies[identity(value)]


def count_of(text: str) -> Any:
    """Return a new counter from the text of one, such as `count(3)`."""
    arguments = ast.literal_eval("[" + text.removeprefix("count(").removesuffix(")") + "]")
    return itertools.count(*arguments)


def _is_namespace(value: Any) -> bool:
    return is_class(value) or (type(value) is dict and "__name__" in value)


def _is_client(value: Any) -> bool:
    return is_sdk(str(type(value).__module__))


def _only_clients_came(before: Any, now: Any) -> bool:
    """Return True if a container only got clients of an SDK."""
    if type(now) is dict and type(before) is dict:
        came = [one for name, one in now.items() if before.get(name, ABSENT) is not one]
        return before.keys() <= now.keys() and bool(came) and all(map(_is_client, came))
    if type(now) is list and type(before) is list:
        come = now[len(before) :] if now[: len(before)] == before else []
        return bool(come) and all(map(_is_client, come))
    return False


def _iterators_of(targets: Iterable[Any]) -> Iterator[tuple[Any, str, Any, str]]:
    for target in targets:
        if _is_namespace(target):
            for name, value in list((target if type(target) is dict else vars(target)).items()):
                text = _progress(value)
                if text:
                    yield target, name, value, text


UNKNOWN = "unknown"


def _progress(value: Any) -> str:
    """Return the progress of an iterator of the interpreter, as text; empty for any other object."""
    if type(value) is itertools.count:
        return repr(value)
    if type(value) is types.GeneratorType or type(value).__module__ == "itertools":
        return UNKNOWN
    if type(value).__module__ == "builtins" and hasattr(type(value), "__length_hint__"):
        return f"{value.__length_hint__()} left"
    return ""


def place_of(target: Any, name: str) -> str:
    """Return the name of a variable, with its module, file and line."""
    if is_class(target):
        module, full = sys.modules.get(target.__module__), f"{target.__module__}.{target.__qualname__}.{name}"
        names = vars(module) if module is not None else {}
    else:
        names, full = target, f"{target.get('__name__')}.{name}"
    file = names.get("__file__")
    line = _line_of(file, name) if file else 0
    return full.removeprefix("_fencepost_user_") + (f" ({file}:{line})" if line else "")


@functools.lru_cache(256)
def _line_of(file: str, name: str) -> int:
    """Return the first line that binds a name outside of functions; 0 if there is none."""
    try:
        tree = ast.parse(Path(file).read_text())
    except (OSError, SyntaxError, ValueError):
        return 0
    blocks: list[ast.stmt] = list(tree.body)
    lines = []
    while blocks:
        block = blocks.pop()
        if isinstance(block, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        blocks.extend(one for one in ast.iter_child_nodes(block) if isinstance(one, ast.stmt))
        targets = block.targets if isinstance(block, ast.Assign) else [getattr(block, "target", None)]
        bound = [one for target in targets if target is not None for one in ast.walk(target)]
        if any(isinstance(one, ast.Name) and one.id == name for one in bound):
            lines.append(block.lineno)
    return min(lines, default=0)


def _read(function: Any, named: dict[int, set[str] | None], seen: set[int]) -> str:
    """Return the place of one of the named variables that a function reads, itself or by what it calls."""
    while type(function) in (types.MethodType, functools.partial):
        function = function.__func__ if type(function) is types.MethodType else function.func
    if type(function) is not types.FunctionType or identity(function) in seen:
        return ""
    seen.add(identity(function))
    names = function.__globals__
    used = _names_in(function.__code__)
    bound = named.get(identity(names)) or set()
    for name in used:
        if name in bound or identity(names.get(name)) in named:
            value = names.get(name)
            if name in bound or not is_class(value) or (named[identity(value)] or set()) & set(used):
                return place_of(names, name)
    inner = [names[name] for name in used if name in names]
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        content = _cell(cell)
        if identity(cell) in named or any(identity(one) in named for one in content):
            return f"{function.__qualname__}: {name}"
        inner += content
    for value in (*(function.__defaults__ or ()), vars(function)):
        if identity(value) in named:
            return f"{function.__qualname__}: a default argument or an attribute"
    return next((found for one in inner if (found := _read(one, named, seen))), "")


def _names_in(code: types.CodeType) -> tuple[str, ...]:
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names_in(part)]
    return tuple(dict.fromkeys((*code.co_names, *inner)))
