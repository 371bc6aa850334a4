"""`fencepost ingest` as its users see it: exit codes, one line per error, and no half-done work."""

import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.ingest import keys, read
from fencepost.impl.store import open_store
from tests.commands.running import Run
from tests.impl.ingest_service.serving import Served, batch, frame, listing, serving

TOKEN = "FENCEPOST_INGEST_TOKEN"
BATCHES = 3


@pytest.fixture
def ingest(ran: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    yield partial(ran, "ingest")
    log = logging.getLogger("fencepost")  # a command sets up the log of its process, which is ours
    log.handlers.clear()
    log.setLevel(logging.NOTSET)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store?linger_ms=0"


@pytest.fixture
def served(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A collector in this process, and the token of agent-a where `send` looks for it."""
    (tmp_path / "store").mkdir()  # as `serve` does
    with open_store(url) as store, serving(tmp_path, store=store) as served:
        monkeypatch.setenv(TOKEN, served.tokens["agent-a"])
        yield served


def result(ingest: Run, *arguments: str, code: int = 0) -> Any:
    ended, out, err = ingest(*arguments, "--json", "-")
    assert ended == code, (out, err)
    return json.loads(out)


def points(count: int = 5) -> str:
    Path("points.jsonl").write_text(
        "".join(f'{{"name": "cpu.load", "value": {at}}}\n' for at in range(count))
    )
    return "points.jsonl"


def send(served: Served, *more: str) -> list[str]:
    return ["send", *more, "--spool", "spool", "--agent", "agent-a", "--collector", served.url]


def test_points_become_batches_and_are_rolled_up(ingest: Run, served: Served, url: str) -> None:
    sent = result(ingest, *send(served, points(5), "--batch", "2"))
    assert (sent["accepted"], sent["left"], sent["parked"]) == (BATCHES, 0, 0)
    served.collector.wait_idle()
    assert ingest("reconcile", "--store", url)[:2] == (0, "3 batches seen, 0 missing index objects written\n")
    assert result(ingest, "rollup", "--store", url)["batches"] == BATCHES
    assert result(ingest, "rollup", "--store", url)["batches"] == 0
    assert result(ingest, "audit", "--store", url, "--deep")["accepted"] == BATCHES
    assert result(ingest, "gc", "--store", url)["referenced"] == BATCHES


def test_points_come_from_standard_input(
    ingest: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b'{"name": "cpu.load", "value": 1}\n\n{"name": "cpu.load", "value": 2, "labels": {"host": "a"}}'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert result(ingest, *send(served, "-"))["accepted"] == 1
    (blob,) = [key for key in served.listing() if key.startswith(keys.RAW)]
    assert [point.value for point in read(served.store.get(blob).body).points] == [1.0, 2.0]


def test_missing_indexes_are_written_and_a_missing_blob_is_an_alarm(
    ingest: Run, served: Served, url: str
) -> None:
    served.post(batch(), frame())
    served.collector.wait_idle()
    store = served.store
    for key in listing(store):
        if key.startswith(keys.BY_BLOB):
            store.delete(key, when=_anything())
    assert result(ingest, "reconcile", "--store", url)["repaired"] == 1
    (blob,) = [key for key in listing(store) if key.startswith(keys.RAW)]
    store.delete(blob, when=_anything())
    for name in ("reconcile", "audit"):
        code, out, _ = ingest(name, "--store", url)
        assert code == 1
        assert f"its blob is missing or incomplete: {keys.accepted_key(batch())}" in out
    assert served.post(batch(), frame()).json()["duplicate"] is True, "the agent's retry brings it back"
    assert ingest("audit", "--store", url, "--deep")[0] == 0


def test_a_conflict_from_parked_to_resolved(ingest: Run, served: Served, url: str) -> None:
    from fencepost.impl.ingest.service.spool import Spool

    with Spool("spool", "agent-a") as spool:
        taken = batch(1, 1, boot=spool.boot_id)
        assert served.post(taken, frame(taken, 1.0)).status_code == 200
        spool.add(1, lambda *_: frame(taken, 2.0))
    code, out, err = ingest(*send(served))
    assert (code, out) == (1, "0 batches accepted, 0 wait, 1 parked\n")
    assert "identity_conflict" in err
    code, out, _ = ingest("parked", "--spool", "spool")
    assert code == 1
    assert "identity_conflict" in out
    code, out, _ = ingest("conflicts", "list", "--store", url)
    assert code == 1
    assert taken.boot in out
    words = ["conflicts", "resolve", "--store", url, "agent-a", taken.boot, "1", "1"]
    code, out, _ = ingest(*words, "--author", "ada", "--note", "an old disk")
    assert (code, out) == (0, f"{taken}: accept-existing-and-drop, by ada\n")
    assert ingest("conflicts", "list", "--store", url)[:2] == (0, "no conflicts need a decision\n")
    assert ingest(*send(served))[:2] == (0, "0 batches accepted, 0 wait, 0 parked\n")
    assert ingest("parked", "--spool", "spool")[:2] == (0, "nothing is parked\n")


def test_a_parked_batch_can_be_dropped_or_sent_again_by_hand(ingest: Run, served: Served) -> None:
    from fencepost.impl.ingest.service.spool import Spool

    with Spool("spool", "agent-a") as spool:
        for start in (1, 2):
            identity = batch(start, start, boot=spool.boot_id)
            made = spool.add(1, lambda *_, identity=identity: frame(identity))
            spool.park(made, {"why": "a mistake"})
    first, second = [one["name"] for one in result(ingest, "parked", "--spool", "spool", code=1)["parked"]]
    assert ingest("parked", "--spool", "spool", "--drop", first)[0] == 1
    assert ingest("parked", "--spool", "spool", "--requeue", second)[0] == 0
    assert result(ingest, *send(served))["accepted"] == 1
    code, _, err = ingest("parked", "--spool", "spool", "--drop", first)
    assert (code, "is not parked" in err) == (2, True)


def test_a_blocked_agent_parks_and_continues_when_released(ingest: Run, served: Served, url: str) -> None:
    assert ingest("blocks", "add", "--store", url, "agent-a", "--author", "ada")[:2] == (
        0,
        "agent agent-a is quarantined\n",
    )
    served.collector._acceptance.blocklist.refresh()
    assert ingest(*send(served, points(1)))[0] == 1
    code, out, _ = ingest("blocks", "list", "--store", url)
    assert (code, "ada" in out) == (0, True)
    assert ingest("blocks", "remove", "--store", url, "agent-a")[0] == 0
    served.collector._acceptance.blocklist.refresh()
    (name,) = [one["name"] for one in result(ingest, "parked", "--spool", "spool", code=1)["parked"]]
    ingest("parked", "--spool", "spool", "--requeue", name)
    assert result(ingest, *send(served))["accepted"] == 1
    assert ingest("blocks", "remove", "--store", url, "agent-a")[0] == 2


def test_batches_that_cannot_be_sent_are_kept(
    ingest: Run, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["send", points(3), "--spool", "spool", "--agent", "agent-a", "--give-up-after", "0"]
    code, out, _ = ingest(*words, "--collector", "http://127.0.0.1:1")
    assert (code, out) == (3, "0 batches accepted, 1 wait, 0 parked\n")
    monkeypatch.setenv(TOKEN, served.tokens["agent-b"])
    code, _, err = ingest(*send(served))
    assert (code, "foreign_agent" in err, "1 batches wait in the spool" in err) == (2, True, True)
    monkeypatch.setenv(TOKEN, served.tokens["agent-a"])
    assert result(ingest, *send(served, "--metrics", "m.prom"))["accepted"] == 1
    assert 'fencepost_agent_sent_total{duplicate="false"} 1.0\n' in Path("m.prom").read_text()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2 of points.jsonl is not a point"),
        ("[]", "expected an object"),
        ('{"name": "x"}', "value is missing"),
        ('{"value": 1}', "name is missing"),
        ('{"name": "x", "value": "1"}', "value is missing or not a number"),
        ('{"name": "x", "value": true}', "not a number"),
        ('{"name": "x", "value": 1, "unix_ns": 1.5}', "unix_ns"),
        ('{"name": "x", "value": 1, "unix_ns": 1e30}', "unix_ns"),
        (f'{{"name": "x", "value": 1, "unix_ns": {2**70}}}', "64-bit"),
        ('{"name": "x", "value": 1, "labels": {"a": 1}}', "labels"),
        ('{"name": "x", "value": 1, "labels": {"a": "\\ud800"}}', "line 2"),
        ('{"name": "../x y", "value": 1}', "not the name of a metric"),
        ('{"name": "x", "value": 1, "host": "a"}', "unknown field 'host'"),
        ("[" * 100_000, "line 2"),
        (f'{{"name": "x", "value": 1{"0" * 400}}}', "line 2"),
    ],
)
def test_an_invalid_line_adds_nothing(ingest: Run, served: Served, line: str, says: str) -> None:
    Path("points.jsonl").write_text(f'{{"name": "x", "value": 1}}\n{line}\n')
    code, _, err = ingest(*send(served, "points.jsonl"))
    assert (code, says in err, err.count("\n")) == (2, True, 1), err
    assert not Path("spool").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["serve", "--store", "memory://", "--agents", "t.json"], "nothing would remain"),
        (["serve", "--store", "nowhere", "--agents", "t.json"], "no scheme"),
        (["serve", "--store", "file:///dev/null/x", "--agents", "t.json"], "/dev/null/x"),
        (
            ["serve", "--store", "file:///tmp", "--agents", "none.json"],
            "make one with fencepost ingest enrol",
        ),
        (["serve", "--store", "file:///tmp", "--agents", "bad.json"], "is not JSON"),
        (["serve", "--store", "file:///tmp", "--agents", "t.json", "--listen", "no such:1"], "cannot listen"),
        (["serve", "--store", "file:///tmp", "--agents", "t.json", "--spool", "x"], "local_spool needs"),
        (
            ["serve", "--store", "file:///tmp", "--agents", "t.json", "--acceptance", "local_spool"],
            "needs --spool",
        ),
        (["serve", "--store", "file:///tmp", "--agents", "t.json", "--tls-key", "k"], "come together"),
        (["serve", "--store", "file:///tmp", "--agents", "t.json", "--horizon", "-1"], "horizon_s"),
        (["serve", "--store", "file:///tmp", "--agents", "t.json", "--threads", "0"], "--threads"),
        (["enrol", "t.json", ""], "agent"),
        (["enrol", "t.json", "a\nb"], "control characters"),
        (["enrol", "no/t.json", "a"], "cannot write"),
        (["revoke", "t.json", "nobody"], "has no token of 'nobody'"),
        (["send", "--spool", "s", "--agent", "a", "--collector", "http://x"], TOKEN),
        (
            ["send", "--spool", "s", "--agent", "a", "--collector", "http://x", "--token-file", "no"],
            "cannot read",
        ),
        (["send", "no.jsonl", "--spool", "s", "--agent", "a", "--collector", "x"], TOKEN),
        (["parked", "--spool", "none"], "name a folder that holds a spool"),
        (["gc", "--store", "file:///tmp", "--landing-bound", "-3"], "landing_bound_s"),
        (["policy", "B", "--gc-role", "x"], "is not the name of a bucket"),
        (["policy", "bucket", "--gc-role", "x"], "is not a role"),
        (["conflicts", "resolve", "--store", "file:///tmp", "a", "b", "2", "1"], "swap them"),
        (["conflicts", "list", "--store", "file:///tmp", "--agent", " x"], "outer spaces"),
        (["blocks", "remove", "--store", "file:///tmp", "a"], "is not quarantined"),
    ],
)
def test_an_invalid_request_is_one_line(
    ingest: Run, words: list[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    ingest("enrol", "t.json", "agent-a")
    Path("bad.json").write_text("{")
    code, out, err = ingest(*words)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert says in err


@pytest.mark.parametrize(
    "words",
    [
        "audit",
        "gc",
        "reconcile",
        "rollup",
        "blocks list",
        "blocks add a",
        "blocks remove a",
        "conflicts list",
    ],
)
def test_a_misspelt_directory_is_not_an_empty_store(ingest: Run, tmp_path: Path, words: str) -> None:
    """If this fails, a nightly audit of an empty store always succeeds, and a block has no effect."""
    code, out, err = ingest(*words.split(), "--store", f"file://{tmp_path}/stoer")
    assert (code, out) == (2, ""), err
    assert (
        err == f"fencepost: there is no directory {tmp_path}/stoer; correct --store: a collector creates it\n"
    )
    assert not (tmp_path / "stoer").exists()


def test_a_port_in_use_is_one_line(ingest: Run, served: Served, url: str) -> None:
    ingest("enrol", "t.json", "agent-a")
    code, out, err = ingest(
        "serve", "--store", url, "--agents", "t.json", "--listen", f"127.0.0.1:{served.port}"
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"cannot listen on 127.0.0.1:{served.port}" in err


def test_enrolling_overwrites_no_file(ingest: Run) -> None:
    Path("a.token").write_text("precious")
    code, _, err = ingest("enrol", "t.json", "agent-a", "--token-file", "a.token")
    assert (code, "give --token-file a new file" in err) == (2, True)
    assert Path("a.token").read_text() == "precious"
    assert not Path("t.json").exists()
    assert ingest("enrol", "t.json", "", "--token-file", "b.token")[0] == 2
    assert not Path("b.token").exists()
    assert ingest("enrol", "t.json", "agent-a", "--token-file", "b.token")[0] == 0
    assert Path("b.token").stat().st_mode & 0o777 == 0o600


def test_the_policy_is_json(ingest: Run) -> None:
    role = "arn:aws:iam::123456789012:role/gc"
    found = json.loads(ingest("policy", "bucket", "--prefix", "prod", "--gc-role", role)[1])
    assert found["Statement"][0]["Resource"].startswith("arn:aws:s3:::bucket/prod/accepted")
    rules = json.loads(ingest("policy", "bucket", "--gc-role", role, "--lifecycle")[1])
    assert "AbortIncompleteMultipartUpload" in rules["Rules"][0]


def test_help_loads_no_server() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "fencepost", "ingest", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in ran.stderr.splitlines()}
    assert loaded.isdisjoint({"starlette", "uvicorn", "httpx", "httptools", "asyncio", "boto3", "numpy"})


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("starlette", ["serve", "--store", "file:///tmp", "--agents", "t.json"]),
        ("httpx", ["send", "--spool", "s", "--agent", "a", "--collector", "http://x"]),
    ],
)
def test_without_the_extra_the_message_names_it(missing: str, words: list[str]) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom fencepost.commands import main\nmain()"
    ran = subprocess.run([sys.executable, "-c", code, "ingest", *words], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "fencepost: the collector and the agent need more: pip install 'fencepost[ingest]'\n"
    )


@pytest.mark.server
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_and_its_log_has_no_secrets(tmp_path: Path, how: signal.Signals) -> None:
    import httpx

    from fencepost.impl.environment import SystemEnvironment
    from fencepost.impl.http.tokens import Principal
    from fencepost.impl.ingest.service.requests import token_file

    token = token_file(tmp_path / "t.json").enrol(Principal("agent", "agent-a"), SystemEnvironment())
    words = ["ingest", "serve", "--store", f"file://{tmp_path}/store", "--agents", str(tmp_path / "t.json")]
    with subprocess.Popen(
        [sys.executable, "-m", "fencepost", *words, "--listen", "127.0.0.1:0", "--verbose"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("listening on ").strip()
            assert url.startswith("http://127.0.0.1:")
            assert (tmp_path / "store").is_dir(), "other commands must find it before the first batch"
            with httpx.Client(trust_env=False) as client:
                answer = client.post(
                    f"{url}/v1/batches?agent_id=agent-a&boot_id=b&seq_start=1&seq_end=2",
                    content=frame(batch(boot="b")),
                    headers={"authorization": f"Bearer {token}", "content-type": "application/octet-stream"},
                )
                assert answer.status_code == 200
            process.send_signal(how)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, err
    assert "POST '/v1/batches'" in err
    assert token.partition(".")[2] not in err
    assert "Traceback" not in err


def _anything() -> Any:
    from fencepost.impl.store import ANYTHING

    return ANYTHING
