"""The memory of a process as a value, read from its frames while it waits for an answer.

Theory. The place of its code, the values it holds there, and the answers to come decide the next steps of a
process. The place is a chain of frames: each with an instruction, local variables, and values on
its evaluation stack. So two processes whose chains are equal act the same from there on, however they got
there: a loop that tries again has forgotten the attempts that failed. The value of a chain has every *live*
variable (see `liveness`) and every value on the stacks, objects by their content, and the same object twice
by its number.

The value is complete or there is none (`Unreadable`), and then the search compares histories of answers.
There is none

- where code written in C runs between two frames of the chain, since it may hold anything (a `sorted` whose
  key sends requests, a call with `**`, a generator).
- for objects other than plain data, objects of the user's classes that have no more than attributes,
  functions, clients of the SDK, and the world's own. An object that a global name leads to has none either,
  since an equal one would be another object.
- if the code could keep state elsewhere, see `Surroundings`.

Left out are the numbers of operations, from which the store makes names of versions, uploads and requests.
Names to come are new ones, whatever the number; and their order is the same, since numbers grow.

The evaluation stack has no interface in Python. `_Frame` reads it at the places that CPython 3.11 gives it,
after a test that they are right. In other versions there are no values of frames.
"""

import ctypes
import dis
import enum
import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from random import Random  # noqa: TID251 - to find streams by their type
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

from fencepost.impl.store.requests import Metadata
from fencepost.sim.world import times
from fencepost.sim.world.liveness import liveness
from fencepost.sim.world.operations import Finish
from fencepost.sim.world.present import is_sdk, is_users, is_users_class
from fencepost.sim.world.process import Process, _work
from fencepost.sim.world.reachable import identity, slots
from fencepost.sim.world.store import issue
from fencepost.sim.world.variables import Variables

OBJECTS_MAX = 400
"""Objects of one value; a process that holds more has no value, which would cost more than it saves."""


KNOWN_MAX = 10_000
"""Code and classes whose surroundings are remembered: runs may make new classes."""


class Unreadable(Exception):
    """The memory of a process has no value."""


# Surroundings: what code could change beside its frames.

_STATELESS = frozenset(
    "__future__ abc base64 binascii bisect boto3 botocore builtins collections copy dataclasses datetime "  # noqa: SIM905 - one name below the other is a page
    "enum fencepost functools hashlib heapq hmac itertools json logging math numbers operator random re "
    "secrets statistics string struct textwrap time types typing uuid zlib".split()
)
"""Libraries that remember nothing which decides what a later call returns, or whose memory is the world's."""
_LOOKS = frozenset(
    "__del__ __import__ _getframe breakpoint compile currentframe eval exec exc_info format_exc globals id "  # noqa: SIM905 - as above
    "locals open print_exc setattr settrace vars".split()
)
"""Names of what looks at frames or variables by name, of finalizers, and of files."""
_CONSTANT = (re.Pattern, logging.Logger, enum.Enum)


Names = dict[str, Any]
"""The global names of code."""


class _Code(NamedTuple):
    code: CodeType
    names: Names


