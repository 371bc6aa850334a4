"""Clients in native code and in another language: a race is found, and in its fixed form nothing breaks."""

import importlib.util
import shutil

import pytest

from fencepost.sim.explore.audit import AuditRequest
from fencepost.sim.explore.reporting import bind
from fencepost.sim.over_http.search import follow_over_http, run_over_http
from fencepost.sim.world.budget import NO_FAULTS
from tests.servers.over_http import clients

pytestmark = pytest.mark.server


def needs(*modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"pip install {' '.join(modules)}")


@pytest.mark.parametrize(
    ("program", "name"),
    [
        (clients.boto3_counter, "both are counted"),
        (clients.boto3_election, "one leads"),
        pytest.param(clients.obstore_election, "one leads", marks=needs("obstore")),
        pytest.param(clients.pyarrow_election, "one leads", marks=needs("pyarrow")),
        pytest.param(
            clients.node_counter,
            "both are counted",
            marks=pytest.mark.skipif(shutil.which("node") is None, reason="needs node"),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_race_is_found_and_its_fixed_form_is_undecided(program, name) -> None:
    def request(schedules, *, safe):
        bound = bind(program, program.__name__, {"safe": safe})
        return AuditRequest(bound, budget=NO_FAULTS, strategy="pct", schedules=schedules)

    broken = run_over_http(request(60, safe=False))
    assert broken.verdict == "violated", broken
    assert broken.counterexamples[0].property == name
    token = broken.counterexamples[0].token
    again = follow_over_http(request(1, safe=False), token)
    assert again.verdict == "violated", again.findings
    assert run_over_http(request(4, safe=True)).verdict == "undecided"
