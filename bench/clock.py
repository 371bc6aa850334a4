"""What a simulated request costs beside a bare SimPy event, and a sweep on both cores.

    python -m bench.clock [--requests 60000] [--rounds 5] [--sweep]

Bare: one SimPy process that yields `timeout` again and again. Simulated: writers that put and get objects
through the simulated store, with queues, limits, latencies drawn, the bucket's semantics and the meter. Both
in this process, turn by turn, so that a busy machine disturbs both alike; the medians are compared. Bar: at
most 30 times a bare event; aim: 15.

`--sweep` runs 100 runs of 1,000 operations with one process and with one a core, with the command's own bar.
"""

import argparse
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import simpy

from bench.report import median, write
from holdfast.impl.store.requests import ANYTHING, Get, Put
from holdfast.sim.des import (
    Client,
    ClientModel,
    Constant,
    Engine,
    Lognormal,
    Profile,
    Server,
    SimulatedEnvironment,
    StoreModel,
)
from holdfast.sim.des.meter import Operation

BAR, AIM = 30, 15
MS = 1_000_000
WRITERS = 32
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
    began = time.perf_counter()
    env.run()
    return (time.perf_counter() - began) / count


def simulated_s(count: int, store: StoreModel, client: ClientModel) -> float:
    """Seconds for one simulated request: half of them puts, half gets of what was put."""
    engine = Engine()
    server = Server(engine, store)
    env = SimulatedEnvironment(engine)
    pairs = count // WRITERS // 2

    def work(number: int) -> None:
        mine = Client(server, f"writer-{number}", client, env)
        actor = engine.current
        assert actor is not None
        for turn in range(pairs):
            key = f"k/{number}/{turn % 50}"
            operation = actor.operation = Operation("pair", engine.now_ns)
            mine.send(Put(key, BODY, ANYTHING))
            mine.send(Get(key))
            engine.meter.done(operation, engine.now_ns)

    for number in range(WRITERS):
        engine.spawn(f"writer-{number}", lambda number=number: work(number))  # type: ignore[misc]
    began = time.perf_counter()
    engine.run()
    seconds = time.perf_counter() - began
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
    from holdfast.commands.entry import group, run
    from holdfast.sim.scenarios.running import cores

    seconds: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        file = Path(folder, "sweep.toml")
        file.write_text(SWEEP % ", ".join(str(n) for n in range(1, 101)))
        for jobs in (1, cores()):
            words = ["simulate", str(file), "--jobs", str(jobs), "--json", str(Path(folder, f"{jobs}.json"))]
            began = time.perf_counter()
            assert run(lambda words=words: group.main(words, standalone_mode=False)) == 0  # type: ignore[misc]
            seconds[f"{jobs} jobs"] = round(time.perf_counter() - began, 1)
    first, last = seconds.values() if len(seconds) > 1 else (1.0, 1.0)
    return {"runs": 100, "operations": 1000, "seconds": seconds, "speed_up": round(first / last, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sweep", action="store_true", help="Run 100 runs of 1,000 operations as well.")
    options = parser.parse_args()
    figures = requests(options.requests, options.rounds)
    worst = max(row["times_a_bare_event"] for row in figures["kinds"].values())
    figures |= {"bar": BAR, "aim": AIM, "worst": worst, "ok": worst <= BAR}
    if options.sweep:
        figures["sweep"] = sweep()
    path = write("clock", figures)
    sys.stdout.write(path.read_text())
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
