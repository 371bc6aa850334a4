"""Without Java, or with one too old, there is one sentence, and it says what works instead."""

import stat
from pathlib import Path

import pytest

from fencepost.sim.spark.session import SparkAway, check_java
from tests.commands.running import exit_of


def java(folder: Path, says: str) -> None:
    (folder / "bin").mkdir()
    fake = folder / "bin" / "java"
    fake.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    fake.chmod(fake.stat().st_mode | stat.S_IEXEC)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is 11; install it"),
        ('java version "1.8.0_292"', "is 8; install it"),
        ("no idea", "prints no version"),
    ],
)
def test_java_that_is_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, why: str) -> None:
    java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkAway, match=why) as error:
        check_java()
    assert "--engine local" in str(error.value)


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19'])
def test_java_that_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


@pytest.mark.parametrize("words", [["check", "two-phase"], ["replay", "t", "--model", "publish"]])
def test_no_java_is_one_line_and_local_still_works(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("")
    assert exit_of(*words, "--engine", "spark") == 2
    printed = capsys.readouterr().err
    assert printed.startswith("fencepost: Spark needs Java 17 or newer: there is no java on the PATH")
    assert printed.count("\n") == 1
    assert exit_of(*words) in (0, 3)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--master", "local[1]"], "--master belongs to --engine spark"),
        (["--work", "."], "--work belongs to --engine spark"),
        (["--engine", "spark", "--walks", "3"], "--walks does not run on --engine spark"),
        (["--engine", "spark", "--memory", "1G"], "--memory does not run on --engine spark"),
        (["--engine", "spark", "--work", "nowhere"], "--work nowhere is no folder"),
    ],
)
def test_contradictions_of_check(capsys: pytest.CaptureFixture[str], words: list[str], why: str) -> None:
    assert exit_of("check", "two-phase", *words) == 2
    assert why in capsys.readouterr().err
