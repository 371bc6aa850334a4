"""The user's code on executors: the files that a program was loaded from, taken along as data.

The driver collects the Python files of the folder of the program and of every module of the user that is
loaded, and what `--py-files` names. An executor that has the same files under the same names, as on one
machine or a shared folder, uses them. Any other puts them into a temporary folder and compiles them under the
names that they have on the driver, so that lines of code have one name everywhere.

Fencepost itself and the packages that the program imports must be installed there.
"""

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from io import BytesIO
from pathlib import Path
from types import CodeType, ModuleType

import fencepost
from fencepost.sim.world.present import is_users

FILES_MAX, BYTES_MAX = 5_000, 64 << 20
"""Files of a program that are taken along: more is no program, but a folder with everything."""
_LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build", "dist"})


class CodeAway(Exception):
    """The code cannot be taken along, or does not fit on an executor: why, and what to do."""


@dataclass(frozen=True)
class Code:
    """Files with their names on the driver."""

    folders: tuple[str, ...] = ()
    """Absolute; modules are looked for there, in this order."""
    files: dict[str, bytes] = field(default_factory=dict)
    """By absolute name."""
    tool: str = ""
    cwd: str = ""
    """The driver's working directory: places in code are shown relative to it."""

    @property
    def digest(self) -> str:
        found = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            found.update(f"{name} {len(content)} ".encode() + content)
        return found.hexdigest()[:16]

    def unpacked(self) -> str:
        """Return the prefix under which this machine has the files: none, or a folder of their own."""
        if all(_content(Path(name)) == content for name, content in self.files.items()):
            return ""
        folder = Path(tempfile.gettempdir(), f"fencepost-code-{os.getuid()}-{self.digest}")
        for name, content in self.files.items():
            path = Path(f"{folder}{name}")
            if _content(path) != content:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                part = path.with_name(f"{path.name}.{os.getpid()}")
                part.write_bytes(content)
                part.replace(path)
        return str(folder)

    @contextlib.contextmanager
    def installed(self) -> Iterator[str]:
        """Have modules found in these folders; gives the prefix of their names on this machine."""
        if self.tool != tool_version():
            raise CodeAway(
                f"the driver runs fencepost {self.tool}, and an executor {tool_version()}; install the same"
            )
        prefix = self.unpacked()
        folders = [prefix + folder for folder in self.folders]
        sys.path[:0] = folders
        before = Path.cwd()
        for folder in (self.cwd, prefix + self.cwd):
            if folder and Path(folder).is_dir():
                os.chdir(folder)
                break
        try:
            with _named_as_on_the_driver(prefix):
                yield prefix
        finally:
            os.chdir(before)
            for folder in folders:
                with contextlib.suppress(ValueError):
                    sys.path.remove(folder)


def code_of(program: Path | None, more: Iterable[Path] = ()) -> Code:
    """Return the code of the program in this file, as it is loaded now; `more`: files, folders, zip files."""
    files: dict[str, bytes] = {}
    folders: list[str] = []
    if program is not None:
        _take(program.resolve().parent, files, folders, whole=True)
        loaded: list[object] = [*sys.modules.values()]
        for module in loaded:
            if isinstance(module, ModuleType) and is_users(module) and getattr(module, "__file__", None):
                _take(Path(str(module.__file__)).resolve(), files, folders, whole=False)
    for path in more:
        if not path.exists():
            raise CodeAway(f"--py-files {path}: there is no such file or folder")
        if zipfile.is_zipfile(path):
            _take_zip(path, files, folders)
        else:
            _take(path.resolve(), files, folders, whole=path.is_dir())
    total = sum(map(len, files.values()))
    if len(files) > FILES_MAX or total > BYTES_MAX:
        raise CodeAway(
            f"the program's folder holds {len(files)} files of {total >> 20} MiB, too many to send to "
            "executors; put the program into a folder of its own, and name what else it needs with --py-files"
        )
    return Code(tuple(dict.fromkeys(folders)), files, tool_version(), str(Path.cwd()))


def _take(path: Path, files: dict[str, bytes], folders: list[str], *, whole: bool) -> None:
    if not whole:
        content = _content(path)
        if content is not None and path.suffix == ".py":
            files[str(path)] = content
            folders.append(str(_folder_of(path)))
        return
    folders.append(str(path))
    for root, names, found in os.walk(path):
        names[:] = sorted(name for name in names if name not in _LEFT_OUT and not name.startswith("."))
        for name in sorted(found):
            if name.endswith(".py") and len(files) <= FILES_MAX:
                content = _content(Path(root, name))
                if content is not None:
                    files[str(Path(root, name))] = content


def _folder_of(path: Path) -> Path:
    """Return the folder below which the packages of a module lie."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _take_zip(path: Path, files: dict[str, bytes], folders: list[str]) -> None:
    folders.append(str(path.resolve()))
    with zipfile.ZipFile(BytesIO(path.read_bytes())) as archive:
        for name in archive.namelist():
            if name.endswith(".py") and ".." not in Path(name).parts:
                files[str(path.resolve() / name.lstrip("/"))] = archive.read(name)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


@contextlib.contextmanager
def _named_as_on_the_driver(prefix: str) -> Iterator[None]:
    """Have the files below `prefix` compiled under the names without it."""
    if not prefix:
        yield
        return
    real = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        if str(self.path).startswith(prefix):
            return compile(Path(self.path).read_bytes(), str(self.path).removeprefix(prefix), "exec")
        return real(self, name)

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010  put back below; the base has another signature
    try:
        yield
    finally:
        setattr(SourceFileLoader, "get_code", real)  # noqa: B010  an assignment would need a type ignore


def tool_version() -> str:
    """Return the version and the digest of the code that explores."""
    if not _tool:
        found = hashlib.sha256()
        for package in ("fencepost.sim", "fencepost.impl", "fencepost.properties", "fencepost.model"):
            spec = importlib.util.find_spec(package)
            for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
                for path in sorted(Path(folder).rglob("*.py")):
                    found.update(f"{package} {path.relative_to(folder)} ".encode() + path.read_bytes())
        _tool.append(f"{fencepost.__version__} ({found.hexdigest()[:8]})")
    return _tool[0]


_tool: list[str] = []
