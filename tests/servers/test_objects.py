"""`fencepost objects serve` as a process: workers that agree, that are killed, and that end in good order."""

import contextlib
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.handoff import request_handoff
from fencepost.impl.objects.reconcile import reconcile
from tests.impl.http.test_spans import collector, spans_of
from tests.impl.objects.serving import ROOT_TOKEN, client
from tests.servers.probes import SETTINGS, probed
from tests.servers.processes import objects_process as serving

pytestmark = pytest.mark.server
BUCKET = "bucket-one"
KILLS = int(os.environ.get("FENCEPOST_KILLS", "5"))
"""500 take about 15 minutes."""
HANDOFFS = int(os.environ.get("FENCEPOST_HANDOFFS", "10"))
UPLOAD_S = float(os.environ.get("FENCEPOST_UPLOAD_S", "20"))
"""How long each upload lasts that is under way at a handoff: 50 handoffs and 60 s take about 5 minutes."""


def children(process: subprocess.Popen[str]) -> list[int]:
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(number) for number in text.split()]


@pytest.mark.parametrize("workers", [1, 3])
def test_increments_of_many_threads_are_all_counted(tmp_path: Path, workers: int) -> None:
    with serving(tmp_path, workers) as (_, address):
        s3 = client(address)
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="count", Body=b"0", IfNoneMatch="*")

        def count() -> None:
            mine, left = client(address), 25
            while left:
                got = mine.get_object(Bucket=BUCKET, Key="count")
                body = b"%d" % (int(got["Body"].read()) + 1)
                with contextlib.suppress(ClientError):
                    mine.put_object(Bucket=BUCKET, Key="count", Body=body, IfMatch=got["ETag"])
                    left -= 1

        run_all([count] * 8)
        assert s3.get_object(Bucket=BUCKET, Key="count")["Body"].read() == b"200"


