"""Links, notebooks and versions as docs/site.py changes them. `nox -s docs` builds the site itself."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from docs import site

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("index.md", "docs/guides/probe.md#quick", "[a](guides/probe.md#quick)"),
        ("index.md", "CHANGELOG.md", "[a](changelog.md)"),
        ("index.md", "LICENSE", "a (`LICENSE`)"),
        ("guides/pre-merge.md", "../../CONTRIBUTING.md#tests", "[a](../contributing.md#tests)"),
        ("guides/pre-merge.md", "../ci/github.yml", "a (`docs/ci/github.yml`)"),
        ("guides/pre-merge.md", "explore-verdicts.ipynb", "[a](explore-verdicts.md)"),
        ("guides/pre-merge.md", "probe.md", "[a](probe.md)"),
        ("guides/pre-merge.md", "#here", "[a](#here)"),
        ("guides/pre-merge.md", "https://example.org/a", "[a](https://example.org/a)"),
        ("guides/pre-merge.md", "not-there.py", "[a](not-there.py)"),
    ],
)
def test_a_link_of_the_repository_is_one_of_the_site(source: str, target: str, expected: str) -> None:
    """A link to what is not there stays, so that the build reports it."""
    assert site.link(source, "a", target) == expected


def test_code_keeps_what_looks_like_a_link() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="guides/probe.md"))
    text = "see [a](../../LICENSE)\n\n```python\nrows[0](../../LICENSE)\n```\n"
    changed = site.on_page_markdown(text, page)
    assert changed == text.replace("[a](../../LICENSE)", "a (`LICENSE`)")


def test_every_public_module_can_be_imported_and_says_what_it_gives() -> None:
    modules = site.public_modules()
    assert {"fencepost", "fencepost.store", "fencepost.model", "fencepost.testing"} <= set(modules)
    for name in modules:
        assert "impl" not in name
        assert importlib.import_module(name).__doc__


def test_versions_are_listed_newest_first(tmp_path: Path) -> None:
    for name in ("0.9.0", "0.10.0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").touch()
    site.on_post_build(SimpleNamespace(site_dir=str(tmp_path / "0.9.0")))
    rows = json.loads((tmp_path / "versions.json").read_text())
    assert [(row["version"], row["aliases"]) for row in rows] == [("0.10.0", ["latest"]), ("0.9.0", [])]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()


def test_the_version_is_that_of_the_package() -> None:
    import fencepost

    assert site.version() == fencepost.__version__


def test_a_notebook_is_shown_with_what_it_printed() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": ["1 + 1"], "outputs": [{"data": {"text/plain": ["2"]}}]},
    ]
    assert site.as_markdown({"cells": cells}) == (
        "# Title\ntext\n\n```python\n1 + 1\n```\n\n```text\n2\n```\n"
    )