class Surroundings:
    """Decides if functions can keep state only in frames, arguments, and variables of the user's modules.

    Changes of variables of modules, classes, closures and caches are found and kept apart for each process
    (see `variables`), and where there are any, no frames are read. State in other libraries is not found: so
    the names in the code of a function, and of all functions that it leads to, may only lead to libraries
    that keep none.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, bool]] = {}
        """By identity of a code or class: this object, and the result."""

    def allow_code(self, code: CodeType, names: Names) -> bool:
        """Return True for code that keeps no state elsewhere, with the global names that it has."""
        return self._look_up(code, [_Code(code, names)])

    def allow_global(self, value: Any) -> bool:
        """Return True for a class, a module, or a function of a module, that keeps no state elsewhere."""
        return self._look_up(value, [value])

    def _look_up(self, owner: Any, start: list[Any]) -> bool:
        found = self._known.get(id(owner))
        if found is None:
            if len(self._known) > KNOWN_MAX:
                self._known.clear()
            found = self._known[id(owner)] = (owner, self._is_plain(start))
        return found[1]

    def _is_plain(self, open_: list[Any]) -> bool:
        """Follow the names in code from these objects on."""
        seen: set[int] = set()
        kept: list[Any] = []
        while open_:
            value = open_.pop()
            code = value.code if type(value) is _Code else value
            if id(code) in seen:
                continue
            seen.add(id(code))
            kept.append(code)
            if type(value) is _Code:
                found = _led_to(code, value.names)
            elif isinstance(value, type):
                found = _led_to_by_class(value)
            else:
                found = _led_to_by(value)
            if found is None:
                return False
            open_ += found
        return True


def _led_to(code: CodeType, names: Names) -> list[Any] | None:
    """Return all that names in this code lead to; None if it may keep state elsewhere."""
    used = set(code.co_names)
    if used & _LOOKS or not all(_root(one) in _STATELESS for one in _imports(code)):
        return None
    found: list[Any] = [_Code(one, names) for one in code.co_consts if isinstance(one, CodeType)]
    for name in used & names.keys():
        value = names[name]
        if isinstance(value, ModuleType) and is_users(value):
            found += [one for other, one in vars(value).items() if other in used]
        else:
            found.append(value)
    return found


def _led_to_by_class(kind: type) -> list[Any] | None:
    if not is_users_class(kind):
        return [] if _root(kind.__module__) in _STATELESS else None
    if "__del__" in vars(kind):
        return None
    found = [*kind.__bases__, *(() if type(kind) is type else (type(kind),))]
    for one in vars(kind).values():
        if isinstance(one, staticmethod | classmethod):
            found.append(one.__func__)
        elif isinstance(one, property):
            found += [each for each in (one.fget, one.fset, one.fdel) if each is not None]
        elif not isinstance(one, GetSetDescriptorType | MemberDescriptorType):
            found.append(one)
    return found


def _led_to_by(value: Any) -> list[Any] | None:
    """Return all that an object leads to which a name has; None if it may keep state elsewhere."""
    kind = type(value)
    if kind is FunctionType:
        if not is_users(sys.modules.get(value.__module__)):
            return [] if _root(value.__module__) in _STATELESS else None
        cells = [cell.cell_contents for cell in value.__closure__ or () if _full(cell)]
        others = (value.__defaults__, value.__kwdefaults__, value.__dict__)
        return [_Code(value.__code__, value.__globals__), *cells, *others]
    if kind is MethodType:
        return [value.__func__, value.__self__]
    if kind is BuiltinFunctionType:
        return [] if _root(getattr(value, "__module__", None) or "builtins") in _STATELESS else None
    if kind is ModuleType:
        return [] if _root(value.__name__) in _STATELESS else None
    if kind is dict:
        return [*value, *value.values()]
    if kind in (list, tuple, set, frozenset):
        return list(value)
    if kind in _PLAIN or kind is float or isinstance(value, _CONSTANT):
        return []
    if (kind.__module__, kind.__qualname__) in _OF_THE_WORLD or _is_record(kind) or _is_client(kind):
        return []
    if kind.__module__ in ("typing", "types"):
        return []
    return [kind, *slots(value).values(), *_attributes_of(value).values()] if is_users_class(kind) else None


def _root(name: str) -> str:
    return name.partition(".")[0]


def _full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises where the cell is empty
    except ValueError:
        return False
    return True


def _imports(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            yield str(step.argval)


# Frames.

_F_FRAME, _STACKTOP, _IS_ENTRY, _LOCALS = 24, 64, 68, 72
"""Places in the structures of CPython 3.11, in bytes."""
_arrays: dict[int, Any] = {}


class _Frame:
    """Local variables and the evaluation stack of a frame that waits for a call."""

    __slots__ = ("_values", "is_entered", "stack")

    def __init__(self, frame: FrameType) -> None:
        inner = ctypes.c_int64.from_address(id(frame) + _F_FRAME).value
        size = ctypes.c_int32.from_address(inner + _STACKTOP).value
        self.is_entered = ctypes.c_int8.from_address(inner + _IS_ENTRY).value != 0
        """True if code written in C called the function."""
        first = variables_of(frame.f_code)
        self.stack = range(first, size)
        """Places of the values on the stack."""
        self._values: Any = None
        if size >= first:  # else code written in C has been called, and the stack is in use
            array = _arrays.get(size)
            if array is None:
                array = _arrays[size] = ctypes.py_object * size
            self._values = array.from_address(inner + _LOCALS)

    @property
    def is_readable(self) -> bool:
        """True if the values are where they can be read."""
        return self._values is not None

    def value(self, place: int) -> Any:
        """Return the value at a place; `_NOTHING` where there is none."""
        try:
            return self._values[place]
        except ValueError:
            return _NOTHING


class _Nothing:
    """The content of a variable or cell that has none."""


_NOTHING = _Nothing()


def variables_of(code: CodeType) -> int:
    """Return the number of variables of a frame, those of closures included."""
    cells = sum(1 for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_nlocals + cells + len(code.co_freevars)


def _fits() -> bool:
    """Return True if the structures of this interpreter are as expected."""
    version = (sys.implementation.name, *sys.version_info[:2])
    if version != ("cpython", 3, 11) or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False

    def inner(frame: FrameType) -> tuple[Any, ...]:
        read = _Frame(frame)
        return (read.is_readable, read.value(0), read.value(1), [read.value(one) for one in read.stack])

    def outer(first: Any, second: Any) -> Any:
        for one in (first,):
            return [one, inner(sys._getframe())]  # noqa: SLF001 - there is no other way to a frame
        raise AssertionError(second)

    try:
        one, (is_readable, first, second, stack) = outer("first", "second")
    except ValueError:
        return False
    iterated = type(stack[0]) is type(iter(())) if stack else False
    return bool(is_readable and first == one == "first" and second == "second" and iterated)


# Values.

Tokens = list[Any]
_PLAIN = frozenset({str, bytes, int, bool, type(None), type(...), type(NotImplemented), complex})


class _Encoder:
    """Writes objects as tokens that only equal objects have."""

    def __init__(self, surroundings: Surroundings, lasting: frozenset[int]) -> None:
        self.surroundings = surroundings
        self._lasting = lasting
        self.tokens: Tokens = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def add(self, value: Any) -> None:
        kind = type(value)
        tokens = self.tokens
        if kind in _PLAIN:
            tokens += (kind, value)
            return
        if kind is float:
            tokens += (float, value.hex())
            return
        number = self._numbers.get(id(value))
        if number is not None:
            tokens += ("again", number)
            return
        self._numbers[id(value)] = len(self._numbers)
        if len(self._numbers) > OBJECTS_MAX:
            raise Unreadable
        encode = _ENCODERS.get(kind) or _encoder_of(kind, value)
        encode(self, value)

    def check(self, value: Any) -> None:
        """Refuse an object that code may also reach by a global name: an equal one is another."""
        if identity(value) in self._lasting:
            raise Unreadable(value)

    def keep(self, made: Any) -> None:
        """Keep an object that was made for the value, so that no other gets its identity."""
        self._kept.append(made)

    def add_all(self, values: Any, kind: Any) -> None:
        self.tokens += (kind, len(values))
        for one in values:
            self.add(one)


def _mapping(to: _Encoder, value: dict[Any, Any]) -> None:
    to.check(value)
    _pairs(to, value)


def _pairs(to: _Encoder, value: dict[Any, Any]) -> None:
    to.tokens += (dict, len(value))
    for key, one in value.items():
        to.add(key)
        to.add(one)


def _sequence(to: _Encoder, value: Any) -> None:
    to.check(value)
    to.add_all(value, type(value))


def _iterator(to: _Encoder, value: Any) -> None:
    """Write an iterator by what it iterates over, and its place there."""
    parts = value.__reduce__()[1:]
    to.keep(parts)
    to.tokens += (type(value), len(parts))
    for one in parts:
        to.add(one)


def _cell(to: _Encoder, value: CellType) -> None:
    to.tokens.append(CellType)
    to.add(value.cell_contents if _full(value) else _NOTHING)


def _function(to: _Encoder, value: FunctionType) -> None:
    if not to.surroundings.allow_code(value.__code__, value.__globals__):
        raise Unreadable(value)
    to.tokens += (FunctionType, value.__code__, value.__module__)
    for part in (value.__closure__, value.__defaults__, value.__kwdefaults__):
        to.add(part)
    _pairs(to, value.__dict__)


def _method(to: _Encoder, value: MethodType) -> None:
    to.tokens.append(MethodType)
    to.add(value.__func__)
    to.add(value.__self__)


def _number(to: _Encoder, value: Any) -> None:
    """Write a number that remembers the readings of clocks it came from."""
    to.tokens += (type(value), value.unit_ns, value.grain_ns, len(value.terms))
    to.add(times.plain(value))
    for source, factor in value.terms:
        if type(source.clock) not in _PLAIN:
            raise Unreadable
        to.tokens += (source.at_ns, type(source.clock), source.clock, source.skew_ns, factor)


def _attributes(to: _Encoder, value: Any) -> None:
    """Write an object of a class of the user's."""
    kind = type(value)
    to.check(value)
    if not to.surroundings.allow_global(kind):
        raise Unreadable(kind)
    to.tokens.append(kind)
    _pairs(to, _attributes_of(value))


