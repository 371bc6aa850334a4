"""A system is named in its own folders only: everything else finds it in SYSTEMS."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fencepost.sim.systems import SYSTEMS

ROOT = Path(__file__).parent.parent
LAYERS = ("model/kernel", "properties", "sim", "reports", "fencepost")
OWN = {
    name: re.compile(rf"sim/systems/{name}/|properties/{name}/|fencepost/commands/({name}|catalog)(_\w+)?\b")
    for name in SYSTEMS
}
"""The catalog is the command of publish."""
REASONS = {
    "sim/systems/__init__.py": "the registry",
    "fencepost/commands/entry.py": "names the commands and the extras",
    "fencepost/catalog.py": "the public door to publish",
    "fencepost/ingest.py": "the public door to ingest",
    "fencepost/pytest_plugin.py": "its fixture `s3_server` starts a server",
}


@functools.cache
def words(source: str) -> Sequence[tuple[int, str]]:
    return tuple(_words(source))


def _words(source: str) -> Iterator[tuple[int, str]]:
    """Identifiers, imported modules and texts, docstrings too, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            yield node.lineno, " ".join([module, *(alias.name for alias in node.names)]).replace(".", " ")


SHARED = r"[. /]wire\b"
"""S3's format over HTTP, which the object server and the audited world share: it names no system."""
ORDINARY = {"objects", "streams", "lifecycle"}
"""Names that are words of the language, or of S3: there only a path or a module names the system."""


def named(source: str, name: str) -> list[int]:
    """The lines that name it."""
    word = re.compile(rf"(?<![\w-]){name}(?![\w-])")
    if name in ORDINARY:
        layers = "(?:impl|model|properties|sim[. /]systems|commands)"
        word = re.compile(rf"{layers}[. /]{name}\b(?!{SHARED})|^{name}[/:]")
    return [line for line, text in words(source) if word.search(text)]


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_module_outside_its_own_folders_names_a_system(name: str) -> None:
    for layer in LAYERS:
        for file in sorted((ROOT / layer).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            if OWN[name].match(path) is None and path not in REASONS:
                assert not named(file.read_text(), name), f"{path} names {name}"


def test_every_way_to_name_a_system_is_seen() -> None:
    for source in (
        "x = 'ingest'",
        "import a.ingest.b",
        "from a import ingest",
        "y = ingest.z",
        "y = a.ingest",
    ):
        assert named(source, "ingest") == [1], source
    assert not named("ingesting = 'an ingested batch'", "ingest")
    for source in (
        "import fencepost.impl.objects.app",
        "from fencepost.model.objects import A",
        "from fencepost.model import objects",
        "x = 'objects:B'",
    ):
        assert named(source, "objects") == [1], source
    assert not named("page.objects; 'objects below a prefix'", "objects")