def run_all(acts: list[Any]) -> None:
    threads = [threading.Thread(target=act) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_every_worker_lists_what_another_has_answered(tmp_path: Path) -> None:
    with serving(tmp_path, 3) as (_, address):
        client(address).create_bucket(Bucket=BUCKET)

        def check(name: str) -> None:
            for number in range(10):  # each client has a connection of its own, to any of the workers
                key = f"{name}/{number}"
                client(address).put_object(Bucket=BUCKET, Key=key, Body=b"x")
                found = client(address).list_objects_v2(Bucket=BUCKET, Prefix=f"{name}/")
                assert [one["Key"] for one in found["Contents"]][-1:] == [key]

        run_all([lambda name=f"w{n}": check(name) for n in range(4)])


def test_a_killed_worker_loses_nothing_acknowledged_and_is_replaced(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    with serving(tmp_path, 2) as (process, address):
        client(address).create_bucket(Bucket=BUCKET)
        done = threading.Event()

        def write(name: str) -> None:
            mine, number = client(address, connect_timeout=5, read_timeout=10), 0
            while not done.is_set():
                key, body = f"{name}/{number}", os.urandom(2000 + number % 7 * 100_000)
                with contextlib.suppress(ClientError, BotoCoreError):
                    mine.put_object(Bucket=BUCKET, Key=key, Body=body)
                    acknowledged[key] = md5(body)
                number += 1

        def kill() -> None:
            """Each time after some more writes were acknowledged."""
            for number in range(KILLS):
                wanted = len(acknowledged) + 5
                while len(acknowledged) < wanted:
                    done.wait(0.05)
                while len(children(process)) < 2:  # the next one is a new process at times
                    done.wait(0.05)
                os.kill(children(process)[number % 2], signal.SIGKILL)
            done.set()

        run_all([kill, *(lambda name=f"w{n}": write(name) for n in range(4))])
        s3 = client(address)
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        listed = {one["Key"] for page in pages for one in page["Contents"]}
        for key, digest in acknowledged.items():
            assert md5(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == digest, key
            assert key in listed
        for _ in range(300):
            if len(children(process)) == 2:
                break
            threading.Event().wait(0.1)
        assert len(children(process)) == 2  # the last one killed is replaced after a pause
    check_events(tmp_path, acknowledged)


def md5(body: bytes) -> str:
    return hashlib.md5(body).hexdigest()


def check_events(root: Path, objects: Mapping[str, str]) -> None:
    """Every object has its event, also where the process that wrote it was killed."""
    buckets = Buckets(str(root))
    reconcile(buckets)
    events = {event.key: event.new for event in buckets.log.events(buckets.index)}
    buckets.close()
    for key, digest in objects.items():
        found = events[key]
        assert found is not None, key
        assert found["etag"] == digest, key


def test_a_full_disk_refuses_and_the_service_goes_on(tmp_path: Path) -> None:
    """A tmpfs of 16 MiB in a mount namespace of the server's own."""
    mount = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs -o size=16m objects "$0" && exec "$@"'
    if subprocess.run([*mount, script, str(tmp_path), "true"], capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    stored: dict[str, bytes] = {}
    with serving(tmp_path, 2, [*mount, script, str(tmp_path)]) as (_, address):
        s3 = client(address)
        s3.create_bucket(Bucket=BUCKET)

        def fill(size: int, prefix: str) -> str:
            """Until there is no room; returns the key that was refused."""
            for number in range(20_000):
                key, body = f"{prefix}/{number}", os.urandom(size)
                try:
                    s3.put_object(Bucket=BUCKET, Key=key, Body=body)
                except ClientError as error:
                    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 507  # noqa: PT017  until it fails
                    assert error.response["Error"]["Code"] == "InsufficientStorage"  # noqa: PT017  the same
                    return key
                stored[key] = body
            raise AssertionError("the disk is never full")

        refused = fill(3 << 20, "large")
        assert fill(1, "other").startswith("other/")
        for key in (refused, "large/1000"):
            with pytest.raises(ClientError, match="NoSuchKey"):
                s3.get_object(Bucket=BUCKET, Key=key)
        for key, body in stored.items():
            assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
        s3.delete_object(Bucket=BUCKET, Key="large/0")
        del stored["large/0"]
        s3.put_object(Bucket=BUCKET, Key="after", Body=b"x" * (1 << 20), IfNoneMatch="*")
        threading.Event().wait(2.5)  # what could not be recorded is recorded at the next interval
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        listed = {one["Key"] for page in pages for one in page["Contents"]}
        assert listed >= {*stored, "after"}
        for key in listed - {*stored, "after"}:  # complete, and not acknowledged
            assert len(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == 1


def test_a_second_server_of_a_directory_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as (process, _):
        ended = subprocess.run(
            [sys.executable, "-m", "fencepost", "objects", "serve", str(tmp_path), "--listen", "127.0.0.1:0"],
            capture_output=True, text=True, check=False,
            env={**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": ROOT_TOKEN},
        )  # fmt: skip
        assert ended.returncode == 1
        assert f"is served by process {process.pid}; stop it first" in ended.stderr
        assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("handoffs", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_no_request_fails_while_servers_are_replaced(tmp_path: Path, handoffs: int) -> None:
    done = threading.Event()
    stored: dict[str, str] = {}
    failures: list[str] = []
    with serving(tmp_path, 2, verb="supervise") as (process, address):
        client(address).create_bucket(Bucket=BUCKET)

        def use(name: str) -> None:
            mine, number = client(address, read_timeout=60), 0
            while not done.is_set():
                key, body = f"{name}/{number}", os.urandom(2000 + number % 5 * 400_000)
                try:
                    mine.put_object(Bucket=BUCKET, Key=key, Body=body, IfNoneMatch="*")
                    stored[key] = md5(body)
                    assert mine.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
                except Exception as error:  # noqa: BLE001  a thread reports it
                    failures.append(f"{key}: {error!r}")
                number += 1

        def replace() -> None:
            try:
                servers = set()
                for _ in range(handoffs):
                    wanted = len(stored) + 4
                    while len(stored) < wanted and not failures:
                        done.wait(0.02)
                    answer = request_handoff(str(tmp_path))
                    assert answer.startswith("done "), answer
                    servers.add(answer)
                assert len(servers) == handoffs
            except Exception as error:  # noqa: BLE001  a thread reports it
                failures.append(repr(error))
            finally:
                done.set()

        run_all([replace, *(lambda name=f"w{n}": use(name) for n in range(4))])
        assert failures == []
        s3 = client(address)
        for key, digest in stored.items():
            assert md5(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) == digest, key
        assert len(children(process)) == 1
    check_events(tmp_path, stored)


@pytest.mark.parametrize("handoffs", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_an_upload_under_way_outlives_the_server_that_it_began_with(tmp_path: Path, handoffs: int) -> None:
    """The next server answers meanwhile: neither waits for the other."""
    body = os.urandom(64_000)
    with serving(tmp_path, 2, verb="supervise") as (process, address):
        s3 = client(address)
        s3.create_bucket(Bucket=BUCKET)
        uploads: list[http.client.HTTPConnection] = []
        for number in range(handoffs):
            place = {"Bucket": BUCKET, "Key": f"slow/{number}"}
            parts = urlsplit(s3.generate_presigned_url("put_object", Params=place))
            upload = http.client.HTTPConnection(parts.netloc, timeout=60)
            upload.putrequest("PUT", f"{parts.path}?{parts.query}")
            upload.putheader("Content-Length", str(len(body)))
            upload.endheaders(body[:32_000])
            uploads.append(upload)
            assert request_handoff(str(tmp_path)).startswith("done ")
            s3.put_object(Bucket=BUCKET, Key=f"meanwhile/{number}", Body=b"1")
            if len(uploads) > 3:  # each began with another server
                finish(uploads.pop(0), body)
        with urllib.request.urlopen(f"{address}/metrics") as page:
            assert f'fencepost_objects_handoffs_total{{outcome="done"}} {handoffs}.0' in page.read().decode()
        for upload in uploads:
            finish(upload, body)
        for number in range(handoffs):
            found = s3.get_object(Bucket=BUCKET, Key=f"slow/{number}")
            assert md5(found["Body"].read()) == md5(body)
        until = time.monotonic() + 60
        while len(children(process)) > 1:
            assert time.monotonic() < until
            threading.Event().wait(0.05)


def test_no_upload_is_cut_however_often_servers_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload has begun before each handoff, and arrives piece by piece while others follow."""
    monkeypatch.setenv("DRAIN_TIMEOUT_SECS", "0")
    piece, pieces = os.urandom(64 << 10), max(4, round(UPLOAD_S * 2))
    body = piece * pieces
    ended: list[tuple[int, float]] = []
    with serving(tmp_path, 2, verb="supervise") as (_, address):
        s3 = client(address)
        s3.create_bucket(Bucket=BUCKET)

        def trickle(upload: socket.socket) -> None:
            began = time.monotonic()
            for number in range(pieces):
                upload.sendall(piece)
                threading.Event().wait(max(0.0, began + (number + 1) * UPLOAD_S / pieces - time.monotonic()))
            with contextlib.closing(upload), upload.makefile("rb") as answer:
                ended.append((int(answer.readline().split()[1]), time.monotonic() - began))

        threads = []
        for number in range(HANDOFFS):
            upload = begun(address, s3, f"slow/{number}", len(body))
            threads.append(threading.Thread(target=trickle, args=(upload,)))
            threads[-1].start()
            assert request_handoff(str(tmp_path)).startswith("done ")
            s3.put_object(Bucket=BUCKET, Key=f"meanwhile/{number}", Body=b"1")
        for thread in threads:
            thread.join()
        assert [status for status, _ in ended] == [200] * HANDOFFS
        assert min(took for _, took in ended) >= UPLOAD_S * 0.99
        for number in range(HANDOFFS):
            assert md5(s3.get_object(Bucket=BUCKET, Key=f"slow/{number}")["Body"].read()) == md5(body)


def begun(address: str, s3: Any, key: str, size: int) -> socket.socket:
    """The connection of a put that a server has begun, which `100 Continue` shows."""
    parts = urlsplit(s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": key}))
    head = [
        f"PUT {parts.path}?{parts.query} HTTP/1.1",
        f"host: {parts.netloc}",
        f"content-length: {size}",
        "expect: 100-continue",
    ]
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=120)
    connection.sendall("\r\n".join([*head, "", ""]).encode())
    assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100 ")
    return connection


def finish(upload: http.client.HTTPConnection, body: bytes) -> None:
    with contextlib.closing(upload):
        upload.send(body[32_000:])
        answer = upload.getresponse()
        assert (answer.status, answer.read()) == (200, b"")


def test_a_server_that_cannot_be_replaced_goes_on(tmp_path: Path) -> None:
    """The successor is killed; then the incumbent is, and the supervisor starts another."""
    with serving(tmp_path, 2, verb="supervise") as (process, address):
        s3 = client(address, read_timeout=60)
        s3.create_bucket(Bucket=BUCKET)
        old = children(process)
        killer = threading.Event()

        def kill_successor() -> None:
            while not killer.wait(0.001):
                for pid in set(children(process)) - {*old}:
                    os.kill(pid, signal.SIGKILL)
                    return

        failed: list[str] = []
        run_all([kill_successor, lambda: failed.append(request_handoff(str(tmp_path)))])
        assert failed[0].startswith("failed ")
        assert children(process) == old
        s3.put_object(Bucket=BUCKET, Key="k", Body=b"1")
        os.kill(old[0], signal.SIGKILL)
        put_at_last(s3, "k", b"2")  # waits in the backlog, or meets a worker that ends after its parent
        assert children(process) != old


def put_at_last(s3: Any, key: str, body: bytes) -> None:
    """Send a put again, as clients do, while workers that are about to stop refuse or close connections."""
    until = time.monotonic() + 60
    while True:
        try:
            s3.put_object(Bucket=BUCKET, Key=key, Body=body)
            return
        except ClientError as error:
            assert error.response["Error"]["Code"] == "SlowDown"  # noqa: PT017  until it succeeds
            assert time.monotonic() < until
        except BotoCoreError:
            assert time.monotonic() < until
        threading.Event().wait(0.05)


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_row_of_the_probe_is_unsafe(setting: str) -> None:
    """`nox -s probes` takes the time that races need to be decided."""
    found = probed(SETTINGS[setting], "--quick")
    verdicts = {feature["name"]: feature["verdict"] for feature in found["features"] if feature["applies"]}
    assert {*verdicts.values()} <= {"safe", "undecided"}, verdicts
    answers = ("create-only-put", "if-match-put", "if-match-delete", "distinct-keys")
    assert SETTINGS[setting].faults or {verdicts[name] for name in answers} == {"safe"}


def test_every_connection_can_have_a_file(tmp_path: Path) -> None:
    """A shell often allows 1,024 open files; a connection needs one, and a request some more."""
    with serving(tmp_path, 2, ["sh", "-c", 'ulimit -S -n 256; exec "$0" "$@"']) as (process, address):
        client(address).list_buckets()
        for pid in (process.pid, *children(process)):
            limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
            soft = next(line.split()[3] for line in limits if line.startswith("Max open files"))
            assert int(soft) >= 2000


def test_metrics_are_those_of_all_workers(tmp_path: Path) -> None:
    def counted(address: str, name: str) -> float:
        with urllib.request.urlopen(f"{address}/metrics") as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    name = 'fencepost_objects_requests_total{status="404"}'
    with serving(tmp_path, 3) as (process, address):
        client(address).create_bucket(Bucket=BUCKET)
        for _ in range(20):  # each by a connection of its own, to any of the workers
            with pytest.raises(ClientError):
                client(address).head_object(Bucket=BUCKET, Key="none")
        for _ in range(100):
            if counted(address, name) == 20:  # a response is counted after it was sent
                break
            threading.Event().wait(0.05)
        assert [counted(address, name) for _ in range(6)] == [20] * 6
        os.kill(children(process)[0], signal.SIGKILL)
        with contextlib.suppress(OSError):
            counted(address, name)
        assert counted(address, name) == 20
    assert not list(Path(tmp_path, ".objects", "metrics").iterdir())


def test_no_worker_outlives_its_parent(tmp_path: Path) -> None:
    with serving(tmp_path, 2) as (process, address):
        client(address).list_buckets()
        workers = children(process)
        process.kill()
        process.wait(30)
        for _ in range(300):
            if not any(Path(f"/proc/{pid}").exists() for pid in workers):
                break
            threading.Event().wait(0.1)
        assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def test_a_request_in_flight_is_finished_when_the_server_is_stopped(tmp_path: Path) -> None:
    """100 Continue shows that the server has begun the request; a stopping server begins no other."""
    with serving(tmp_path, 2) as (process, address):
        s3 = client(address)
        s3.create_bucket(Bucket=BUCKET)
        with begun(address, s3, "k", 4 << 20) as connection:
            process.send_signal(signal.SIGTERM)
            while len(children(process)) > 1:  # the other worker has no request
                threading.Event().wait(0.05)
            connection.sendall(b"x" * (4 << 20))
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
        assert process.wait(30) == 0
    with serving(tmp_path, 1) as (_, address):
        assert client(address).head_object(Bucket=BUCKET, Key="k")["ContentLength"] == 4 << 20


def test_the_variables_of_a_server_do_what_they_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, in a server with workers, and in one that a supervisor starts."""
    for verb in ("serve", "supervise"):
        data, folder, log = tmp_path / verb, tmp_path / f"{verb}-index", tmp_path / f"{verb}.log"
        with collector() as (endpoint, got):
            variables = {
                "LOG_LEVEL": "info", "ENVIRONMENT": "production", "OBJECTS_INDEX_DIR": str(folder),
                "OBJECTS_URL": "https://objects.example.com", "SYNC_LINGER_MS": "0", "OTLP_ENABLED": "true",
                "OTLP_ENDPOINT": endpoint, "OTLP_SAMPLE_RATE": "1", "GC_TEMP_TTL_SECS": "60",
                "GC_MULTIPART_TTL_SECS": "60",
            }  # fmt: skip
            for name, value in variables.items():
                monkeypatch.setenv(name, value)
            with log.open("w") as stderr, serving(data, 2, verb=verb, stderr=stderr) as (_, address):
                s3 = client(address)
                s3.create_bucket(Bucket=BUCKET)
                upload = s3.create_multipart_upload(Bucket=BUCKET, Key="key")["UploadId"]
                one = {"Bucket": BUCKET, "Key": "key", "UploadId": upload}
                etag = s3.upload_part(**one, PartNumber=1, Body=b"x")["ETag"]
                parts = [{"PartNumber": 1, "ETag": etag}]
                ended = s3.complete_multipart_upload(**one, MultipartUpload={"Parts": parts})
        assert ended["Location"] == f"https://objects.example.com/{BUCKET}/key"
        assert (data / ".index").readlink() == folder
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert f"PUT '/{BUCKET}' 200" in [line["message"] for line in lines]
        assert [span["name"] for span in spans_of(got)].count("POST") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "nowhere"], "is no address"),
        (["--tls-certificate", "x"], "come together"),
        (["--tls-certificate", "x", "--tls-key", "y", "--workers", "2"], "cannot set up TLS"),
        (["--root-token-file", "/nonexistent"], "cannot read"),
    ],
)
def test_a_request_that_makes_no_sense_is_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "fencepost", "objects", "serve", str(tmp_path / "new"), *arguments],
        capture_output=True, text=True, check=False,
        env={**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": ROOT_TOKEN},
    )  # fmt: skip
    assert ended.returncode == 2
    assert message in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()
