"""The house itself: layers import in one direction, every folder is packaged, starting is light."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("model", "impl", "properties", "sim", "reports")
MAY_IMPORT = {
    "model": {"model"},
    "impl": {"impl"},
    "properties": {"properties", "model", "impl"},
    "sim": {"sim", "properties", "model", "impl"},
    "reports": {"reports", "results"},
}


def imported_layers(source: str) -> set[str]:
    """The parts of fencepost that `source` imports, at its top or inside of functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the direction"
            module = node.module or ""
            names.add(module)
            if module == "fencepost":
                names.update(f"fencepost.{alias.name}" for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("fencepost.")}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_import_only_what_they_may(layer: str) -> None:
    """If this fails, the model can no longer be a second opinion on the code, or vice versa."""
    files = sorted((ROOT / layer).rglob("*.py"))
    assert files
    for file in files:
        foreign = imported_layers(file.read_text()) - MAY_IMPORT[layer]
        assert not foreign, f"{file.relative_to(ROOT)} imports {sorted(foreign)}"


def test_an_import_inside_a_function_is_seen() -> None:
    """The check above must not be fooled by a lazy import."""
    assert imported_layers("def f():\n    from fencepost.impl.store import Store\n") == {"impl"}
    assert imported_layers("from fencepost import sim\n") == {"sim"}


def test_every_folder_with_code_is_packaged() -> None:
    """A folder that is forgotten here works from a checkout and is missing from the wheel."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        file.parent.relative_to(ROOT)
        for top in ("fencepost", "examples", *LAYERS)
        for file in (ROOT / top).rglob("*.py")
    }
    expected = {
        ".".join(folder.parts if folder.parts[0] == "fencepost" else ("fencepost", *folder.parts))
        for folder in folders
    }
    assert set(settings["packages"]) == expected


NATIVE = """
def program(world):
    world.spawn(world.store().head, "k", name="a")
"""
"""An audit of a program that uses the store interface and no SDK."""


@pytest.mark.parametrize(
    "words", [["-c", "import fencepost"], ["-m", "fencepost", "--help"], ["-m", "fencepost", "audit", NATIVE]]
)
def test_starting_loads_no_heavy_library(words: list[str], tmp_path: Path) -> None:
    """Start-up under a second, and no Java, SDK or plotting needed to read the help or to audit."""
    (tmp_path / "native.py").write_text(NATIVE)
    words = [f"{tmp_path}/native.py:program" if word == NATIVE else word for word in words]
    heavy = ("pyspark", "boto3", "botocore", "matplotlib", "hypothesis", "networkx", "numpy", "pyarrow")
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in ran.stderr.splitlines()}
    assert "fencepost" in loaded
    assert loaded.isdisjoint(heavy)


def test_ci_runs_the_command_of_the_readme() -> None:
    """The command in CONTRIBUTING is what guards main."""
    readme = (ROOT / "README.md").read_text()
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "nox" in line]
    assert len(commands) == 1
    assert f"\n{commands[0]}\n" in readme
