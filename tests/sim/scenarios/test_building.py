"""From a scenario's settings to the simulator: every key arrives where it belongs, in its unit."""

import fnmatch
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.layers import Throttled
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.des import (
    ClientModel,
    Constant,
    Empirical,
    Faults,
    Lognormal,
    Profile,
    Setup,
    StoreModel,
    Workload,
)
from fencepost.sim.probe import Plan, Probe
from fencepost.sim.scenarios import BadScenario, measured, profile_of, read
from fencepost.sim.scenarios.keys import KEYS
from fencepost.sim.scenarios.loading import points
from fencepost.sim.scenarios.pathfiles import LIBRARY
from fencepost.sim.scenarios.running import build
from fencepost.sim.systems import SYSTEMS

MS = 1_000_000
FULL = """seed = 7
[store]
bandwidth = "1 MB/s"
in_flight = 11
writes_per_prefix = "12/s"
reads_per_prefix = "13/s"
prefix_segments = 2
writes_per_key = "1/s"
[store.latency]
default = "15 ms"
put = { p50 = "25 ms", p99 = "90 ms" }
[client]
in_flight = 14
timeout = "2 s"
attempts = 3
pause = "10 ms"
pause_max = "1 s"
[workload]
system = "ingest"
writers = 15
arrival = "poisson"
rate = "60/min"
duration = "1 min"
compute = "3 ms"
bytes = "1 KiB"
follow_up = false
attempts = 4
parameters = { horizon_s = 9 }
maintenance = { reconcile = "10 s", audit = 100, collect = "never" }
[faults]
reply_lost = "1 %"
request_lost = "2 %"
late = "3 %"
late_by = "4 s"
conflict = "5 %"
throttled = "6 %"
crash = "7/h"
restart = "8 s"
skew = "9 ms"
"""


def test_every_key_arrives(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(FULL)
    scenario = read(file)
    (point,) = points(scenario)
    profile = Profile(Constant(15 * MS), {"put": Lognormal(25 * MS, 90 * MS)}, byte_ns=1000.0)
    assert build(scenario, point) == Setup(
        Workload(
            "ingest",
            writers=15,
            arrival="poisson",
            rate=1.0,
            duration_ns=60_000 * MS,
            compute_ns=3 * MS,
            size=1024,
            follow_up=False,
            attempts=4,
            parameters={"horizon_s": 9.0},
            maintenance={"reconcile": (None, 10_000 * MS), "audit": (100, None), "collect": (None, None)},
        ),
        StoreModel(profile, 11, 12.0, 13.0, 2, 1.0),
        ClientModel(14, 2000 * MS, 3, 10 * MS, 1000 * MS),
        Faults(0.01, 0.02, 0.03, 4000 * MS, 0.05, 0.06, 7.0, 8000 * MS, 9 * MS),
        seed=7,
    )


def test_what_is_not_given_is_what_the_simulator_does_by_itself(tmp_path: Path) -> None:
    """The table of keys and the set-up's own defaults say the same."""
    file = tmp_path / "s.toml"
    file.write_text('[workload]\nsystem = "publish"\noperations = 5\n')
    scenario = read(file)
    assert build(scenario, points(scenario)[0]) == Setup(Workload("publish", operations=5))


def probed() -> Any:
    env = SeededEnvironment(3)
    store = Throttled(MemoryStore(env=env), latency_s=lambda request: 0.002 if request.reads else 0.005)
    report = Probe(store, Plan(rounds=1, samples=20), only=["create-only-put"], env=env).run(lambda *_: None)
    store.close()
    return report.profile


def test_what_probe_measured_is_drawn_from(tmp_path: Path) -> None:
    """The file that `fencepost probe --profile` writes, as it is."""
    file = tmp_path / "store.json"
    file.write_text(json.dumps(probed()))
    profile = measured(file)
    assert isinstance(profile.of("get"), Empirical)
    assert profile.of("get").median_ns == pytest.approx(2 * MS, rel=0.01)
    assert profile.of("put").median_ns == pytest.approx(5 * MS, rel=0.01)
    assert profile.of("a kind that was not measured") == profile.of("put")


def test_bytes_cost_what_the_two_sizes_differ_by() -> None:
    def entry(size: int, ms: float) -> dict[str, Any]:
        return {"bytes": size, "p50": ms, "quantiles": [ms] * 101}

    found = {
        "format": "fencepost-latency/1",
        "operations": {"put": [entry(0, 5.0), entry(1_000_000, 25.0)], "head": [entry(0, 2.0)]},
    }
    profile = profile_of(found, "x", byte_ns=7.0)
    assert profile.per_byte_ns("put") == 20.0
    assert profile.per_byte_ns("head") == 7.0
    assert profile.of("put").median_ns == 5 * MS


EMPTY = {"bytes": 1, "p50": 1, "quantiles": []}
NO_QUANTILES = json.dumps({"format": "fencepost-latency/1", "operations": {"put": [EMPTY]}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NO_QUANTILES, "is damaged"),
        (None, "the latency profile cannot be read"),
        ("{", "is not JSON"),
        ("[]", "is no latency profile"),
        ('{"format": "fencepost-latency/2"}', "is no latency profile"),
        ('{"format": "fencepost-latency/1"}', "is damaged"),
        ('{"format": "fencepost-latency/1", "operations": {"put": []}}', "is damaged"),
        ('{"format": "fencepost-latency/1", "operations": {"put": [{"bytes": 1}]}}', "is damaged"),
    ],
)
def test_a_profile_that_is_none_is_one_line(text: str | None, says: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "p.json").write_text(text)
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        '[store]\nlatency = { profile = "p.json" }\n[workload]\nsystem = "publish"\noperations = 1\n'
    )
    loaded = read(scenario)
    with pytest.raises(BadScenario, match=says) as raised:
        build(loaded, points(loaded)[0])
    assert "p.json" in str(raised.value)


def test_every_key_says_what_it_means() -> None:
    assert all(key.says for key in KEYS.values())


def test_shipped_files_are_in_the_wheel() -> None:
    """A checkout hides what a wheel lacks: each file must match a pattern of its package."""
    root = Path(__file__).parents[3]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folders = {"fencepost.sim.scenarios": LIBRARY.parent} | {
        f"fencepost.sim.systems.{system.folder.name}": system.folder for system in SYSTEMS.values()
    }
    files = [
        (package, file.relative_to(folder))
        for package, folder in folders.items()
        for file in folder.rglob("*.toml")
    ]
    assert len(files) > 20
    for package, file in files:
        allowed = [*patterns["*"], *patterns.get(package, ())]
        assert any(fnmatch.fnmatch(str(file), pattern) for pattern in allowed), (package, file)
