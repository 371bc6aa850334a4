"""Identity of a program: a saved search continues only with the same program, in every detail.

A checkpoint holds the explored part of one program. With other code, another mutant or other values in its
closure it would hold for what was never run. So it keeps a digest of the program (its code, its defaults and
what its closures hold) and one of every source file that was loaded besides those of libraries.
"""

import functools
import hashlib
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fencepost.sim.world.present import is_library_file, is_users_class


def digest_of(program: Any) -> str:
    """Return a digest of a program and of everything that it holds."""
    return _digest(_Description().of(program).encode())


def sources() -> dict[str, str]:
    """Return the files of the modules that are loaded, ours and the user's, with their digests."""
    loaded: list[object] = list(sys.modules.values())
    files = {
        str(module.__file__)
        for module in loaded
        if isinstance(module, types.ModuleType) and getattr(module, "__file__", None)
    }
    return {file: found for file in sorted(files) if _is_read(file) and (found := source_digest(file))}


def source_digest(file: str) -> str:
    """Return the digest of a source file; empty when it cannot be read."""
    try:
        return _digest(Path(file).read_bytes())
    except OSError:
        return ""


def _is_read(file: str) -> bool:
    return file.endswith(".py") and ("/fencepost/" in file or not is_library_file(file))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


class _Description:
    """Texts that differ for values that differ, as far as their parts are plain data or code."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}
        """By identity; kept, so that no number is used again."""

    def of(self, value: Any) -> str:
        if value is None or isinstance(value, _PLAIN):
            return repr(value)
        if id(value) in self._seen:
            return "again"
        self._seen[id(value)] = value
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if isinstance(value, dict):
            return f"{name}{sorted(self._all(pair) for pair in value.items())}"
        if isinstance(value, set | frozenset):
            return f"{name}{sorted(map(self.of, value))}"
        if isinstance(value, list | tuple):
            return name + self._all(value)
        if isinstance(value, type | types.ModuleType):
            return f"{getattr(value, '__module__', '')} {value.__name__}"
        return name + self._all(self._parts(value))

    def _all(self, values: Iterable[Any]) -> str:
        return f"({', '.join(map(self.of, values))})"

    def _parts(self, value: Any) -> list[Any]:
        if isinstance(value, types.FunctionType):
            kept = [value.__defaults__, value.__kwdefaults__, *map(_cell, value.__closure__ or ())]
            return [value.__module__, value.__qualname__, value.__code__, *kept]
        if isinstance(value, types.CodeType):
            return [value.co_code, value.co_names, value.co_consts]
        if isinstance(value, types.MethodType):
            return [value.__func__, value.__self__]
        if isinstance(value, functools.partial):
            return [value.func, value.args, value.keywords]
        kind = type(value)
        ours = kind.__module__.partition(".")[0] == "fencepost"
        return [vars(value)] if hasattr(value, "__dict__") and (ours or is_users_class(kind)) else []


_PLAIN = (bool, int, float, complex, str, bytes, Path)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # it is assigned later
