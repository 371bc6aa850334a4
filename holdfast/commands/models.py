"""Machines by name: those that ship with Holdfast, and a user's own as `path/to/file.py:Machine`."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from holdfast.commands.ending import BadRequest
from holdfast.model import Machine, ModelError

SHIPPED = {
    "two-phase": ("holdfast.model.two_phase", "TwoPhase"),
    "peterson": ("holdfast.model.peterson", "Peterson"),
    "bounded-queue": ("holdfast.model.bounded_queue", "BoundedQueue"),
    "philosophers": ("holdfast.model.philosophers", "Philosophers"),
}


def find_machine(name: str) -> type[Machine]:
    """The machine that `name` stands for; `BadRequest` says how to name one."""
    if name in SHIPPED:
        module, machine = SHIPPED[name]
        found: type[Machine] = getattr(importlib.import_module(module), machine)
        return found
    path, _, wanted = name.rpartition(":") if ":" in name else (name, "", "")
    if not path.endswith(".py"):
        raise BadRequest(
            f"no model is called {name!r}; known: {', '.join(SHIPPED)}; your own: path/to/file.py:Machine"
        )
    return _pick(_load(Path(path)), path, wanted)


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise BadRequest(f"there is no file {path}; give the path of the file that holds the machine")
    spec = importlib.util.spec_from_file_location(f"_holdfast_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # as if the file were run, so that it finds its neighbours
    try:
        spec.loader.exec_module(module)
    except ModelError as wrong:
        raise BadRequest(f"{_place(wrong, path)}: {wrong}") from wrong
    except Exception as wrong:
        raise BadRequest(
            f"{_place(wrong, path)}: the file cannot be loaded: {type(wrong).__name__}: {wrong}"
        ) from wrong
    finally:
        sys.path.pop(0)
    return module


def _place(wrong: Exception, path: Path) -> str:
    """The last line of the user's own file that the error came through."""
    if isinstance(wrong, SyntaxError) and wrong.lineno:
        return f"{path}:{wrong.lineno}"
    lines = [
        entry.lineno
        for entry in traceback.extract_tb(wrong.__traceback__)
        if Path(entry.filename).name == path.name
    ]
    return f"{path}:{lines[-1]}" if lines else str(path)


def _pick(module: ModuleType, path: str, wanted: str) -> type[Machine]:
    machines = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Machine) and value.__module__ == module.__name__
    }
    known = ", ".join(machines) or "none"
    if wanted:
        if wanted not in machines:
            raise BadRequest(f"{path} holds no machine {wanted!r}; it holds: {known}")
        return machines[wanted]
    if len(machines) != 1:
        raise BadRequest(f"say which machine of {path} is meant, as {path}:NAME; it holds: {known}")
    return next(iter(machines.values()))
