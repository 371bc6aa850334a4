"""The conditions of a release, before anything is built. `nox -s release` does the rest."""

from pathlib import Path

import pytest

from tests import release, sessions

CHANGELOG = """# Changelog

## Unreleased: 0.10.0

- new

## 0.1.0 - 2026-01-01

- first
"""


def test_the_notes_are_the_section_of_the_version() -> None:
    """If this fails, a release has the notes of another one: 0.1.0 begins like 0.10.0."""
    assert release.notes(CHANGELOG, "0.1.0") == "- first\n"
    assert release.notes(CHANGELOG, "0.10.0", unreleased=True) == "- new\n"


@pytest.mark.parametrize("version", ["0.10.0", "0.2.0", "10.0"])
def test_a_version_that_is_not_released_has_no_notes(version: str) -> None:
    with pytest.raises(LookupError, match="CHANGELOG"):
        release.notes(CHANGELOG, version)


def test_every_session_must_be_green_for_this_commit(tmp_path: Path) -> None:
    table = sessions.Table(tmp_path)
    table.begin(["tests", "deep", "spark"])
    table.put(sessions.Row("tests", "green", commit="c" * 40))
    table.put(sessions.Row("deep", "green", commit="b" * 40))
    table.put(sessions.Row("spark", "red", commit="c" * 40))
    names = ["tests", "deep", "spark", "pages", *sessions.LEFT_OUT]
    assert release.not_green(tmp_path, "c" * 40, names) == ["deep", "spark", "pages"]
