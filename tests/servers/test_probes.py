"""The page of what the probe finds on our server: what makes it fail, and what replaces it.

If this fails, a short run replaces the page by a worse one, or the session fails whatever the server does.
"""

from pathlib import Path
from typing import Any

from tests.servers import probes


def results(verdict: str, rounds: int, setting: str = "1 worker") -> dict[str, dict[str, Any]]:
    row = {"name": "etags", "applies": True, "verdict": verdict, "bad": 0, "rounds": rounds}
    return {setting: {"features": [row], "requests": 1_000}}


def test_only_faults_excuse_a_row_that_is_undecided() -> None:
    assert not probes.failures(results("safe", 10))
    assert probes.failures(results("undecided", 10)) == [("1 worker", "etags", "undecided")]
    assert not probes.failures(results("undecided", 10, "4 workers, faults"))
    assert probes.failures(results("unsafe", 10, "4 workers, faults"))
    assert probes.failures(results("unsupported", 10, "4 workers, faults"))


def test_a_run_with_less_evidence_leaves_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    assert probes.write(page, probes.table(results("safe", 100)))
    for worse in (results("safe", 10), results("undecided", 1_000)):
        assert not probes.write(page, probes.table(worse))
        assert "100" in page.read_text()
    for better in (results("safe", 100), results("unsafe", 100), results("safe", 1_000)):
        assert probes.write(page, probes.table(better))
    assert "1,000" in page.read_text()
