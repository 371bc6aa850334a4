"""From the settings of one run to the simulator's set-up."""

import json
from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

from fencepost.sim.des.client import ClientModel
from fencepost.sim.des.faults import Faults
from fencepost.sim.des.latency import Constant, Empirical, Latency, Lognormal, Profile
from fencepost.sim.des.server import StoreModel
from fencepost.sim.des.setup import Setup, Workload
from fencepost.sim.scenarios.errors import BadScenario
from fencepost.sim.scenarios.keys import KEYS
from fencepost.sim.scenarios.scenario import Point, Scenario

FORMAT = "fencepost-latency/1"
SECONDS_IN_HOUR = 3600


def build(scenario: Scenario, point: Point, *, seed: int | None = None) -> Setup:
    """Every run of a sweep has the same seed, so that what differs is what was swept."""

    def get(key: str) -> Any:
        return point.settings.get(key, KEYS[key].default)

    def inner(table: str) -> dict[str, Any]:
        head = f"{table}."
        return {key.removeprefix(head): v for key, v in point.settings.items() if key.startswith(head)}

    crashes = get("faults.crash")
    return Setup(
        workload=Workload(
            system=get("workload.system"),
            writers=get("workload.writers"),
            tables=get("workload.tables"),
            rows=get("workload.rows"),
            depth=get("workload.depth"),
            arrival=get("workload.arrival"),
            rate=get("workload.rate") or 0.0,
            think_ns=get("workload.think"),
            operations=get("workload.operations"),
            duration_ns=get("workload.duration"),
            compute_ns=get("workload.compute"),
            window_ns=get("workload.window"),
            attempts=get("workload.attempts"),
            size=get("workload.bytes"),
            follow_up=get("workload.follow_up"),
            path=scenario.path,
            counters=inner("workload.counters"),
            parameters=inner("workload.parameters"),
            maintenance=inner("workload.maintenance"),
        ),
        store=StoreModel(
            latency=profile(get("store.latency"), get("store.bandwidth"), scenario.folder),
            in_flight=get("store.in_flight"),
            writes_per_prefix=get("store.writes_per_prefix"),
            reads_per_prefix=get("store.reads_per_prefix"),
            prefix_segments=get("store.prefix_segments"),
            writes_per_key=get("store.writes_per_key"),
        ),
        client=ClientModel(
            in_flight=get("client.in_flight"),
            timeout_ns=get("client.timeout"),
            attempts=get("client.attempts"),
            pause_ns=get("client.pause"),
            pause_max_ns=get("client.pause_max"),
        ),
        faults=Faults(
            reply_lost=get("faults.reply_lost"),
            request_lost=get("faults.request_lost"),
            late=get("faults.late"),
            late_by_ns=get("faults.late_by"),
            conflict=get("faults.conflict"),
            throttled=get("faults.throttled"),
            crashes_per_hour=crashes * SECONDS_IN_HOUR if crashes else 0.0,
            restart_ns=get("faults.restart"),
            skew_ns=get("faults.skew"),
        ),
        seed=scenario.seed if seed is None else seed,
    )


def profile(given: Mapping[str, Any], bandwidth: float | None, folder: str) -> Profile:
    """What the keys `latency` and `bandwidth` say."""
    byte_ns = 1e9 / bandwidth if bandwidth else 0.0
    if "profile" in given:
        return measured(File(folder) / given["profile"], byte_ns)
    kinds = {kind: _latency(value) for kind, value in given.items()}
    return Profile(default=kinds.pop("default"), kinds=kinds, byte_ns=byte_ns)


def _latency(given: Any) -> Latency:
    if isinstance(given, int):
        return Constant(given)
    return Lognormal(given["p50"], given["p99"])


def measured(file: File, byte_ns: float = 0.0) -> Profile:
    """The profile that `fencepost probe --profile FILE` wrote."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadScenario(f"{file}: the latency profile cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadScenario(
            f"{file}: is not JSON; write it with `fencepost probe URL --profile {file.name}`"
        ) from None
    return profile_of(found, str(file), byte_ns)


def profile_of(found: Any, name: str, byte_ns: float = 0.0) -> Profile:
    """A measured profile as the simulator wants it: small requests' quantiles, and what a byte adds."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadScenario(
            f"{name}: is no latency profile ({FORMAT}); write one with `fencepost probe URL --profile FILE`"
        )
    kinds: dict[str, Latency] = {}
    per_byte: dict[str, float] = {}
    try:
        for kind, entries in found["operations"].items():
            ordered = sorted(entries, key=lambda entry: entry["bytes"])
            small, large = ordered[0], ordered[-1]
            kinds[kind] = Empirical(tuple(1e6 * float(value) for value in small["quantiles"]))
            grown = large["bytes"] - small["bytes"]
            per_byte[kind] = max(0.0, 1e6 * (large["p50"] - small["p50"]) / grown) if grown else byte_ns
        if not all(
            len(latency.quantiles_ns) > 1 for latency in kinds.values() if isinstance(latency, Empirical)
        ):
            raise ValueError
        default = kinds["put"]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise BadScenario(
            f"{name}: the latency profile is damaged; write it again with `fencepost probe`"
        ) from None
    return Profile(default=default, kinds=kinds, byte_ns=byte_ns, kinds_byte_ns=per_byte)
