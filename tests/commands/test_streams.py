"""`fencepost streams`: who can reach a server, and with which tokens."""

import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from fencepost.impl.http.server import Server
from fencepost.impl.streams import Configuration, Node
from tests.impl.ingest_service.test_tls import self_signed

from .running import exit_of

VARIABLES = {
    "DS_EXPIRY_SWEEP_MS": "250",
    "DS_RETENTION_SCAN_MS": "0",
    "DS_RETENTION_REAP_LIMIT": "7",
    "DS_RETENTION_DELETE_CONCURRENCY": "9",
}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    """The nodes of servers, each of which ends at once after a stream was created."""
    found: list[Node] = []

    def run(self: Server, sockets: object) -> None:
        node = self._service.node
        node.create("/a", Configuration("text/plain"), b"data")
        found.append(node)

    monkeypatch.setattr(Server, "run", run)
    return found


def test_without_a_url_the_streams_lie_beside_the_state(
    served: list[Node], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_of("streams", "serve", "--state", f"{tmp_path}/here", "--listen", "127.0.0.1:0") == 0
    assert len(served) == 1
    capsys.readouterr()
    assert exit_of("streams", "read", f"file://{tmp_path}/here/objects", "/a") == 0
    assert "data" in capsys.readouterr().out


def test_variables_are_defaults_of_options(
    served: list[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    words = ("streams", "serve", f"file://{tmp_path}/store", "--listen", "127.0.0.1:0")
    assert exit_of(*words) == 0
    assert exit_of(*words, "--reap-limit", "3") == 0
    first, second = (node.settings for node in served)
    assert (first.sweep_s, first.scan_s, first.reap_limit, first.delete_concurrency) == (0.25, 0.0, 7, 9)
    assert (second.sweep_s, second.reap_limit) == (0.25, 3)


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert exit_of("streams", *words) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    return found.err


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[2001:db8::1]:80", "192.0.2.1:80", "example.org:80"])
def test_nobody_serves_other_machines_without_tokens_by_mistake(
    listen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everyone could read and delete every stream."""
    text = complaint(capsys, "serve", f"file://{tmp_path}/store", "--listen", listen)
    assert "--tokens" in text
    assert "--anonymous" in text
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--anonymous", "--tokens", "TOKENS"], "--anonymous"),
        (["--tokens", "none.json"], "cannot read the token file none.json"),
        (["--tls-key", "key.pem"], "come together"),
        (["--tls-key", "none.pem", "--tls-certificate", "none.pem"], "cannot set up TLS"),
    ],
)
def test_options_that_cannot_be_are_one_line(
    words: list[str],
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_of("streams", "enrol", "TOKENS", "a", "--grant", "/=read") == 0
    capsys.readouterr()
    assert text in complaint(capsys, "serve", f"file://{tmp_path}/store", *words)


@pytest.mark.parametrize("grant", ["/a", "a=read", "/a=write", "/a=", "/a=read,", "=read"])
def test_a_grant_that_is_none_is_refused_and_leaves_no_file(
    grant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.token"
    words = ["enrol", str(tmp_path / "t.json"), "a", "--grant", grant, "--token-file", str(out)]
    assert "--grant" in complaint(capsys, *words)
    assert [*tmp_path.iterdir()] == []


@contextlib.contextmanager
def serving(folder: Path, *words: str) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "fencepost", "streams", "serve", f"file://{folder}/store", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED":
        "1"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@pytest.mark.server
def test_tokens_and_tls_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens, (certificate, key) = tmp_path / "tokens.json", self_signed(tmp_path)
    given = {}
    for name, grant in (("writer", "/orders=create,append"), ("reader", "/orders=read")):
        assert exit_of("streams", "enrol", str(tokens), name, "--grant", grant) == 0
        given[name] = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    tls = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    with (
        serving(tmp_path, "--listen", "127.0.0.1:0", "--tokens", str(tokens), *tls) as url,
        httpx.Client(
            trust_env=False, verify=ssl.create_default_context(cafile=certificate), base_url=url
        ) as client,
    ):
        assert url.startswith("https://")
        text = {"content-type": "text/plain"}
        assert client.put("/orders/a", headers=given["writer"] | text, content=b"x").status_code == 201
        assert client.get("/orders/a", headers=given["writer"]).status_code == 403
        assert client.get("/orders/a", headers=given["reader"]).content == b"x"
        assert client.get("/orders/a").status_code == 401
        assert exit_of("streams", "revoke", str(tokens), "reader") == 0
        assert client.get("/orders/a", headers=given["reader"]).status_code == 401


@pytest.mark.server
def test_everyone_is_served_where_that_is_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0.0.0.0:0", "--anonymous") as url:
        port = url.rpartition(":")[2]
        with httpx.Client(trust_env=False) as client:
            assert client.put(f"http://127.0.0.1:{port}/a").status_code == 201
