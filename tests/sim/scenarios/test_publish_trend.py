"""The trend of wall times warns of what became slower, and of nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.publish_trend import alerts, main


def row(seconds: float, *, verb: str = "insert", latency_ms: float = 50.0, hops: int = 4) -> dict[str, Any]:
    return {"verb": verb, "latency_ms": latency_ms, "in_flight": 8, "seconds": seconds, "serial_hops": hops}


@pytest.mark.parametrize(
    ("now", "warnings"),
    [
        (row(0.24), 0),
        (row(0.25), 1),
        (row(0.6, latency_ms=150.0), 0),
        (row(9.0, verb="branch create"), 0),
        (row(0.2, hops=5), 1),
        (row(0.2, hops=3), 0),
    ],
)
def test_a_fifth_more_than_usual_or_one_more_hop_is_named(now: dict[str, Any], warnings: int) -> None:
    """Usual is the median, so that one disturbed run neither warns for ever nor hides the next."""
    history = [row(5.0), *[row(0.2)] * 6, row(5.0), *[row(0.6, latency_ms=150.0)] * 3, row(0.2)]
    assert len(alerts(history, [now])) == warnings


def test_old_runs_are_forgotten() -> None:
    assert alerts([*[row(0.1)] * 30, *[row(0.2)] * 10], [row(0.22)]) == []


def test_the_command_measures_every_verb_and_ends_with_one_when_it_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trend.jsonl"
    words = ["--latency-ms", "1", "--repeats", "1", "--history", str(file)]
    assert main(words) == 0
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [found["verb"] for found in rows] == ["insert", "branch create", "branch write", "branch delete"]
    assert all(found["seconds"] >= found["serial_hops"] * 0.001 for found in rows), "each hop waits"
    file.write_text("".join(json.dumps({**found, "seconds": 1e-9}) + "\n" for found in rows))
    capsys.readouterr()
    assert main(words) == 1
    assert capsys.readouterr().out.count("slower: ") == 4
