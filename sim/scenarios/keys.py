"""Every key of a scenario, what it takes and what it means: the loader and `--sweep` read this table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.sim.des.simulate import WORKLOADS
from fencepost.sim.scenarios import units
from fencepost.sim.scenarios.source import BadValue

PRICES = {
    kind: price / 1000
    for kind, price in {
        "put": 0.005,
        "get": 0.0004,
        "head": 0.0004,
        "delete": 0.0,
        "list": 0.005,
        "list-versions": 0.005,
        "create-upload": 0.005,
        "upload-part": 0.005,
        "complete-upload": 0.005,
        "abort-upload": 0.0,
        "list-uploads": 0.005,
    }.items()
}
"""By kind of request. S3 Standard in us-east-1, dollars a request; deletes and aborts are free there."""


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its parser, its value when it is not given, and one line on it."""

    parse: Callable[[Any], Any]
    default: Any
    says: str


def _latency_at(value: Any) -> Any:
    """A constant, or two percentiles; a profile is found by the loader, which knows the folder."""
    if not isinstance(value, dict):
        return units.duration(value)
    if set(value) == {"p50", "p99"}:
        p50, p99 = units.positive_duration(value["p50"]), units.positive_duration(value["p99"])
        if p99 < p50:
            raise BadValue(f"p99 ({value['p99']}) is below p50 ({value['p50']}), which is impossible")
        return {"p50": p50, "p99": p99}
    raise BadValue(
        f'{units.shown(value)} is no latency; write "20 ms", {{ p50 = "15 ms", p99 = "60 ms" }} or '
        '{ profile = "FILE" }'
    )


def latency(value: Any) -> Any:
    """One for all kinds, or a table of kinds with a default."""
    if isinstance(value, dict) and set(value) == {"profile"}:
        return {"profile": units.text(value["profile"])}
    if not isinstance(value, dict) or set(value) & {"p50", "p99"}:
        return {"default": _latency_at(value)}
    unknown = sorted(set(value) - {"default", *PRICES})
    if unknown:
        raise BadValue(f"no request is of kind {unknown[0]!r}; there are default, {', '.join(PRICES)}")
    if "default" not in value:
        raise BadValue("a table of latencies needs a default beside its kinds")
    return {kind: _latency_at(given) for kind, given in value.items()}


KEYS: dict[str, Key] = {
    "store.latency": Key(
        latency,
        {"default": 20_000_000},
        'there and back: "20 ms", { p50, p99 }, a table by kind, or { profile = "FILE" }',
    ),
    "store.bandwidth": Key(units.unlimited_or(units.bandwidth), None, "bytes a second of one request"),
    "store.in_flight": Key(
        units.unlimited_or(units.positive),
        None,
        "requests the store serves at once, of all clients; the others wait in order of arrival",
    ),
    "store.writes_per_prefix": Key(units.unlimited_or(units.rate), None, "then 503; S3: 3500/s"),
    "store.reads_per_prefix": Key(units.unlimited_or(units.rate), None, "then 503; S3: 5500/s"),
    "store.prefix_segments": Key(units.positive, 1, "parts of a key that make its prefix"),
    "store.writes_per_key": Key(units.unlimited_or(units.rate), None, "then 503; R2, GCS: 1/s"),
    "client.in_flight": Key(
        units.unlimited_or(units.positive),
        None,
        "requests one client has under way; the next waits in the client, and that is in its latency",
    ),
    "client.timeout": Key(
        units.positive_duration,
        None,
        "after which an outcome is unknown; without it, 60 s for lost answers only",
    ),
    "client.attempts": Key(units.positive, 1, "of a request that may be asked again"),
    "client.pause": Key(units.duration, 50_000_000, "before the second attempt; doubles"),
    "client.pause_max": Key(units.duration, 5_000_000_000, "the longest pause"),
    "workload.system": Key(units.one_of(*WORKLOADS), None, f"one of {', '.join(WORKLOADS)}"),
    "workload.path": Key(
        units.text, None, "of a described system: a file beside the scenario, or one that is shipped"
    ),
    "workload.operation": Key(
        units.text, None, "of the described path: one of its `[operations]`, or its first when not given"
    ),
    "workload.writers": Key(units.up_to(100_000), 1, "at once"),
    "workload.tables": Key(units.up_to(10_000), 1, "an operation draws one"),
    "workload.rows": Key(units.up_to(1_000_000), 1, "in one operation"),
    "workload.depth": Key(units.whole, 0, "operations before the run"),
    "workload.arrival": Key(units.one_of("closed", "poisson"), "closed", "closed or poisson"),
    "workload.rate": Key(units.rate, None, "of arrivals (poisson)"),
    "workload.think": Key(units.duration, 0, "between a writer's operations (closed)"),
    "workload.operations": Key(units.up_to(100_000_000), None, "how many in all"),
    "workload.duration": Key(units.positive_duration, None, "for how long operations begin"),
    "workload.compute": Key(units.duration, 0, "of the writer, in every operation"),
    "workload.window": Key(units.duration, 0, "a group waits for others so long"),
    "workload.bytes": Key(units.size, 4096, "of what an operation brings"),
    "workload.follow_up": Key(
        units.flag, True, "work after an operation is done at once; else maintenance does it"
    ),
    "workload.attempts": Key(units.positive, 5, "of an operation when others were first"),
    "faults.reply_lost": Key(units.share, 0.0, "answers that never come"),
    "faults.request_lost": Key(units.share, 0.0, "requests that never land"),
    "faults.late": Key(units.share, 0.0, "writes that land after their sender gave up"),
    "faults.late_by": Key(units.positive_duration, 30_000_000_000, "... by so much, in the mean"),
    "faults.conflict": Key(units.share, 0.0, "conditional writes that are answered 409"),
    "faults.throttled": Key(units.share, 0.0, "requests that are answered 503"),
    "faults.crash": Key(units.rate, None, "of each writer"),
    "faults.restart": Key(units.positive_duration, 5_000_000_000, "after a crash"),
    "faults.skew": Key(units.duration, 0, "of clocks, standard deviation"),
}
OPEN_TABLES = {
    "workload.counters": units.number,
    "workload.parameters": units.number,
    "workload.maintenance": units.pace,
}
"""Tables whose keys the described path names."""
