"""`fencepost audit --over-http`: what it refuses, and how its verdicts end."""

import json

import pytest

from tests.commands.running import exit_of

PROGRAM = """
def write(endpoint):
    import http.client

    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"))
    connection.request("PUT", "/jobs/key", b"body")
    connection.getresponse().read()


def program(world):
    world.boto3_bucket("jobs")
    world.spawn(write, world.endpoint, name="ann")
    world.finally_("written", lambda view: view.get("jobs/key") == b"body")


def broken(world):
    program(world)
    world.always("never written", lambda view: not view.keys("jobs/"))
"""


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--mutate"], "--mutate is about others"),
        (["--store", "memory://"], "--store is about others"),
        (["--strategy", "exhaustive"], "its strategies are pct and random"),
        (["--faults", "skew=1"], "does not control clocks"),
    ],
)
def test_what_is_about_other_runs_is_refused(options, why, capsys) -> None:
    assert exit_of("audit", "counter", "--over-http", *options) == 2
    assert why in capsys.readouterr().err


@pytest.mark.slow
def test_a_verdict_a_token_and_the_result_as_data(tmp_path, capsys) -> None:
    """1 for what broke, 3 for what did not, and never 0."""
    file = tmp_path / "mine.py"
    file.write_text(PROGRAM)
    report = tmp_path / "result.json"
    limits = ["--over-http", "--max-schedules", "3", "--faults", "none"]
    assert exit_of("audit", f"{file}:program", *limits) == 3
    assert "3 schedules of 1 process over HTTP" in capsys.readouterr().out
    assert exit_of("audit", f"{file}:broken", *limits, "--json", str(report)) == 1
    result = json.loads(report.read_text())
    assert [step["kind"] for step in result["violations"][0]["steps"]] == ["put"]
    assert not result["complete"]
    token = result["violations"][0]["token"]
    assert exit_of("audit", f"{file}:broken", "--over-http", "--replay", token) == 1
    assert exit_of("audit", f"{file}:program", "--over-http", "--replay", token) == 3
