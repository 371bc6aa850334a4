"""`fencepost objects log`: what the change log has, who reads it, and removing old days of it."""

import json
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.store.requests import ANYTHING
from tests.commands.running import Run

DAYS = ("2023-11-15", "2023-11-16", "2023-11-17")
NOON = 1_700_049_600 * 10**9


class Clock(SystemEnvironment):
    ns = NOON

    def now_ns(self) -> int:
        return self.ns


@pytest.fixture
def directory(tmp_path: Path) -> str:
    clock = Clock()
    buckets = Buckets(str(tmp_path / "d"), clock)
    buckets.create("bucket-one")
    for number in range(3):
        clock.ns = NOON + number * 86_400 * 10**9
        buckets.store("bucket-one").put(f"k{number}", b"x", when=ANYTHING)
        buckets.log.flush(buckets.index)
    buckets.log.hold("lifecycle", NOON + 86_400 * 10**9)
    buckets.close()
    return str(tmp_path / "d")


def days(ran: Run, directory: str) -> list[str]:
    return json.loads(ran("objects", "log", "show", directory, "--json", "-")[1])["days"]  # type: ignore[no-any-return]  # of JSON


def test_show_lists_days_and_readers(directory: str, ran: Run) -> None:
    code, out, _ = ran("objects", "log", "show", directory, "--json", "-")
    shown = json.loads(out)
    assert (code, shown["days"], shown["readers"]) == (0, list(DAYS), {"lifecycle": "2023-11-16"})
    assert "reader lifecycle needs 2023-11-16" in ran("objects", "log", "show", directory)[1]


def test_prune_keeps_what_a_reader_needs_unless_forced(directory: str, ran: Run) -> None:
    code, out, _ = ran("objects", "log", "prune", directory, "--before", "2023-11-17")
    assert (code, "kept for the reader lifecycle (--force" in out) == (0, True)
    assert days(ran, directory) == list(DAYS[1:])
    assert ran("objects", "log", "prune", directory, "--older-than", "30", "--force")[0] == 0
    assert days(ran, directory) == []


def test_a_reader_that_is_gone_can_be_forgotten(directory: str, ran: Run) -> None:
    assert ran("objects", "log", "forget", directory, "lifecycle")[0] == 0
    code, _, err = ran("objects", "log", "forget", directory, "lifecycle")
    assert (code, "no reader lifecycle" in err) == (2, True)
    assert "kept for" not in ran("objects", "log", "prune", directory, "--before", "2023-11-17")[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "either --before DAY or --older-than DAYS"),
        (("--before", "2023-11-16", "--older-than", "1"), "either --before DAY or --older-than DAYS"),
        (("--before", "tomorrow"), "write it as 2026-11-19"),
        (("--before", "2999-01-01"), "in the future"),
    ],
)
def test_a_bad_request_is_one_line(words: tuple[str, ...], line: str, directory: str, ran: Run) -> None:
    code, _, err = ran("objects", "log", "prune", directory, *words)
    assert (code, line in err) == (2, True)
    assert "Traceback" not in err


def test_a_folder_that_is_no_directory_of_objects_is_refused(tmp_path: Path, ran: Run) -> None:
    code, _, err = ran("objects", "log", "show", str(tmp_path))
    assert (code, "no directory of objects" in err) == (2, True)
