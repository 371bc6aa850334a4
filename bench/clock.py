"""Measure a simulated request beside a bare SimPy event, and a sweep on both cores.

    python -m bench.clock [--requests 60000] [--rounds 5] [--sweep] [--reality]

Bare: one SimPy process that yields `timeout` again and again. Simulated: writers that put and get objects
through the simulated store, with queues, limits, latencies drawn, the bucket's semantics and the meter. Both
in this process, turn by turn, in processor time, so that a busy machine disturbs neither; the medians are
compared. Bar: at most 30 times a bare event; aim: 15.

`--sweep` runs 100 runs of 1,000 operations with one process and with one a core, with the command's own bar.
`--reality` measures the latency of a store that is 20 ms away with 8 places, predicts publishes on it, and
then does them with threads and a real clock: medians and throughput side by side.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import simpy

from bench.prediction import real as done
from bench.report import median, write
from fencepost.impl.store.layers import Throttled
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING, Delete, Get, Put
from fencepost.sim.des import (
    Client,
    ClientModel,
    Constant,
    Empirical,
    Engine,
    Lognormal,
    Profile,
    Server,
    Setup,
    SimulatedEnvironment,
    StoreModel,
    Workload,
    simulate,
)
from fencepost.sim.des.meter import Operation

BAR, AIM = 30, 15
MS = 1_000_000
WRITERS = 32
KEYS = 50
BODY = b"x" * 1000

FAR = Profile(Lognormal(20 * MS, 80 * MS))
KINDS: dict[str, tuple[StoreModel, ClientModel]] = {
    "constant latency": (StoreModel(Profile(Constant(20 * MS))), ClientModel()),
    "lognormal latency, caps and queues": (StoreModel(FAR, in_flight=16), ClientModel(in_flight=4)),
    "... and rates by prefix": (
        StoreModel(FAR, in_flight=16, writes_per_prefix=3500.0, reads_per_prefix=5500.0),
        ClientModel(in_flight=4),
    ),
}


def bare_s(count: int) -> float:
    """Seconds for one bare event."""
    env = simpy.Environment()

    def process() -> Any:
        for _ in range(count):
            yield env.timeout(1)

    env.process(process())
    began = time.process_time()
    env.run()
    return (time.process_time() - began) / count


def simulated_s(count: int, store: StoreModel, client: ClientModel) -> float:
    """Seconds for one simulated request: half of them puts, half gets of what was put.

    The requests are made beforehand: making them is the work of the sender.
    """
    engine = Engine()
    server = Server(engine, store)
    env = SimulatedEnvironment(engine)
    pairs = count // WRITERS // 2
    asked_of = [
        [(Put(f"k/{number}/{turn}", BODY, ANYTHING), Get(f"k/{number}/{turn}")) for turn in range(KEYS)]
        for number in range(WRITERS)
    ]

    def work(number: int) -> None:
        own, mine = Client(server, f"writer-{number}", client, env), asked_of[number]
        actor = engine.current
        assert actor is not None
        for turn in range(pairs):
            put, get = mine[turn % KEYS]
            operation = actor.operation = Operation("pair", engine.now_ns)
            own.send(put)
            own.send(get)
            engine.meter.done(operation, engine.now_ns)

    for number in range(WRITERS):
        engine.spawn(f"writer-{number}", partial(work, number))
    began = time.process_time()
    engine.run()
    seconds = time.process_time() - began
    asked = sum(server.requests.values()) + sum(
        n for (_, what), n in server.outcomes.items() if what == "throttled"
    )
    assert asked == 2 * pairs * WRITERS
    return seconds / asked


def requests(count: int, rounds: int) -> dict[str, Any]:
    rows: dict[str, list[float]] = {name: [] for name in KINDS}
    bare: list[float] = []
    for _ in range(rounds):
        bare.append(bare_s(count))
        for name, (store, client) in KINDS.items():
            rows[name].append(simulated_s(count, store, client))
    event = median(bare)
    return {
        "bare_events_per_second": round(1 / event),
        "kinds": {
            name: {
                "requests_per_second": round(1 / median(row)),
                "times_a_bare_event": round(median(row) / event, 1),
            }
            for name, row in rows.items()
        },
    }


SWEEP = """title = "A hundred runs"
about = "For the benchmark."
[store]
latency = { p50 = "20 ms", p99 = "80 ms" }
[client]
in_flight = 8
[workload]
system = "ingest"
writers = 8
operations = 1000
follow_up = false
[sweep]
"store.in_flight" = [%s]
"""


def sweep() -> dict[str, Any]:
    """100 runs of 1,000 operations, as the command runs them."""
    from fencepost.commands.entry import group, run
    from fencepost.sim.scenarios.running import cores

    seconds: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        file = Path(folder, "sweep.toml")
        file.write_text(SWEEP % ", ".join(str(n) for n in range(1, 101)))
        for jobs in (1, cores()):
            words = ["simulate", str(file), "--jobs", str(jobs), "--json", str(Path(folder, f"{jobs}.json"))]
            began = time.perf_counter()
            assert run(partial(group.main, words, standalone_mode=False)) == 0
            seconds[f"{jobs} jobs"] = round(time.perf_counter() - began, 1)
    first, last = seconds.values() if len(seconds) > 1 else (1.0, 1.0)
    return {"runs": 100, "operations": 1000, "seconds": seconds, "speed_up": round(first / last, 2)}


def reality() -> dict[str, Any]:
    """Prediction and reality, for one writer and for sixteen in a group."""
    compute_ns = round(1e9 * real("publish", 1, 200, latency_s=0.0)["p50_ms"] / 1000)
    rows = {}
    for system, writers, operations in (("publish", 1, 40), ("group", 16, 400)):
        workload = Workload(system, writers=writers, operations=operations, compute_ns=compute_ns)
        store = StoreModel(far_profile(), in_flight=8)
        found = simulate(Setup(workload, store))
        predicted = {"p50_ms": found.operations["publish"].p50, "throughput": found.throughput}
        measured = real(system, writers, operations, latency_s=0.02)
        errors = {name: round(predicted[name] / measured[name] - 1, 3) for name in measured}
        rows[f"{system}, {writers} writers"] = {"predicted": predicted, "measured": measured, "error": errors}
    return rows


def far_profile() -> Profile:
    """Return the latencies that one client alone measures, by kind of request."""
    store = Throttled(MemoryStore(), latency_s=0.02, in_flight_max=8)
    samples: dict[str, list[float]] = {"put": [], "get": [], "delete": []}
    for turn in range(60):
        for request in (Put(f"k{turn}", BODY, ANYTHING), Get(f"k{turn}"), Delete(f"k{turn}", ANYTHING)):
            began = time.perf_counter()
            store.send(request)
            samples[request.kind].append(1e9 * (time.perf_counter() - began))
    store.close()
    kinds = {kind: Empirical(tuple(np.percentile(found, range(101)))) for kind, found in samples.items()}
    return Profile(kinds["put"], dict(kinds))


def real(system: str, writers: int, operations: int, *, latency_s: float) -> dict[str, float]:
    """The same publishes with threads, on memory behind a latency and a cap."""
    with Throttled(MemoryStore(), latency_s=latency_s, in_flight_max=8) as store:
        return done(store, system, writers, operations)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", action="store_true", help="Run 100 runs of 1,000 operations as well.")
    parser.add_argument("--reality", action="store_true", help="Predict publishes, then do them.")
    options = parser.parse_args()
    figures = requests(options.requests, options.rounds)
    worst = max(row["times_a_bare_event"] for row in figures["kinds"].values())
    figures |= {"bar": BAR, "aim": AIM, "worst": worst, "ok": worst <= BAR}
    if options.sweep:
        figures["sweep"] = sweep()
    if options.reality:
        figures["reality"] = reality()
    path = write("clock", figures)
    sys.stdout.write(path.read_text())
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