def _attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, without a call of its methods."""
    found: dict[str, Any] = object.__getattribute__(value, "__dict__") if type(value).__dictoffset__ else {}
    return found


def _record(to: _Encoder, value: Any) -> None:
    """Write a request, a reply, or another operation."""
    to.tokens.append(type(value))
    for part in fields(value):
        to.add(getattr(value, part.name))


def _is_record(kind: type) -> bool:
    return kind.__module__ in _RECORDS and is_dataclass(kind)


_RECORDS = (
    "fencepost.impl.store.requests",
    "fencepost.sim.boto.sdk_requests",
    "fencepost.sim.world.operations",
)
"""Modules whose dataclasses do not change."""


def _itself(to: _Encoder, value: Any) -> None:
    """Write an object that is the same one in every run."""
    to.tokens += (type(value), value)


def _lasting(to: _Encoder, value: Any) -> None:
    """Write a class, a module, or a function of one."""
    if not to.surroundings.allow_global(value):
        raise Unreadable(value)
    _itself(to, value)


def _its_type(to: _Encoder, value: Any) -> None:
    """Write an object of the world, of which every run has one."""
    to.tokens.append(type(value))


_ITERATORS: tuple[Any, ...] = (iter([]), iter(()), iter(range(0)), iter(""), enumerate(()))
_ENCODERS: dict[Any, Callable[[_Encoder, Any], None]] = {
    dict: _mapping,
    list: _sequence,
    tuple: _sequence,
    frozenset: _sequence,
    CellType: _cell,
    FunctionType: _function,
    MethodType: _method,
    times._Float: _number,  # noqa: SLF001 - made by its module alone
    times._Int: _number,  # noqa: SLF001 - as above
    Metadata: _itself,
    Random: lambda to, value: to.tokens.append(value.getstate()),
    **{type(one): _iterator for one in _ITERATORS},
    range: _itself,
    _Nothing: lambda to, _: to.tokens.append("nothing"),
}


def _unknown(_: _Encoder, value: Any) -> None:
    raise Unreadable(type(value))


def _encoder_of(kind: type, value: Any) -> Callable[[_Encoder, Any], None]:
    """Return the way to write an object of this kind, by what it is."""
    if isinstance(value, BuiltinFunctionType):
        owner = value.__self__
        return _lasting if owner is None or isinstance(owner, ModuleType) else _bound
    if isinstance(value, type | ModuleType):
        return _lasting
    if isinstance(value, enum.Enum) or kind is CodeType:
        return _itself
    if (kind.__module__, kind.__qualname__) in _OF_THE_WORLD:
        return _its_type
    if _is_record(kind):
        return _record
    if _is_client(kind):
        return _itself
    classes: tuple[type, ...] = kind.__mro__[:-1]
    plain = bool(classes) and all(is_users_class(one) and "__slots__" not in vars(one) for one in classes)
    return _attributes if plain else _unknown


def _bound(to: _Encoder, value: Any) -> None:
    to.tokens += (BuiltinFunctionType, value.__name__)
    to.add(value.__self__)


_OF_THE_WORLD = frozenset(
    {
        ("fencepost.sim.world.world", "World"),
        ("fencepost.sim.world.store", "WorldStore"),
        ("fencepost.sim.world.store", "WorldEnvironment"),
        ("fencepost.sim.world.run", "RunState"),
        ("fencepost.sim.world.process", "Process"),
    }
)
"""Classes of which a process meets one object."""


def _is_client(kind: type) -> bool:
    """Return True for a class of clients: the world keeps each in all runs, and its state apart."""
    return any(one.__module__ == "botocore.client" and one.__name__ == "BaseClient" for one in kind.__mro__)


# The chain.

_PASSING = {
    "fencepost.sim.world.store": ("WorldStore.send", "WorldEnvironment."),
    "fencepost.sim.world.world": ("World.",),
    "fencepost.sim.world.replacements": ("_reader.<locals>.replacement", "_wall", "_steady"),
    "fencepost.sim.boto.serve": ("send",),
    "botocore.client": ("ClientCreator._create_api_method.<locals>._api_call",),
}
"""By module: functions of the world and the SDK between the user's code and an operation."""
_USED = ("fencepost.impl.store.", "fencepost.examples.")
"""Our own modules whose functions count like the user's."""
_REPLY = ("fencepost.sim.boto.serve", "reply")
"""Function that the SDK calls when it makes a call that is not remembered, see `sim.boto.calls`."""
_CALL = ("fencepost.sim.boto.calls", "_call")


