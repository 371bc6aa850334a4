"""A real standalone cluster on loopback: a master and two workers, each a process of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

WORKERS = 2


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The master's URL, while it runs. Every process is ended by its own id."""
    with cluster_and_workers(folder) as (url, _):
        yield url


@contextlib.contextmanager
def cluster_and_workers(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The same, with the processes of the workers; one may be killed."""
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    started: list[subprocess.Popen[bytes]] = []
    try:
        master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        started.append(_start(master, folder / "master.log"))
        _wait_for(port, started[0], folder / "master.log")
        for number in range(WORKERS):
            words = ["--host", "127.0.0.1", "--cores", "1", "--memory", "2g", "--webui-port", "0"]
            own = folder / f"worker-{number}"
            own.mkdir()
            started.append(_start(["worker.Worker", *words, "-d", str(own), url], own / "log"))
        yield url, started[1:]
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def started_by(parent: int) -> list[int]:
    """The processes that another started: the executors of a worker."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def _start(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    import pyspark  # only those who run these tests have it

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",  # the pages that it serves, too, are for this machine only
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "512m",
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{words[0]}", *words[1:]]
    with log.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert process.poll() is None, log.read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"the master does not listen: {log.read_text()}")
