"""Ingest end to end: real collectors that are killed, real agents, a real store; every batch once.

Four collectors, eight agents. Collectors are killed at random (some stopped) and come back at once. Then
what works behind them runs, and all is counted: acceptances, indexes, rollups, orphans, and one conflict,
from the agent that parks it to the operator who settles it.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.ingest import Authority, Identity, Manifest, keys, roll_up, totals
from fencepost.impl.store import Store, open_store
from tests.impl.ingest.given import batch
from tests.impl.objects.serving import client, secret

from .fleet import chaos
from .ingest_agent import METRIC, POINTS
from .ingest_fleet import AGENT, Collectors, command, fleet, run_agents, send_conflict
from .processes import objects_process

pytestmark = pytest.mark.server

ENV = SystemEnvironment()
COLLECTORS = 4
AGENTS = 8
ORPHANS = 20
DAY_NS = 24 * 3600 * 10**9

SMALL = 320
SOAK = int(os.environ.get("FENCEPOST_SOAK", "0"))
"""Number of batches of the long run; `nox -s soak` sets 4,000."""
PAUSES_S = {SMALL: (0.05, 0.4)}
"""Between one collector's end and the next."""


@pytest.mark.parametrize("where", ["file", "honest_moto_process", "seaweedfs"])
def test_every_batch_is_accepted_once_through_kills(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    _end_to_end(_url(where, request, tmp_path), tmp_path, SMALL)


@pytest.mark.parametrize("where", ["file", "seaweedfs"])
def test_unattended_everything_ends_in_order(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Collectors are killed at random, the holder of the lease too, and no other command ever runs."""
    url = _url(where, request, tmp_path)
    begun = time.perf_counter()
    often = ["--maintenance-every", "0.5", "--search-every", "1", "--landing-bound", "0", "--skew-bound", "0"]
    with open_store(url) as store, fleet(url, tmp_path, COLLECTORS, *often) as made:
        counts = {f"agent-{at}": SMALL // AGENTS for at in range(AGENTS)}
        with chaos(made, seed=SMALL, pause_s=PAUSES_S[SMALL]):
            summaries = run_agents(made, counts, seconds_max=600)
        assert made.ended["SIGKILL"] >= 1, "nothing was killed: the test shows nothing"
        _accepted_once(store, summaries, counts)
        deadline = time.monotonic() + 120
        while not _in_order(store, SMALL):
            assert time.monotonic() < deadline, "it never came to order"
            time.sleep(0.3)
        _say(f"{dict(made.ended)} collectors ended, unattended", begun)
    with open_store(url) as store:
        _rolled_up(url, store, SMALL, complete=True)


def _in_order(store: Store, batches: int) -> bool:
    """Whether every index is complete, and every point is counted."""
    if any(len(_keys(store, prefix)) < batches for prefix in (keys.BY_TIME, keys.BY_BLOB)):
        return False
    rolled = totals(store, ENV).values()
    return sum(one.count for series in rolled for one in series.values()) == batches * POINTS


def test_an_agent_killed_repeatedly(tmp_path: Path) -> None:
    """Every batch in its spool is accepted once, under its first name."""
    url, batches = f"file://{tmp_path}/store", 60
    points = tmp_path / "points.jsonl"
    points.write_text('{"name": "test.value", "unix_ns": 1, "value": 1}\n' * batches)
    with open_store(url) as store, fleet(url, tmp_path, 2) as made:
        words = ["send", "--spool", str(tmp_path / "spool"), "--agent", "agent-a"]
        words += ["--token-file", str(made.enrol("agent-a"))]
        code, found = command(
            *words, str(points), "--batch", "1", "--collector", "http://127.0.0.1:1", "--give-up-after", "0"
        )
        assert (code, found["left"]) == (3, batches)
        words += [word for address in made.addresses for word in ("--collector", address)]
        kills = 0
        while True:
            sending = subprocess.Popen([sys.executable, "-m", "fencepost", "ingest", *words])
            waiting = len(list((tmp_path / "spool" / "queue").iterdir()))
            while (
                sending.poll() is None and len(list((tmp_path / "spool" / "queue").iterdir())) > waiting - 9
            ):
                time.sleep(0.001)
            sending.kill()
            if sending.wait() == 0:
                break
            kills += 1
        assert kills >= 3, "it was hardly ever killed"
        found = [Identity.of_key(key) for key in _keys(store, keys.ACCEPTED)]
    assert sorted(one.seq_start for one in found) == list(range(1, batches + 1))
    assert len({one.boot for one in found}) == 1


def test_agents_and_collectors_killed_repeatedly(tmp_path: Path) -> None:
    """Each batch that a spool took is accepted once, with its bytes, and at the end no agent keeps any."""
    url, batches, agents = f"file://{tmp_path}/store", 150, 3
    with open_store(url) as store, fleet(url, tmp_path, 2) as made:
        names = [f"agent-{at}" for at in range(agents)]
        words = {
            name: [str(tmp_path / f"spool-{name}"), name, str(made.enrol(name)), str(batches)]
            for name in names
        }
        kills, dice, running = Counter[str](), random.Random(7), dict.fromkeys(names, None)
        alive: dict[str, subprocess.Popen[bytes]] = {}
        with chaos(made, seed=7, pause_s=(0.3, 1.0)):
            while running or alive:
                for name in running:
                    command_line = [sys.executable, str(AGENT), *words[name], *made.addresses]
                    alive[name] = subprocess.Popen(command_line, stdout=subprocess.DEVNULL)
                running.clear()
                time.sleep(dice.uniform(0.2, 1.2))
                for name in [*alive]:
                    if alive[name].poll() is None and kills[name] < 5 and _lines(tmp_path, name):
                        alive[name].kill()
                        kills[name] += alive[name].wait() == -signal.SIGKILL
                    if (code := alive[name].poll()) is not None:
                        del alive[name]
                        if code != 0:
                            assert code == -signal.SIGKILL, "an agent ends by being killed, or in good order"
                            running[name] = None
        assert min(kills[name] for name in names) >= 2, f"hardly anything was killed: {kills}"
        assert made.ended["SIGKILL"] >= 1, "no collector was killed"
        taken = {sha for name in names for sha in _lines(tmp_path, name)}
        found = [Manifest.read(store.get(key).body, key) for key in _keys(store, keys.ACCEPTED)]
        assert len(taken) == batches * agents
        assert taken <= {one.frame_sha256 for one in found}
        assert len({one.frame_sha256 for one in found}) == len(found), "a batch has one name"
        # A batch that was added, and whose line a kill prevented, is accepted as well.
        assert len(found) <= len(taken) + sum(kills.values())
        for name in names:
            left = tmp_path / f"spool-{name}"
            assert [*(left / "queue").iterdir(), *(left / "parked").iterdir()] == []
    sys.stdout.write(f"{dict(kills)} kills of agents, {dict(made.ended)} collectors ended\n")


def test_receivers_of_the_log_killed_repeatedly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch whose collector died reaches all indexes by its event alone, and is rolled up; there is no
    maintenance, no search and no audit."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "root")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret("root"))
    batches, kills, dice = 150, 0, random.Random(3)
    with objects_process(tmp_path / "objects", 1) as (_, address):
        client(address).create_bucket(Bucket="batches")
        url = f"s3://batches/prod?endpoint={address}"
        words = ["ingest", "reconcile", "--store", url, "--every", "0.5", "--events", "log=log"]
        receiving = [sys.executable, "-m", "fencepost", *words]
        with open_store(url) as store:
            authority = Authority(store, ENV, "ann")
            running = [subprocess.Popen(receiving, stdout=subprocess.DEVNULL) for _ in range(2)]
            try:
                for number in range(batches):
                    assert authority.accept(*batch(number))
                    if number % 30 == 29:
                        at = dice.randrange(2)
                        running[at].kill()
                        kills += running[at].wait() == -signal.SIGKILL
                        running[at] = subprocess.Popen(receiving, stdout=subprocess.DEVNULL)
                deadline = time.monotonic() + 120
                begun = time.monotonic()
                while any(len(_keys(store, one)) < batches for one in (keys.BY_TIME, keys.BY_BLOB)):
                    assert time.monotonic() < deadline, "a batch is in no index"
                    assert running[0].poll() is None
                    time.sleep(0.1)
                waited_s = time.monotonic() - begun
            finally:
                for process in running:
                    process.kill()
                    process.wait()
            assert kills == batches // 30
            assert roll_up(store, ENV).batches == batches
            sys.stdout.write(
                f"{batches} batches, {kills} kills, all indexed {waited_s:.1f} s after the last\n"
            )


def _lines(folder: Path, agent: str) -> list[str]:
    file = folder / f"spool-{agent}.added"
    return file.read_text().splitlines() if file.exists() else []


def test_a_single_collector_with_a_local_spool(tmp_path: Path) -> None:
    """Killed repeatedly, with two kinds of durable state: each batch lands once."""
    url, batches = f"file://{tmp_path}/store", 80
    mode = ("--acceptance", "local_spool", "--spool", str(tmp_path / "disk"), "--landing-every", "0.05")
    with open_store(url) as store, fleet(url, tmp_path, 1, *mode) as made:
        counts = {f"agent-{at}": batches // AGENTS for at in range(AGENTS)}
        with chaos(made, seed=1, pause_s=(0.2, 0.6)):
            summaries = run_agents(made, counts, seconds_max=300)
        assert made.ended["SIGKILL"] >= 1
        _landed(made.addresses[0])
        _accepted_once(store, summaries, counts)
        made.end(0, signal.SIGTERM)
    code, found = command("audit", "--store", url, "--deep")
    assert (code, found["accepted"], found["missing"]) == (0, batches, [])
    with open_store(f"file://{tmp_path}/disk/store") as disk:
        assert len(_keys(disk, keys.ACCEPTED)) == batches
        assert len(_keys(disk, keys.RAW)) <= batches // 4, "what landed is not kept twice"


def _landed(address: str) -> None:
    """Return when the bucket has all batches."""
    deadline = time.monotonic() + 120
    while (
        "fencepost_ingest_landing_backlog 0.0\n" not in httpx.get(f"{address}/metrics", trust_env=False).text
    ):
        assert time.monotonic() < deadline, "it does not land"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(not SOAK, reason="minutes: nox -s soak")
@pytest.mark.parametrize("where", ["file", "honest_moto_process", "seaweedfs"])
def test_many_batches_are_accepted_once_through_kills(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    _end_to_end(_url(where, request, tmp_path), tmp_path, SOAK)


def _url(where: str, request: pytest.FixtureRequest, folder: Path) -> str:
    return f"file://{folder}/store" if where == "file" else request.getfixturevalue(where).bucket()


def _end_to_end(url: str, folder: Path, batches: int) -> None:
    begun = time.perf_counter()
    with open_store(url) as store, fleet(url, folder, COLLECTORS) as made:
        orphans = _orphans(store)
        counts = {f"agent-{at}": batches // AGENTS for at in range(AGENTS)}
        with chaos(made, seed=batches, pause_s=PAUSES_S.get(batches, (0.3, 2.0))):
            summaries = run_agents(made, counts, seconds_max=max(600, batches / 4))
        _say(f"{batches} batches, {dict(made.ended)} collectors ended, {_sum(summaries)}", begun)
        assert made.ended["SIGKILL"] >= 1, "nothing was killed: the test shows nothing"
        _accepted_once(store, summaries, counts)
        _rolled_up(url, store, sum(counts.values()), complete=False)
        _repaired(url, store, sum(counts.values()))
        _say("repaired", begun)
        _rolled_up(url, store, sum(counts.values()), complete=True)
        _collected(url, store, orphans)
        _say("collected", begun)
        _conflict(made, summaries[0])
        _say("settled", begun)


def _say(what: str, begun: float) -> None:
    """Prints figures, for `pytest -s`."""
    sys.stdout.write(f"{what}, {time.perf_counter() - begun:.1f} s\n")
    sys.stdout.flush()


def _sum(summaries: list[dict[str, Any]]) -> dict[str, int]:
    return {name: sum(one[name] for one in summaries) for name in ("accepted", "duplicates", "retries")}


def _accepted_once(store: Store, summaries: list[dict[str, Any]], counts: dict[str, int]) -> None:
    """Every agent got a response for every batch, and the bucket has exactly these."""
    for one in summaries:
        assert one["accepted"] + one["duplicates"] == counts[one["agent"]], one
        assert (one["left"], one["parked"]) == (0, 0), one
    expected = {
        Identity(one["agent"], one["boot"], 1 + POINTS * at, POINTS * (at + 1))
        for one in summaries
        for at in range(counts[one["agent"]])
    }
    found = [Identity.of_key(key) for key in _keys(store, keys.ACCEPTED)]
    assert len(found) == len(expected)
    assert set(found) == expected


def _repaired(url: str, store: Store, batches: int) -> None:
    """After one pass and one audit every index is complete, and every blob has the right bytes."""
    code, found = command("reconcile", "--store", url)
    assert (code, found["missing"], found["damaged"]) == (0, [], [])
    code, found = command("audit", "--store", url, "--deep")
    assert (code, found["accepted"], found["missing"], found["damaged"]) == (0, batches, [], [])
    sys.stdout.write(f"the audit wrote {found['repaired']} index objects that killed collectors had not\n")
    for prefix in (keys.BY_TIME, keys.BY_BLOB):
        assert len(_keys(store, prefix)) == batches, prefix
    code, found = command("audit", "--store", url)
    assert (code, found["repaired"]) == (0, 0)


def _rolled_up(url: str, store: Store, batches: int, *, complete: bool) -> None:
    """Every point is counted once; before the repair, never more than once."""
    code, found = command("rollup", "--store", url)
    assert (code, found["missing"]) == (0, [])
    counted = Counter[str]()
    sums = Counter[str]()
    for (metric, _), series in totals(store, ENV).items():
        assert metric == METRIC
        for labels, one in series.items():
            counted[dict(labels)["agent"]] += one.count
            sums[dict(labels)["agent"]] += round(one.sum)
    each = batches // AGENTS * POINTS
    assert all(count <= each for count in counted.values()), counted
    if complete:
        assert counted == {f"agent-{at}": each for at in range(AGENTS)}
        assert set(sums.values()) == {each * (each - 1) // 2}, sums


def _orphans(store: Store) -> set[str]:
    """Blobs that a collector stored long ago, for batches that no agent sent again."""
    past = SeededEnvironment(start_ns=ENV.now_ns() - 10 * DAY_NS)
    authority = Authority(store, past, "collector-of-old")
    bodies = [f"orphan {at}".encode() for at in range(ORPHANS)]
    return {authority.blobs.keep(hashlib.sha256(body).hexdigest(), body).key for body in bodies}


def _collected(url: str, store: Store, orphans: set[str]) -> None:
    """All of the orphans, and nothing else."""
    before = set(_keys(store, keys.RAW))
    code, found = command("gc", "--store", url)
    assert (code, found["unclear"], set(found["deleted"])) == (0, [], orphans)
    assert set(_keys(store, keys.RAW)) == before - orphans


def _conflict(made: Collectors, victim: dict[str, Any]) -> None:
    """An agent with a copied disk sends other bytes under an accepted identity."""
    send, identity, other = send_conflict(made, victim)
    agent = victim["agent"]
    code, found = command(*send)
    assert (code, found["accepted"], found["parked"], found["left"]) == (1, 1, 1, 0), (
        "it goes on with later ones"
    )
    code, found = command("conflicts", "list", "--store", made.url)
    assert code == 1
    (seen,) = found["conflicts"]
    assert seen["submitted_frame_sha256"] == hashlib.sha256(other).hexdigest()
    assert (seen["agent_id"], seen["seq_start"], seen["resolution"]) == (agent, 1, None)
    code, found = command(*send)
    assert (code, found["parked"], found["dropped"]) == (1, 1, 0), "nothing is decided: it is kept"
    words = [agent, victim["boot"], str(identity.seq_start), str(identity.seq_end)]
    code, found = command("conflicts", "resolve", "--store", made.url, *words, "--note", "a copied disk")
    assert code == 0
    code, found = command(*send)
    assert (code, found["parked"], found["dropped"]) == (0, 0, 1)
    assert command("conflicts", "list", "--store", made.url) == (0, {"conflicts": []})
    code, found = command("conflicts", "list", "--store", made.url, "--all")
    assert found["conflicts"][0]["resolution"]["note"] == "a copied disk"


def _keys(store: Store, prefix: str) -> list[str]:
    found: list[str] = []
    for page in store.pages(prefix):
        assert page.done, page
        found += [item.key for item in page.objects]
    return found