def _name_of(frame: FrameType) -> tuple[str, str]:
    return (frame.f_globals.get("__name__", ""), frame.f_code.co_qualname)


def _call_of(frame: FrameType) -> FrameType:
    """Return the frame of the call whose first attempt waits, above that of `_REPLY`.

    The call and the reply decide the rest, as if the call were remembered.
    """
    attempt = frame.f_locals["attempt"]
    if attempt is None or attempt.count != 1:
        raise Unreadable
    above: FrameType | None = frame
    while above is not None and _name_of(above) != _CALL:
        above = above.f_back
    if above is None:
        raise Unreadable
    return above


class Reader:
    """Reads the memory of processes."""

    def __init__(self, program: Any) -> None:
        self._surroundings = Surroundings()
        self._lasting = frozenset(identity(one) for one, _ in Variables(program).copy())
        """Identities of variables of the user's modules, which outlast a run."""

    def value(self, process: Process) -> tuple[Any, ...] | None:
        """Return the memory of a process that waits, but for the state that the world has of it.

        None where frames do not show all of it.
        """
        to = _Encoder(self._surroundings, self._lasting)
        op = process.pending
        to.tokens += (process.index, process.incarnation, type(op))
        try:
            if process.restart:
                to.add((process.fn, process.args, process.kwargs))
            _add_streams(to, process.streams)
            if type(op) is Finish:
                to.tokens += (type(op.error), str(op.error))
                to.add(op.result)
            else:
                to.add(op)
                self._add_frames(to, process.worker.gr_frame)
            found = tuple(to.tokens)
            hash(found)
        except (Unreadable, TypeError):
            return None
        return found

    def _add_frames(self, to: _Encoder, frame: FrameType | None) -> None:
        if frame is None or frame.f_code is not _ISSUE:
            raise Unreadable
        entered = _Frame(frame).is_entered
        frame = frame.f_back
        while frame is not None and frame.f_code is not _WORK:
            read = _Frame(frame)
            name = _name_of(frame)
            if name == _REPLY:
                frame, entered = _call_of(frame), False
                continue
            if name == _CALL:
                found = frame.f_locals
                if found["key"] is None:
                    raise Unreadable
                to.tokens += ("call", found["key"])  # its parameters, before the SDK changes some of them
                to.add(found["self"])
                frame, entered = frame.f_back, read.is_entered
                continue
            if entered or not read.is_readable or not self._allows(frame):
                raise Unreadable(frame.f_code)
            _add_frame(to, frame, read)
            entered = read.is_entered
            frame = frame.f_back
        if frame is None:
            raise Unreadable

    def _allows(self, frame: FrameType) -> bool:
        name = frame.f_globals.get("__name__", "")
        names = _PASSING.get(name)
        if names is not None:
            return frame.f_code.co_qualname.startswith(names)
        ours = name.startswith("fencepost.") and not name.startswith(_USED)
        return not (ours or is_sdk(name)) and self._surroundings.allow_code(frame.f_code, frame.f_globals)


def _add_streams(to: _Encoder, streams: dict[Any, Any]) -> None:
    """Write what the world keeps for a process: random numbers, and its quotas of retries."""
    for key, value in streams.items():
        quota = getattr(value, "available_capacity", None)
        if quota is not None:
            if quota < value._max_capacity:  # noqa: SLF001 - the SDK shows the present one only
                to.tokens += (key, quota)
        elif type(key) is tuple:
            to.tokens += key
            to.add(value)
        else:
            to.add(key)
            to.add(value)


def _add_frame(to: _Encoder, frame: FrameType, read: _Frame) -> None:
    code = frame.f_code
    to.tokens += (code, frame.f_globals.get("__name__"), frame.f_lasti, len(read.stack))
    live = liveness(code).after(frame.f_lasti)
    for place in range(variables_of(code)):
        value = read.value(place)
        if place >= code.co_nlocals or live >> place & 1 or type(value) is CellType:
            to.tokens.append(place)
            to.add(value)
    for place in read.stack:
        to.add(read.value(place))


_ISSUE, _WORK = issue.__code__, _work.__code__
IS_SUPPORTED = _fits()
"""True if this interpreter keeps the values of frames where they are read."""
