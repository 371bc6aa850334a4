"""No secret that a command or a server is given appears in anything that it writes.

Each secret has a mark: in the environment, in files, in URLs, in requests. The marks are searched for in the
output of commands and in every file that they leave: results, traces, reports, spools, databases. Of servers
they are searched for in their logs, pages and files, and in the command lines of all their processes.
"""

import contextlib
import hmac
import http.client
import io
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import boto3
import pytest
from botocore.config import Config

from fencepost.commands.entry import SUMMARIES
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.http.tokens import Principal
from fencepost.impl.ingest.service.requests import token_file
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.credentials import Credentials
from fencepost.impl.objects.temporary import Unflushed
from tests.commands.running import Run
from tests.impl.objects.serving import served
from tests.servers.fleet import free_ports
from tests.sim.proxy.upstream import upstream

PATHS = Config(s3={"addressing_style": "path"})
MARK = "MARKEDSECRET"
ROOT = f"{MARK}-root-token-0123456789"
AWS = f"{MARK}/aws/secret+key"
SESSION = f"{MARK}-session-token"
URL_PASSWORD = f"{MARK}-in-a-url"
INVALID = f"{MARK}-invalid"
DERIVED = hmac.digest(ROOT.encode(), b"root", "sha256").hex()
"""The secret key of `root` of an object server with this token."""
POINTS = '{"name": "cpu.load", "labels": {"host": "a"}, "unix_ns": 17, "value": 0.5}\n'
BUCKET = "bucket-one"

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "root",
    "AWS_SECRET_ACCESS_KEY": DERIVED,
    "AWS_SESSION_TOKEN": "",
    "FENCEPOST_OBJECTS_ROOT_TOKEN": ROOT,
    "FENCEPOST_INGEST_TOKEN": f"01ABC.{MARK}",
    "AWS_REGION": "us-east-1",
}


def shown_in(content: bytes, secrets: Mapping[str, str]) -> list[str]:
    """The names of the secrets that the content has, as they are, quoted, or in hexadecimal."""
    return [
        name
        for name, secret in secrets.items()
        if any(
            form in content
            for form in (secret.encode(), quote(secret, safe="").encode(), secret.encode().hex().encode())
        )
    ]


SECRETS = {
    "the root token": ROOT,
    "the secret key": DERIVED,
    "the AWS secret": AWS,
    "the session token": SESSION,
    "the password of a URL": URL_PASSWORD,
    "an invalid token": INVALID,
    "a mark": MARK,
}


PROGRAM = """
from fencepost.impl.store import ABSENT
def fixed(world):
    def claim(store, name):
        store.put("leader", name.encode(), when=ABSENT)
    for name in ("ann", "bob"):
        world.spawn(claim, world.store(), name, name=name)
    world.finally_("somebody leads", lambda view: view.get("leader") is not None)
"""

URL = f"user:{URL_PASSWORD}@"
LINES = f"""
check two-phase --set managers=2 --json check.json
zoo two-phase --json zoo.json
audit mine.py:fixed --faults none --json audit.json --resume search.json
simulate publish-rtt --out simulated
probe http://{URL}127.0.0.1:1
probe s3://{URL}bucket?endpoint=http://127.0.0.1:1
probe s3://bucket?endpoint=http://{URL}127.0.0.1:1
probe file://{URL}host/x
catalog init STORE
catalog put STORE person=people.csv --key id --author ann
catalog log STORE
catalog init s3://bucket?endpoint=http://{URL}127.0.0.1:1
ingest enrol tokens.json agent-a --token-file agent.token
ingest send points.jsonl --spool spool --agent agent-a --collector http://127.0.0.1:1 --give-up-after 0.1
ingest send points.jsonl --spool spool --agent agent-a --collector http://{URL}127.0.0.1:1
ingest send points.jsonl --spool spool --agent agent-a --collector ftp://{URL}host
ingest policy arn:aws:s3:::bucket
ingest reconcile --store STORE
streams create STORE /s
streams append STORE /s
streams status STORE /s
streams create s3://bucket?endpoint=http://{URL}127.0.0.1:1 /s
objects reconcile nowhere
objects serve root --listen x
lifecycle status STORE
lifecycle status s3://bucket?endpoint=http://{URL}127.0.0.1:1
proxy http://{URL}127.0.0.1:1
proxy http://127.0.0.1:1 --listen x
replay audit.json
report . --out page.html
completion bash
""".strip().splitlines()
SLOW_LINES = ["probe STORE --only create-only-put --rounds 3 --quick --json probe.json"]
LEFT_OUT = {"demo": "it runs check, audit, simulate, replay and report, without a store of a user"}
"""Commands that no line tries, with the reason."""


def test_every_command_is_tried() -> None:
    tried = {line.split()[0] for line in LINES}
    assert tried >= set(SUMMARIES) - set(LEFT_OUT)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        if value:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"appended")))
    (tmp_path / "mine.py").write_text(PROGRAM)
    (tmp_path / "people.csv").write_text("id,name\n1,Ada\n")
    (tmp_path / "points.jsonl").write_text(POINTS)
    (tmp_path / "x.root").write_text(ROOT)
    return tmp_path


def test_no_command_shows_a_secret(folder: Path, ran: Run, caplog: pytest.LogCaptureFixture) -> None:
    """It may succeed, or refuse what it was given."""
    run_all(LINES, folder, ran, caplog)


