"""Prediction against reality: a workload simulated with a measured profile, and the same done for real.

    python -m bench.prediction [--latency 50ms] [--cap 8] [--rounds 3]

moto's HTTP server runs in a process of its own, with `fencepost proxy` before it, which adds the latency and
the cap on requests in flight. For every workload, `fencepost probe` measures the latency profile
through the proxy, before and after the operations are done there with threads and a real clock. Then the
same operations are simulated with both profiles as one, and that cap. (A machine
that others use changes its pace: a profile from before alone would blame the model.) Bar: the medians of the
errors, of the median latency and of throughput, within 15 %.

Three workloads: one writer that publishes one plan after another; sixteen that share a handle; two
collectors that accept batches, each with a thread that follows up. The cost of an operation in this process
is measured on memory, without any latency; the simulator cannot know it. The machine must have cores to
spare: what waits for a core is in the measured run and in no model. (On two cores, which client, proxy and
moto share, four collectors wait for a core already: 10 to 30 % slower than predicted.)
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3  # noqa: TID251 - makes the bucket, behind the store's back
import numpy as np

from bench.loop import Act, for_turns
from bench.report import median, write
from fencepost.impl.ingest import Accepted, Authority, Identity, Settings, encode
from fencepost.impl.publish import Catalog, Draft, GroupCommit
from fencepost.impl.store import Store, open_store
from fencepost.impl.store.memory import MemoryStore
from fencepost.sim.des import Setup, StoreModel, Workload, simulate
from fencepost.sim.scenarios.running import profile_of
from fencepost.sim.systems.ingest.workload import padding

BAR = 0.15
MOTO = Path(__file__).parent.parent / "tests" / "servers" / "moto_main.py"
WORKLOADS = (("publish", 1, 30), ("group", 16, 320), ("ingest", 2, 100))
"""System, writers, operations."""
BATCH_BYTES = 4096
ROWS = {"id": "int64", "n": "int64"}


@contextlib.contextmanager
def server() -> Iterator[str]:
    """moto, every request atomic; its address."""
    with subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(MOTO), "honest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


@contextlib.contextmanager
def proxy(upstream: str, latency: str, cap: int) -> Iterator[str]:
    """`fencepost proxy` before it; its address."""
    words = ["proxy", upstream, "--latency", latency, "--cap", str(cap)]
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "fencepost", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0]
        process.terminate()


def measured_profile(url: str) -> dict[str, Any]:
    """Return the profile that `fencepost probe --profile` writes."""
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/profile.json"
        words = ["probe", url, "--quick", "--only", "create-only-put", "--profile", target]
        words = [sys.executable, "-m", "fencepost", *words]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
        return dict(json.loads(Path(target).read_text()))


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two profiles as one: what half of their samples each would give."""
    operations = {
        kind: [
            {
                **left,
                "quantiles": [
                    float(q) for q in np.percentile(left["quantiles"] + right["quantiles"], range(101))
                ],
            }
            for left, right in zip(entries, other["operations"][kind], strict=True)
        ]
        for kind, entries in one["operations"].items()
    }
    return {**one, "operations": operations}


def real(store: Store, system: str, writers: int, operations: int) -> dict[str, float]:
    """The workload with threads: median latency and throughput."""
    with accepting(store, writers) if system == "ingest" else publishing(store, system) as act:
        laps = for_turns(act, writers, operations // writers)
    return {"p50_ms": round(laps.p50_ms, 2), "throughput": round(laps.per_second, 2)}


@contextlib.contextmanager
def publishing(store: Store, system: str) -> Iterator[Act]:
    catalog = Catalog.open(store, author="bench", create=True)
    with catalog.transaction() as txn:
        txn.create_table("t0", ROWS, key="id")
        txn.append("t0", [{"id": -1, "n": 0}])
    publish = GroupCommit(catalog).publish if system == "group" else catalog.publish

    def act(number: int, turn: int) -> None:
        draft = Draft() if system == "group" else catalog.draft()
        draft.append("t0", [{"id": number * 1_000_000 + turn, "n": 0}])
        publish(draft)

    yield act


@contextlib.contextmanager
def accepting(store: Store, writers: int) -> Iterator[Act]:
    """Collectors of their own, and behind each a thread that does what is left of its batches."""
    collectors = [Authority(store, store.env, f"writer-{number}", Settings()) for number in range(writers)]
    points = padding(BATCH_BYTES)
    with contextlib.ExitStack() as followers:
        behind = [followers.enter_context(ThreadPoolExecutor(1)) for _ in collectors]

        def act(number: int, turn: int) -> None:
            identity = Identity(f"agent-{number}", "boot-1", turn, turn)
            ended = collectors[number].accept(identity, encode(identity, points, compress=False))
            assert isinstance(ended, Accepted)
            behind[number].submit(collectors[number].follow_up, ended.manifest)

        yield act


def predicted(
    profile: dict[str, Any], cap: int, system: str, writers: int, operations: int
) -> dict[str, float]:
    alone = "ingest" if system == "ingest" else "publish"
    compute_ms = real(MemoryStore(), alone, 1, 100)["p50_ms"]
    workload = Workload(
        system, writers=writers, operations=operations, compute_ns=round(compute_ms * 1e6), size=BATCH_BYTES
    )
    found = simulate(Setup(workload, StoreModel(profile_of(profile, "the probe's"), in_flight=cap)))
    name = "accept" if system == "ingest" else "publish"
    return {"p50_ms": found.operations[name].p50, "throughput": found.throughput}


def round_of(url: str, number: int, cap: int) -> list[dict[str, Any]]:
    before = measured_profile(url)
    rows = []
    for system, writers, operations in WORKLOADS:
        with open_store(url.replace("?", f"/round-{number}-{system}?")) as store:
            seen = real(store, system, writers, operations)
        after = measured_profile(url)
        model = predicted(both(before, after), cap, system, writers, operations)
        before = after
        errors = {name: round(model[name] / seen[name] - 1, 3) for name in seen}
        rows.append(
            {"system": system, "writers": writers, "predicted": model, "measured": seen, "error": errors}
        )
        sys.stdout.write(
            f"{system:8} {writers:>2} writers  "
            + "  ".join(
                f"{name} {model[name]:.4g} predicted, {seen[name]:.4g} measured, {errors[name]:+.1%}"
                for name in seen
            )
            + "\n"
        )
        sys.stdout.flush()
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.prediction", description=__doc__.splitlines()[0])
    parser.add_argument("--latency", default="50ms")
    parser.add_argument("--cap", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    os.environ.update(dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "bench"))
    with server() as upstream, proxy(upstream, options.latency, options.cap) as address:
        boto3.client("s3", endpoint_url=upstream, region_name="us-east-1").create_bucket(Bucket="bench")
        url = f"s3://bench/x?endpoint={address}&region=us-east-1"
        rounds = [round_of(url, number, options.cap) for number in range(options.rounds)]
    bars = []
    for rows in zip(*rounds, strict=True):
        for name in ("p50_ms", "throughput"):
            error = median([row["error"][name] for row in rows])
            bars.append({"name": f"{rows[0]['system']}, {name}", "error": error, "ok": abs(error) <= BAR})
            sys.stdout.write(f"{'ok' if bars[-1]['ok'] else 'MISSED':7} {bars[-1]['name']}: {error:+.1%}\n")
    figures = {"latency": options.latency, "cap": options.cap, "bar": BAR, "rounds": rounds, "bars": bars}
    sys.stdout.write(f"written to {write('prediction', figures)}\n")
    return 0 if all(bar["ok"] for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
