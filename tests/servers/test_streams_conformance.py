"""The table of the conformance suite cannot be good when the suite was not."""

import json

from .streams_conformance import SKIPS, TESTS_MIN, Results, read, table


def report(*tests: tuple[str, str], status: str = "passed") -> Results:
    rows = [{"fullName": name, "status": how} for name, how in tests]
    passed = [{"fullName": f"test {number}", "status": "passed"} for number in range(TESTS_MIN)]
    return read(json.dumps({"testResults": [{"status": status, "assertionResults": [*passed, *rows]}]}))


def test_a_run_with_known_skips_is_good() -> None:
    (group,) = SKIPS
    found = report((f"{group} webhook", "skipped"))
    assert found.ok
    assert f"| {TESTS_MIN} | 0 | 1 |" in table({"file": found})


def test_failed_unknown_skipped_or_missing_tests_are_not_good() -> None:
    assert not report(("a", "failed")).ok
    assert not report(("a", "skipped")).ok
    assert not read("").ok
    assert not read(
        json.dumps({"testResults": [{"status": "failed", "message": "x", "assertionResults": []}]})
    ).ok
    few = read(json.dumps({"testResults": []}))
    assert not few.ok
    assert "only 0 tests passed" in table({"file": few})
