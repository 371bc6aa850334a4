"""RFC-013's published measurements, reproduced from one description with one set of parameters."""

from dataclasses import replace
from typing import Any

import pytest

from fencepost.results import to_json
from fencepost.sim.des.expressions import expression
from fencepost.sim.des.paths import Path
from fencepost.sim.scenarios import Order, load, perform

SCENARIOS = ("rfc-013-original", "rfc-013-opener", "rfc-013-hops", "rfc-013-capped", "rfc-013-formula")
TOLERANCES = {"requests": 0.15, "hops": 0.05, "wall": 0.30, "ratio": 0.30}

# As published: typed here once more, so that a slip in a scenario file is seen.
ORIGINAL = {0: 156, 5: 268, 10: 358, 20: 538, 40: 898, 80: 1618}
OPENER = {0: 121, 10: 173, 20: 233, 40: 353, 80: 593}
HOPS = {1: (107, 109, 2150), 33: (338, 108, 2450), 85: (716, 113, 4270)}
CAPPED = {
    "uncompacted 1": (1273, 5900),
    "uncompacted 2": (1487, 8400),
    "uncompacted 3": (3505, 16400),
    "compacted 1": (275, 6200),
    "compacted 2": (250, 5400),
    "compacted 3": (197, 3800),
}

_known: dict[str, dict[str, Any]] = {}


def found(name: str) -> dict[str, Any]:
    if name not in _known:
        _known[name] = to_json(perform(Order(load(name), jobs=1)))
    return _known[name]


def checks(name: str) -> dict[str, Any]:
    return {check["name"]: check for check in found(name)["checks"]}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_check_is_within_its_tolerance(name: str) -> None:
    result = found(name)
    assert result["checks"]
    assert [check for check in result["checks"] if not check["ok"]] == []
    assert result["verdict"] == "holds"


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_tolerance_is_wider_than_agreed(name: str) -> None:
    for check in found(name)["checks"]:
        title = check["name"]
        kind = (
            "hops"
            if title.startswith("serial hops")
            else "ratio"
            if " over " in title
            else "wall"
            if title.startswith(("wall", "formula"))
            else "requests"
        )
        assert check["tolerance"] == TOLERANCES[kind], title


def test_the_references_are_what_was_published() -> None:
    for depth, total in ORIGINAL.items():
        assert checks("rfc-013-original")[f"all, depth {depth}"]["reference"] == total
    for depth, total in OPENER.items():
        assert checks("rfc-013-opener")[f"all, depth {depth}"]["reference"] == total
    for depth, (requests, hops, floor) in HOPS.items():
        rows = checks("rfc-013-hops")
        assert rows[f"requests, depth {depth}"]["reference"] == requests
        assert rows[f"serial hops, depth {depth}"]["reference"] == hops
        assert rows[f"wall at latency nothing, depth {depth}"]["reference"] == floor
    for case, (requests, wall) in CAPPED.items():
        rows = checks("rfc-013-capped")
        assert rows[f"wall, {case}"]["reference"] == wall
        assert any(n.startswith(f"requests, {case}") and r["reference"] == requests for n, r in rows.items())


def test_one_path_with_one_set_of_parameters() -> None:
    """What differs between measurements is what was measured: opener, state of the tables, store."""
    paths = [load(name).path for name in SCENARIOS]
    assert all(path is not None and path == paths[0] for path in paths)
    for name in SCENARIOS:
        scenario = load(name)
        settings = [scenario.settings, *(case.settings for case in scenario.cases)]
        given = {key for one in settings for key in one if key.startswith("workload.parameters.")}
        assert given <= {"workload.parameters.namespace", "workload.parameters.authenticated"}
        for one in settings:
            assert all(one[key] in (0, 1) for key in given if key in one), "switches, not numbers to fit with"


def test_serial_hops_do_not_grow_with_the_history_while_requests_do() -> None:
    runs = {
        run["parameters"]["workload.depth"]: run["operations"]["write"]
        for run in found("rfc-013-hops")["runs"]
    }
    assert {stats["serial_hops"] for stats in runs.values()} == {110}
    assert runs[85]["requests"] > 5 * runs[1]["requests"]


def test_uncapped_the_formula_is_the_simulation() -> None:
    exact = {n: c for n, c in checks("rfc-013-formula").items() if "in_flight unlimited" in n}
    assert len(exact) == 12
    assert all(check["error"] == 0 for check in exact.values())


def test_residuals_that_stand_out_come_with_a_sentence() -> None:
    output = [check for check in found("rfc-013-capped")["checks"] if check["says"]]
    assert len(output) >= 4
    assert all(abs(check["error"]) > 0.1 for check in output)


@pytest.mark.parametrize(
    ("name", "step", "change"),
    [
        ("rfc-013-original", "scan the manifest's fragments", {"repeat": expression(4)}),
        ("rfc-013-original", "schema contract", {"count": expression(30)}),
        ("rfc-013-opener", "open tables by address", {"count": expression("(1 - namespace) * 6")}),
        ("rfc-013-opener", "scan the fragments it may be in", {"count": expression("1 + 3 * data")}),
        ("rfc-013-hops", "schema contract", {"parallel": True}),
        ("rfc-013-hops", "scan the commits again", {"parallel": False}),
        ("rfc-013-capped", "scan the manifest's fragments", {"parallel": False}),
        ("rfc-013-capped", "planning", {"compute_ns": 5_000_000_000}),
    ],
)
def test_another_path_does_not_pass(name: str, step: str, change: dict[str, Any]) -> None:
    """The checks can fail: a path with one incorrect step is outside of some tolerance."""
    scenario = load(name)
    assert scenario.path is not None
    steps = tuple(replace(one, **change) if one.name == step else one for one in scenario.path.steps)
    assert steps != scenario.path.steps
    changed: Path = replace(scenario.path, steps=steps)
    result = to_json(perform(Order(replace(scenario, path=changed), jobs=1)))
    assert not all(check["ok"] for check in result["checks"])
