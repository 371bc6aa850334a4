"""Objects of a user's own file, named as `path/to/file.py:NAME`: machines to check, programs to audit."""

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from fencepost.commands.exit_codes import BadRequest


def is_file_name(name: str) -> bool:
    """Return True if `name` is a name in a file, not one that ships with Fencepost."""
    return split(name)[0].endswith(".py")


def split(name: str) -> tuple[str, str]:
    """The path and the name in it, which is empty when only a file is named."""
    if ":" not in name:
        return name, ""
    path, _, wanted = name.rpartition(":")
    return path, wanted


def find(
    name: str,
    kind: str,
    belongs: Callable[[Any], bool],
    *,
    is_what: str,
    refusal: Callable[[Any], str] = lambda _: "",
    own_errors: tuple[type[Exception], ...] = (),
) -> Any:
    """The object of this name, or else the only one of the file for which `belongs` is true.

    The error message explains what a `kind` is, and `refusal` gives the reason why a named object is none.
    Errors of the types in `own_errors` are complete messages; of others the message has the type too.
    """
    path, wanted = split(name)
    module = load(Path(path), kind, own_errors)
    found = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__ and belongs(value)
    }
    known = ", ".join(found) or f"none (a {kind} is {is_what})"
    if wanted:
        if wanted not in found:
            why = refusal(vars(module)[wanted]) if wanted in vars(module) else ""
            raise BadRequest(f"{path} holds no {kind} {wanted!r}{why and f': {why}'}; it holds: {known}")
        return found[wanted]
    if len(found) != 1:
        raise BadRequest(f"choose a {kind} of {path}, as {path}:NAME; it holds: {known}")
    return next(iter(found.values()))


def load(path: Path, kind: str, own_errors: tuple[type[Exception], ...] = ()) -> ModuleType:
    """Run the file as a module of its own."""
    if not path.is_file():
        raise BadRequest(f"there is no file {path}; give the path of the file that holds the {kind}")
    spec = importlib.util.spec_from_file_location(f"_fencepost_user_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        with neighbours(path):
            spec.loader.exec_module(module)
    except own_errors as error:
        raise BadRequest(f"{place(error, path)}: {error}") from error
    except ModuleNotFoundError as error:
        raise BadRequest(
            f"{place(error, path)}: the file cannot be loaded: there is no module {error.name!r} beside it, "
            "in the folder you are in, or among what is installed; go to where it is, or install it"
        ) from error
    except SystemExit as error:  # as our exit code it would be the verdict on a file that was never checked
        raise BadRequest(
            f"{place(error, path)}: the file ends the program when it is loaded; what a script does belongs "
            'below `if __name__ == "__main__":`'
        ) from error
    except Exception as error:
        raise BadRequest(
            f"{place(error, path)}: the file cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return module


@contextlib.contextmanager
def neighbours(path: Path) -> Iterator[None]:
    """As if the file were run: it finds what lies beside it, and, as with `python -m`, in the folder that the
    user is in, after all that is installed: a folder called `queue` must not hide Python's own."""
    folder, here = str(path.parent.resolve()), str(Path.cwd())
    sys.path.insert(0, folder)
    sys.path.append(here)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
        with contextlib.suppress(ValueError):
            del sys.path[len(sys.path) - 1 - sys.path[::-1].index(here)]


def place(error: BaseException, path: Path) -> str:
    """The last line of the user's own file that the error came through."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{path}:{error.lineno}"
    lines = [
        entry.lineno
        for entry in traceback.extract_tb(error.__traceback__)
        if Path(entry.filename).name == path.name
    ]
    return f"{path}:{lines[-1]}" if lines else str(path)
