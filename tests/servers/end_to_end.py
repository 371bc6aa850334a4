"""The five systems run for real, with several processes and kills, recorded, for a replay by their models.

Each function runs one system, as shipped or with a planted mutant, and returns the folder of its traces.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects.change_log import ChangeLog
from fencepost.impl.publish import Catalog
from fencepost.impl.store import open_store

from .fleet import Fleet, chaos, free_ports, running
from .ingest_fleet import fleet, run_agents, send_conflict
from .lifecycle_kills import User, Workers
from .mutated import command
from .processes import objects_process
from .streams_fleet import nodes
from .streams_kills import Client, together

ROOT = Path(__file__).parent.parent.parent
ENV = SystemEnvironment()
SECONDS_MAX = 300
WRITES_A_LIFE = 8
"""Writes that are answered before the object server is killed again."""
HORIZON_S = 6
"""For which a collector relies on a blob."""


@dataclass(frozen=True)
class Planted:
    """A mutant, and the rejection that it must cause."""

    mutant: str
    event: str
    """A pattern of the event at which a run is rejected."""
    reason: str
    """A pattern of the reason."""
    tries: int = 1
    """Runs in which it may happen, where it takes a race."""

    def is_found(self, violations: list[dict[str, Any]]) -> bool:
        return any(
            re.search(self.event, one["event"]) and re.search(self.reason, one["reason"])
            for one in violations
        )


@dataclass(frozen=True)
class System:
    """One system: its run, the words of `fencepost replay` for its traces, and its planted mutants."""

    run: Callable[[Path, str], Path]
    words: tuple[str, ...]
    planted: tuple[Planted, ...]


# Publish: two writers of one catalog.


def publish(folder: Path, mutant: str) -> Path:
    """Two writers: killed and started again; one is stopped while the other opens the catalog."""
    url, traces = f"file://{folder}/shop", folder / "traces"
    with (
        Catalog.open(open_store(url), author="setup", create=True) as catalog,
        catalog.transaction("x") as txn,
    ):
        txn.create_table("person", {"id": "int64", "name": "string"}, key="id")
        txn.create_table("knows", {"id": "int64", "a": "int64"}, key="id", edges={"a": "person"})

    def begun(name: str, pause: str = "0.3") -> "subprocess.Popen[str]":
        words = [*command("tests.servers.publish_agent", mutant), url, str(traces), name, pause]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)

    def commits(name: str, count: int) -> bool:
        stdout = writers[name].stdout
        assert stdout is not None
        return all(stdout.readline() for _ in range(count))

    def restart(name: str, pause: str) -> None:
        writers[name].kill()
        writers[name].communicate()
        writers[name] = begun(name, pause)

    def plans() -> set[Path]:
        sidecars = folder / "shop" / "recovery"
        return set(sidecars.iterdir()) if sidecars.is_dir() else set()

    writers = {"ann": begun("ann")}
    try:
        commits("ann", 1)  # the numbers of a run count from its first plan: no other is based on earlier ones
        writers["bob"] = begun("bob")
        for name in ("ann", "bob", "ann"):  # each may leave a plan under way, and the model has room for six
            if not commits(name, 3):
                assert mutant, "the writer has ended by itself"
                break
            restart(name, "0" if name == "ann" else "0.3")
        for _ in range(
            10 if mutant else 3
        ):  # one is stopped when it has written its plan, and the other opens the catalog
            commits("ann", 1)
            writers["bob"].kill()
            before = plans()
            for _ in range(2000):
                if plans() - before:
                    break
                ENV.sleep(0.0005)
            writers["ann"].send_signal(signal.SIGSTOP)
            # It may hold the lock of a key, for which the other waits.
            go_on = threading.Timer(4.0, writers["ann"].send_signal, (signal.SIGCONT,))
            go_on.start()
            restart("bob", "0.3")
            commits("bob", 1)
            writers["bob"].kill()
            go_on.cancel()
            writers["ann"].send_signal(signal.SIGCONT)
    finally:
        for writer in writers.values():
            writer.kill()
            writer.communicate()
    return traces


# Ingest: two collectors, three agents, and one with a copied disk; what works behind them.


def ingest(folder: Path, mutant: str) -> Path:
    url, traces = f"file://{folder}/store", folder / "traces"
    every = (
        "--record",
        str(traces),
        "--horizon",
        str(HORIZON_S),
        "--landing-bound",
        "0",
        "--skew-bound",
        "0",
    )
    with fleet(url, folder, 2, *every, mutant=mutant) as made:
        counts = {f"agent-{at}": 10 for at in range(3)}
        with chaos(made, seed=7, pause_s=(0.2, 0.8)):
            summaries = run_agents(made, counts, seconds_max=SECONDS_MAX)
        send, *_ = send_conflict(made, summaries[0])
        subprocess.run([*command("fencepost"), "ingest", *send], check=False, capture_output=True, timeout=90)
    ENV.sleep(2 * HORIZON_S)  # until blobs are old
    for name in ("reconcile", "audit", "gc"):
        subprocess.run(
            [*command("fencepost", mutant), "ingest", name, "--store", url, *every],
            check=False,
            capture_output=True,
            timeout=SECONDS_MAX,
        )
    return traces


# Lifecycle: two workers of a directory that an object server serves, and a user.


def lifecycle(folder: Path, mutant: str) -> Path:
    from tests.impl.objects.serving import client

    from .test_lifecycle import FAST, PLAIN, make

    traces, directory = folder / "traces", folder / "data"
    with objects_process(directory, 1) as (_, address), _recording(traces):
        made = make(client(address), PLAIN)
        user = User(seed=3)
        made.seen = made.read()
        with Workers(directory, 2, 3, mutant) as workers:
            while workers.kills < 8 and not workers.failed:
                if mutant:
                    made.seen = None  # what vanishes may be early
                user.turn(made)
        assert mutant or not workers.failed, workers.failed
        # The log loses its beginning, and an operator has events drive the actions again.
        ChangeLog(str(directory), ENV).begin(ENV.now_ns())
        for words in (("run", "--once"), ("reseed", "--ack-lost-log", "--reason", "x"), ("run", "--once")):
            done = subprocess.run(
                [*command("fencepost", mutant), "lifecycle", words[0], str(directory), *words[1:], *FAST],
                check=False,
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
            )
            assert mutant or done.returncode == 0, done.stderr
    return traces


@contextlib.contextmanager
def _recording(traces: Path) -> Iterator[None]:
    os.environ["FENCEPOST_RECORD"] = str(traces)
    try:
        yield
    finally:
        del os.environ["FENCEPOST_RECORD"]


# Streams: two nodes of one prefix.


class _Short(random.Random):
    """Makes streams of four appends, mostly with new names: the model has no room for more segments and lives
    of one name.
    """

    def random(self) -> float:
        return super().random() * 0.6

    def randint(self, a: int, b: int) -> int:
        return min(super().randint(a, b), 4)


def streams(folder: Path, mutant: str) -> Path:
    traces = folder / "traces"
    options = ["--landing", "1", "--skew", "0.1", "--sweep-every", "0.3", "--record", str(traces)]
    done = threading.Event()
    url = f"file://{folder}/data"
    (folder / "data").mkdir()
    with nodes(url, folder, 2, *options, mutant=mutant) as made:
        clients = [Client(made, f"s{at}", _Short(at), done) for at in range(3)]

        def kill() -> None:
            for number in range(
                12 if mutant else 4
            ):  # some mutants take a stream that is made anew at the right time
                done.wait(0.7)
                made.restart(number % 2, signal.SIGKILL)
            done.set()

        with contextlib.suppress(*((AssertionError,) if mutant else ())):  # clients notice some mutants
            together([kill, *(client.run for client in clients)], done)
    return traces


# Objects: a server of two processes, four clients, and the conditions they race with.


class _Server(Fleet):
    def words(self, at: int) -> list[str]:
        listen = f"127.0.0.1:{self.ports[at]}"
        return ["objects", "serve", self.url, "--listen", listen, "--workers", "2"]

    def restart(self, at: int, how: signal.Signals) -> None:
        """Try again while the workers of a server that was killed still have its directory and its port."""
        self.end(at, how)
        for _ in range(30):
            self.start(at)
            process = self.lives[at]
            assert process is not None
            assert process.stdout is not None
            if process.stdout.readline().startswith("listening on"):
                return
            process.wait(SECONDS_MAX)
            process.stdout.close()
            ENV.sleep(0.3)
        raise AssertionError(self.log(at))


def objects(folder: Path, mutant: str) -> Path:
    from tests.impl.objects.serving import ROOT_TOKEN

    os.environ["FENCEPOST_OBJECTS_ROOT_TOKEN"] = ROOT_TOKEN
    traces = folder / "traces"
    made = _Server(str(folder / "data"), folder, free_ports(1), ("--record", str(traces)), mutant)
    done = threading.Event()
    with running(made):
        clients = [_ObjectsClient(made.addresses[0], seed, done) for seed in range(4)]

        def kill() -> None:
            """Kill the server after so many more answered writes, however slow the machine is."""
            ends = ENV.monotonic_ns() + SECONDS_MAX * 10**9
            for number in range(4):
                done.wait(1.0)
                wanted = WRITES_A_LIFE * (number + 1)
                while sum(client.writes for client in clients) < wanted and not done.wait(0.05):
                    assert ENV.monotonic_ns() < ends, made.log(0)
                made.restart(0, signal.SIGTERM if number == 3 else signal.SIGKILL)
            done.set()

        together([kill, *(client.run for client in clients)], done)
        made.end(0, signal.SIGTERM)
        made.lives[0] = None
    return traces


class _ObjectsClient:
    """Writes a few keys with every kind of condition, and goes on while the server is away."""

    def __init__(self, address: str, seed: int, done: threading.Event) -> None:
        from tests.impl.objects.serving import client

        self._client, self._dice, self._done = client(address), random.Random(seed), done
        self.writes = 0
        """Writes of objects that were answered with success."""

    def run(self) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        number = 0
        while not self._done.is_set():
            number += 1
            with contextlib.suppress(ClientError, BotoCoreError):
                self._act(number)

    def _act(self, number: int) -> None:
        client, dice = self._client, self._dice
        place = {"Bucket": "shared", "Key": f"{dice.choice(('a', 'a/b', 'c'))}-{dice.randrange(3)}"}
        body = b"%d" % number * dice.choice((1, 1, 30_000))
        match dice.randrange(7):
            case 0:
                client.create_bucket(Bucket="shared")
            case 1 | 2:
                client.put_object(**place, Body=body, IfNoneMatch="*")
                self.writes += 1
            case 3:
                client.put_object(**place, Body=body)
                self.writes += 1
            case 4:
                etag = client.head_object(**place)["ETag"]
                client.put_object(**place, Body=body, IfMatch=etag)
                self.writes += 1
            case 5:
                client.delete_object(**place)
            case _:
                self._upload(place, body)
                self.writes += 1

    def _upload(self, place: dict[str, str], body: bytes) -> None:
        upload = {**place, "UploadId": self._client.create_multipart_upload(**place)["UploadId"]}
        etag = self._client.upload_part(**upload, PartNumber=1, Body=body)["ETag"]
        parts = {"Parts": [{"ETag": etag, "PartNumber": 1}]}
        self._client.complete_multipart_upload(**upload, MultipartUpload=parts)


WITHOUT_CONDITION = "written with condition anything"
SYSTEMS = {
    "publish": System(
        publish,
        ("--model", "publish"),
        (
            Planted("sidecar-before-heads", r"put table/", r"move_head.*at == \"heads\""),
            Planted("create-only-manifest", r"put branch/main/manifest/", "manifest"),
            Planted("grace-window", r"delete recovery/", r"recovery_retires", tries=8),
        ),
    ),
    "ingest": System(
        ingest,
        ("--model", "ingest"),
        (
            Planted("create-only-manifest", r"put accepted/", WITHOUT_CONDITION),
            Planted("compare-after-412", r"note outcome .*what=duplicate", r"replied\(.*s\.assured"),
            Planted("gc-quarantine-refs", r"delete raw-blobs/", r"deleted\("),
        ),
    ),
    "lifecycle": System(
        lifecycle,
        ("--model", "lifecycle", "--set", "whole=1"),
        (
            Planted("delay-back", r"put lifecycle/v1/cursors/", r"reach_is=more.*late=1"),
            Planted("walk-began", r"put lifecycle/v1/cursors/", r"reach_is=more.*late=1"),
            Planted("forced-reseed", r"put lifecycle/v1/buckets/", r"walk_ended|demoted|walk_began"),
        ),
    ),
    "streams": System(
        streams,
        ("--model", "streams", "--set", "places=10", "--set", "owners=10", "--set", "lives=4"),
        (
            Planted(
                "owner-fence",
                r"put streams/.*manifest\.json",
                f"nothing that the model ever does|{WITHOUT_CONDITION}",
            ),
            Planted("data-before-manifest", r"delete streams/.*manifest\.json", r"has_listed_data"),
            Planted("fresh-epoch", r"put streams/.*manifest\.json", r"swapped|created", tries=4),
        ),
    ),
    "objects": System(
        objects,
        ("--model", "objects"),
        (
            Planted("key-lock", r"note renamed shared/", r"at == \"locked\""),
            Planted("atomic-create", r"note renamed shared/", r"at == \"locked\""),
            Planted("directory-flush", r"note indexed shared/", r"at == \"flushed\""),
            Planted("event-after-publish", r"note indexed shared/", r"at == \"flushed\""),
        ),
    ),
}
"""By name. A stream of `streams` has as many lives, owners and segments as the sizes allow."""


def row(system: str, folder: Path, planted: Planted | None = None) -> dict[str, Any]:
    """Run a system below `folder`, replay its traces, and return the verdict with the figures of the run."""
    found: dict[str, Any] = {}
    for number in range(planted.tries if planted else 1):
        own = folder / f"run-{number}"
        own.mkdir()
        found = _row(system, own, planted)
        if found["as_expected"]:
            break
    return found


def _row(system: str, folder: Path, planted: Planted | None) -> dict[str, Any]:
    one, mutant = SYSTEMS[system], f"{system}/{planted.mutant}" if planted else ""
    traces = one.run(folder, mutant)
    found = _replayed(traces, folder, *one.words)
    continuity = found["continuity"]
    if not continuity["judged"]:  # the runs of this model are no objects
        continuity = _replayed(traces, folder)["continuity"]
    matching = [each for each in found["violations"] if planted and planted.is_found([each])]
    shown = (matching or found["violations"] or found["undecided_runs"] or [{}])[0]
    return {
        "system": system,
        "mutant": planted.mutant if planted else "",
        "verdict": found["verdict"],
        **{name: found[name] for name in ("runs", "accepted", "rejected", "undecided", "events")},
        "left_out": found["left_out"],
        "left_out_by": found["left_out_by"],
        "continuity": continuity["verdict"],
        "as_expected": bool(matching)
        if planted
        else (found["verdict"], continuity["verdict"]) == ("holds",) * 2,
        "event": shown.get("event", ""),
        "reason": shown.get("reason", ""),
        "traces": str(traces),
    }


def _replayed(traces: Path, folder: Path, *words: str) -> dict[str, Any]:
    file = folder / "replayed.json"
    subprocess.run(
        [*command("fencepost"), "replay", str(traces), *words, "--json", str(file)],
        check=False,
        capture_output=True,
        timeout=SECONDS_MAX,
    )
    result: dict[str, Any] = json.loads(file.read_text())
    return result