@pytest.mark.slow
def test_no_slow_command_shows_a_secret(folder: Path, ran: Run, caplog: pytest.LogCaptureFixture) -> None:
    run_all([*SLOW_LINES, LINES[0]], folder, ran, caplog)


def run_all(lines: list[str], folder: Path, ran: Run, caplog: pytest.LogCaptureFixture) -> None:
    given = {path for path in folder.rglob("*") if path.is_file()}
    caplog.set_level("DEBUG")
    codes = Counter[int]()
    with served(folder / "objects", Credentials(ROOT), disk=Unflushed()) as address:
        # A session of its own: an earlier test may have left its credentials in the default one.
        boto3.Session().client("s3", endpoint_url=address, config=PATHS).create_bucket(Bucket=BUCKET)
        store = f"s3://{BUCKET}?endpoint={address}"
        for line in lines:
            code, out, err = ran(*(word.replace("STORE", store) for word in line.split()))
            codes[code] += 1
            found = shown_in((out + err + caplog.text).encode(errors="replace"), SECRETS)
            assert found == [], f"{line} shows {found}: {out} {err}"
            caplog.clear()
    assert codes[0] >= len(lines) / 3, f"hardly a command succeeded: {codes}"
    left = [path for path in folder.rglob("*") if path.is_file() and path not in given]
    token = folder / "agent.token"
    secrets = {**SECRETS, "a token": token.read_text().strip()} if token.exists() else SECRETS
    for path in left:
        if path == token:
            assert path.stat().st_mode & 0o077 == 0
        else:
            assert shown_in(path.read_bytes(), secrets) == [], path


# Servers.


def processes_below(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(below for child in children for below in processes_below(int(child)))]


class Running:
    """A server as a process, and what it writes."""

    def __init__(self, words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "server.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fencepost", *words],
                stdout=out, stderr=out, cwd=folder, env={**os.environ, **environment},
            )  # fmt: skip

    def wait_for(self, port: int) -> None:
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            with contextlib.suppress(OSError):
                ask(port, "GET", "/healthz")
                return
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def ask(
    port: int, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return str(response.getheaders()).encode() + response.read()


def commands_of(name: str, folder: Path, port: int, behind: str) -> list[str]:
    listen = ["--listen", f"127.0.0.1:{port}"]
    root = folder / "root.token"
    if name == "ingest":
        tokens = ["--agents", str(folder / "tokens.json")]
        return ["ingest", "serve", "--store", (folder / "store").as_uri(), *tokens, *listen, "--verbose"]
    if name == "streams":
        return ["streams", "serve", (folder / "store").as_uri(), "--state", str(folder / "state"), *listen]
    if name == "lifecycle":
        return ["lifecycle", "run", str(folder / "store"), *listen]
    if name == "proxy":
        return ["proxy", behind, *listen]
    workers = ["--workers", "2"] if name == "objects with workers" else []
    verb = "supervise" if name == "objects supervise" else "serve"
    return ["objects", verb, str(folder / "store"), "--root-token-file", str(root), *listen, *workers]


SERVERS = ("objects", "objects with workers", "objects supervise", "ingest", "streams", "lifecycle", "proxy")


@pytest.mark.server
@pytest.mark.parametrize("name", SERVERS)
def test_no_server_shows_a_secret(name: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    agent = token_file(tmp_path / "tokens.json").enrol(Principal("agent", "agent-a"), SystemEnvironment())
    secrets = {**SECRETS, "the token of the agent": agent, "its secret half": agent.partition(".")[2]}
    (tmp_path / "root.token").write_text(ROOT)
    if name == "lifecycle":
        buckets = Buckets(str(tmp_path / "store"))
        buckets.create(BUCKET)
        buckets.close()
    environment = {**ENVIRONMENT, "AWS_SESSION_TOKEN": SESSION, "AWS_SECRET_ACCESS_KEY": AWS}
    del environment["FENCEPOST_OBJECTS_ROOT_TOKEN"]
    stack = contextlib.ExitStack()
    behind = stack.enter_context(upstream()).url
    server = Running(commands_of(name, tmp_path, port, behind), tmp_path, environment)
    try:
        server.wait_for(port)
        seen = b""
        bearer = [{"authorization": f"Bearer {token}"} for token in (agent, ROOT, INVALID)]
        scope = f"Credential={INVALID}/20260101/us-east-1/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature={INVALID}"
        signed = [{"authorization": text, "x-amz-security-token": SESSION}]
        query = f"X-Amz-Signature={INVALID}&X-Amz-Security-Token={SESSION}&token={INVALID}"
        paths = ("/", "/v1/batches", "/v1/buckets", f"/{BUCKET}/k", f"/{BUCKET}/k?{query}", "/metrics")
        for path in (*paths, "/status.json", "/openapi.json", "/readyz"):
            for headers in ({}, *bearer, *signed):
                for method in ("GET", "PUT", "POST"):
                    with contextlib.suppress(http.client.HTTPException, OSError):
                        answer = ask(port, method, path, headers, b"x" if method != "GET" else None)
                        # An S3 error names what was sent to it, to its sender alone.
                        seen += b"" if "?" in path or headers in signed else answer
        assert shown_in(seen, secrets) == []
        for pid in processes_below(server.process.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            assert shown_in(words, secrets) == [], words
    finally:
        server.stop()
        stack.close()
    assert shown_in(server.log.read_bytes(), secrets) == [], server.log.read_text()
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "root.token":
            assert shown_in(path.read_bytes(), secrets) == [], path
