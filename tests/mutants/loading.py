"""The pytest plugin in the process of a mutant: one module is compiled from the changed text.

It is loaded before the plugins that import code of ours, and imports nothing of the code that may be changed.
Its finder comes before that of pytest, which also loads the modules of ours, to explain their assertions.
"""

import atexit
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

VARIABLE = "FENCEPOST_MUTANT"
"""Names the file with the module, its path and its changed text."""


class Changed(SourceFileLoader):
    """Loads a module from a text that is not that of its file."""

    def __init__(self, module: str, path: str, text: str, mark: Path) -> None:
        super().__init__(module, path)
        self._text = text
        self._mark = mark

    def get_code(self, _fullname: str) -> CodeType:
        self._mark.touch()
        return compile(self._text, self.path, "exec", dont_inherit=True)


class Finder:
    """Finds the one module that is changed."""

    def __init__(self, loader: Changed) -> None:
        self._loader = loader

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._loader.name:
            return None
        return spec_from_file_location(name, self._loader.path, loader=self._loader)


def install(order: Path) -> None:
    """Give the changed text to the import system.

    Beside the order, a file marks that the module was loaded, and another has the process's processor time.
    """
    change = json.loads(order.read_text(encoding="utf-8"))
    if change["module"] in sys.modules:
        raise ImportError(f"{change['module']} was loaded before its change")
    loader = Changed(change["module"], change["path"], change["text"], order.with_suffix(".loaded"))
    sys.meta_path.insert(0, Finder(loader))
    here = os.getpid()
    atexit.register(lambda: os.getpid() == here and _write_seconds(order))


def _write_seconds(order: Path) -> None:
    if order.parent.exists():
        order.with_suffix(".seconds").write_text(str(time.process_time()))


if VARIABLE in os.environ:
    install(Path(os.environ[VARIABLE]))
