"""A number in a report is worth what it takes to make it again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from fencepost.commands import provenance
from tests.commands.running import exit_of


def test_a_result_names_its_command_and_versions(tmp_path: Path) -> None:
    """Without them a colleague can doubt a verdict but not check it."""
    file = tmp_path / "out.json"
    words = ["check", "two-phase", "--set", "managers=2", "--json", str(file)]
    assert exit_of(*words) == 0
    made = json.loads(file.read_text())["provenance"]
    assert made["command"] == f"fencepost check two-phase --set managers=2 --json {file}"
    assert made["fencepost"] == fencepost.__version__
    assert made["python"] == ".".join(map(str, sys.version_info[:3]))
    assert set(made["libraries"]) >= {"numpy", "greenlet"}


def test_words_with_spaces_are_quoted(tmp_path: Path) -> None:
    """The line is for pasting into a shell."""
    file = tmp_path / "a b.json"
    exit_of("zoo", "two-phase", "--json", str(file))
    assert json.loads(file.read_text())["provenance"]["command"].endswith(f"--json '{file}'")


def git(folder: Path, *words: str) -> None:
    options = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *options, *words], cwd=folder, check=True, capture_output=True)


def test_the_revision_is_that_of_the_code_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says when files differ from it: a clean revision that was not clean sends a reader astray."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.revision() == ("", False)
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("a = 1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    commit, changed = provenance.revision()
    assert len(commit) == 40
    assert not changed
    (tmp_path / "code.py").write_text("a = 2\n")
    assert provenance.revision() == (commit, True)


def test_without_git_there_is_no_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert provenance.revision() == ("", False)
