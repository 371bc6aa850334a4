"""Programs that Fencepost once misjudged or did not decide, and the verdict that each must get.

They are in `trials/`, as their authors would write them: incidents of public projects, and small programs
about one cause each. Every row is audited by the command, with its default faults unless the row has options.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.running import exit_of

TRIALS = Path(__file__).parent / "trials"
NONE = ("--faults", "none")
PAUSE = ("--faults", "none,pause=1")
SKEW = ("--faults", "none,skew=1")
LIMITED = ("--budget", "20")
ENOUGH = ("--budget", "900")
"""Time after which a row without a limit of its own fails."""

Row = tuple[str, str, tuple[str, ...], str]
"""Program, function, options and verdict."""

LASSO: Row = ("dirty_for_ever", "broken", (), "violated")
"""The row whose counterexample is a crash, and a loop without an end after it."""


def sized(n: int, k: int) -> tuple[str, ...]:
    """Return the options of so many processes with so many operations each."""
    return ("--set", f"n={n}", "--set", f"k={k}")


QUICK: list[Row] = [
    ("bounded_wait", "broken", ("--set", "tries=5"), "violated"),
    ("bounded_wait", "broken", ("--set", "tries=6"), "violated"),
    ("bounded_wait", "broken", ("--set", "tries=7"), "violated"),
    ("bounded_wait", "broken", ("--set", "tries=10"), "violated"),
    ("bounded_wait", "broken", ("--set", "tries=30"), "violated"),
    ("copy_onto_itself", "broken", (), "violated"),
    ("day_folders", "broken", (), "violated"),
    ("day_folders", "fixed", (), "holds"),
    LASSO,
    ("dirty_for_ever", "fixed", (), "holds"),
    ("first_to_report", "broken_asyncio", NONE, "violated"),
    ("first_to_report", "broken_event", NONE, "violated"),
    ("first_to_report", "broken_list", NONE, "violated"),
    ("first_to_report", "broken_lock", NONE, "violated"),
    ("first_to_report", "broken_pool", NONE, "violated"),
    ("first_to_report", "broken_queue", NONE, "violated"),
    ("gives_up_waiting", "broken", NONE, "violated"),
    ("gives_up_waiting", "fixed", NONE, "holds"),
    ("module_dictionary", "fixed", (), "holds"),
    ("renewal_thread", "broken", (), "violated"),
    ("shared_etag", "fixed", NONE, "holds"),
    ("stale_by_my_clock", "broken", SKEW, "violated"),
    ("stale_by_my_clock", "broken_far", SKEW, "violated"),
    ("stale_by_my_clock", "fixed", SKEW, "holds"),
]
LONG: list[Row] = [
    *(("age_of_an_object", form, (), "violated") for form in "abcdefgh"),
    ("age_of_the_lock", "broken", (), "violated"),
    ("age_of_the_lock", "fixed", (), "holds"),
    ("copy_onto_itself", "fixed", (), "holds"),
    ("gives_up_waiting", "broken", (), "violated"),
    ("grace_from_write", "broken", PAUSE, "violated"),
    ("grace_from_write", "broken", (), "violated"),
    ("grace_from_write", "broken_mark", PAUSE, "violated"),
    ("grace_from_write", "broken_mark", (), "violated"),
    ("grace_from_write", "fixed", PAUSE, "holds"),
    ("module_cache", "broken", (), "violated"),
    ("module_cache", "fixed", (), "holds"),
    ("partial_blocks", "broken", (), "violated"),
    ("partial_blocks", "broken_far", (), "violated"),
    ("partial_blocks", "fixed", (), "holds"),
    ("renewal_writes_back", "broken", (), "violated"),
    ("renewal_writes_back", "fixed", NONE, "holds"),
    ("replaced_when_old", "a", (), "holds"),
    ("replaced_when_old", "b", (), "holds"),
    ("replaced_when_old", "c", (), "holds"),
    ("replaced_when_old", "c", ("--faults", "none,pause=2"), "violated"),
    ("shared_etag", "broken", NONE, "violated"),
    ("shared_etag", "broken", (), "violated"),
    ("shared_etag", "broken_upload", NONE, "violated"),
    ("shared_etag", "broken_upload", (), "violated"),
    ("sink_file_boundaries", "broken", (), "violated"),
    ("work_queue", "broken", (), "violated"),
    *(
        ("several_writers", f"{what}_broken", sized(n, k), "violated")
        for what in ("log", "register", "swap")
        for n, k in ((2, 1), (2, 2), (3, 1), (3, 2))
        if (what, k) != ("log", 1)
    ),
    ("several_writers", "log_fixed", NONE, "holds"),
    ("several_writers", "register_fixed", NONE, "holds"),
    ("several_writers", "swap_fixed", NONE, "holds"),
    ("sink_file_boundaries", "fixed", ("--faults", "none,crash=1"), "holds"),
]
UNDECIDED = [
    ("gives_up_waiting", "fixed"),
    ("grace_from_write", "fixed"),
    ("renewal_writes_back", "fixed"),
    ("several_writers", "log_fixed"),
    ("several_writers", "register_fixed"),
    ("several_writers", "swap_fixed"),
    ("shared_etag", "fixed"),
    ("sink_file_boundaries", "fixed"),
]
"""Fixed programs for whose default faults a limited time may not suffice."""


def audited(tmp_path: Path, program: str, function: str, *options: str) -> dict[str, Any]:
    """Return the result of `fencepost audit` as a user gets it."""
    file = tmp_path / "result.json"
    exit_of("audit", f"{TRIALS / program}.py:{function}", *options, "--json", str(file), "--quiet")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def judge(tmp_path: Path, row: Row) -> dict[str, Any]:
    """Audit a row and return its result; a token of a violation must show it again in a new session."""
    program, function, options, verdict = row
    found = audited(tmp_path, program, function, *options, *ENOUGH)
    assert found["verdict"] == verdict, found["bound"]
    for violation in found["violations"]:
        again = audited(tmp_path, program, function, *options, "--replay", violation["token"])
        assert [one["property"] for one in again["violations"]] == [violation["property"]]
    return found


def name_of(row: Row) -> str:
    return "-".join([*row[:2], *row[2][1:]])


@pytest.mark.parametrize("row", QUICK, ids=name_of)
def test_the_verdict_is_right(tmp_path: Path, row: Row) -> None:
    found = judge(tmp_path, row)
    if row == LASSO:
        [violation] = found["violations"]
        assert violation["back_to"] is not None
        assert any("CRASH" in line for line in violation["counterexample"])


@pytest.mark.slow
@pytest.mark.parametrize("row", LONG, ids=name_of)
def test_the_verdict_is_right_after_a_longer_search(tmp_path: Path, row: Row) -> None:
    judge(tmp_path, row)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "function"), UNDECIDED)
def test_a_fixed_program_is_no_false_alarm(tmp_path: Path, program: str, function: str) -> None:
    assert audited(tmp_path, program, function, *LIMITED)["verdict"] in {"holds", "undecided"}


def test_every_program_has_a_row() -> None:
    """If this fails, a program was added and nothing audits it."""
    programs = {file.stem for file in TRIALS.glob("*.py")} - {"storing"}
    assert {row[0] for row in [*QUICK, *LONG]} == programs
