"""`fencepost probe` against `fencepost objects serve`: a table of feature x setting.

    python -m tests.servers.probes docs/reference/objects-probe.md [SECONDS]

A cell is the verdict, and of a race how many rounds there were. `SECONDS` limits each probe: with less time
the rounds are fewer, and the page stays as it is if it has more.

Fails if a row is unsafe or unsupported, or undecided although no reply was lost. Through the proxy a row may
be undecided: a lost reply decides nothing.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import boto3

from tests.sessions import end

TOKEN = "a root token of the probes"
BUCKET = "bucket-one"
FAULTS = ("--latency", "2ms/20ms", "--throttled", "1%", "--reply-lost", "1%", "--late", "0.5%")


class Setting(NamedTuple):
    workers: int
    versioned: bool = False
    faults: bool = False


SETTINGS = {
    "1 worker": Setting(1),
    "4 workers": Setting(4),
    "4 workers, versions": Setting(4, versioned=True),
    "4 workers, faults": Setting(4, faults=True),
}


def probed(setting: Setting, *options: str) -> dict[str, Any]:
    """The result of the probe, as JSON."""
    with tempfile.TemporaryDirectory() as directory, _serving(Path(directory), setting) as address:
        return result_of(f"s3://{BUCKET}/p?endpoint={address}", *options, environment=_keys())


def result_of(
    url: str, *options: str, environment: Mapping[str, str], seconds_max: float | None = None
) -> dict[str, Any]:
    """Return the result of a probe of this URL, as JSON.

    Raises `AssertionError` with the message of a probe that has none, or that is stopped after `seconds_max`.
    """
    with tempfile.TemporaryDirectory() as directory:
        result, log = Path(directory, "probe.json"), Path(directory, "log")
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "fencepost", "probe", url, *options, "--json", str(result)],
                stdout=subprocess.DEVNULL, stderr=stderr, env={**os.environ, **environment},
                process_group=0,  # the rivals of a probe are processes too
            )  # fmt: skip
            try:
                process.wait(seconds_max)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"the probe was stopped after {seconds_max:g} s") from None
            finally:
                end(process)
        if not result.exists():
            raise AssertionError(log.read_text().strip() or f"the probe ended with {process.returncode}")
        found: dict[str, Any] = json.loads(result.read_text())
        return found


@contextlib.contextmanager
def _serving(directory: Path, setting: Setting) -> Iterator[str]:
    serve = ["objects", "serve", str(directory / "data"), "--listen", "127.0.0.1:0"]
    with _started(*serve, "--workers", str(setting.workers)) as address:
        keys = _keys()
        s3 = boto3.client(
            "s3",
            endpoint_url=address,
            region_name="us-east-1",
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
        )
        s3.create_bucket(Bucket=BUCKET)
        if setting.versioned:
            s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        if not setting.faults:
            yield address
            return
        with _started("proxy", address, "--listen", "127.0.0.1:0", *FAULTS) as through:
            yield through


@contextlib.contextmanager
def _started(*arguments: str) -> Iterator[str]:
    """The address that it prints first."""
    with subprocess.Popen(
        [sys.executable, "-m", "fencepost", *arguments],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": TOKEN},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None, f"{arguments[0]} did not start"
            yield found[0]
        finally:
            process.terminate()


def _keys() -> dict[str, str]:
    secret = _run("objects", "token", "root", environment={"FENCEPOST_OBJECTS_ROOT_TOKEN": TOKEN})
    return {
        "AWS_ACCESS_KEY_ID": "root",
        "AWS_SECRET_ACCESS_KEY": secret.stdout.strip(),
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def _run(*arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fencepost", *arguments],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def table(results: dict[str, dict[str, Any]]) -> str:
    names = [feature["name"] for feature in next(iter(results.values()))["features"]]
    rows = [f"| feature | {' | '.join(results)} |", f"|---|{'---|' * len(results)}"]
    for name in names:
        cells = [
            _cell(feature)
            for found in results.values()
            for feature in found["features"]
            if feature["name"] == name
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    requests = ", ".join(f"{setting} {found['requests']:,}" for setting, found in results.items())
    return "\n".join([_HEAD, *rows, "", f"Requests: {requests}.", ""])


def _cell(feature: dict[str, Any]) -> str:
    if not feature["applies"]:
        return "-"
    rounds = f" ({feature['bad']} bad of {feature['rounds']:,})" if feature["rounds"] else ""
    return f"{feature['verdict']}{rounds}"


_HEAD = f"""# What the probe finds on our object server

<!-- Written by `nox -s probes`; run it, not an editor. -->

`fencepost probe` on a bucket of `fencepost objects serve`. Races show how many rounds were bad. The last
column goes through `fencepost proxy {" ".join(FAULTS)}`.
"""


def failures(results: dict[str, dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return the rows that a page must not have: setting, feature and verdict."""
    return [
        (name, feature["name"], feature["verdict"])
        for name, found in results.items()
        for feature in found["features"]
        if feature["applies"] and feature["verdict"] not in _ALLOWED[SETTINGS[name].faults]
    ]


_ALLOWED = {False: ("safe",), True: ("safe", "undecided")}
"""Verdicts without and with faults."""


def evidence(page: str) -> tuple[int, int]:
    """Return the number of rows that are decided, and of rounds, in a page."""
    cells = [cell for line in page.splitlines() if line.startswith("| ") for cell in line.split("|")[2:-1]]
    rounds = [found[1] for cell in cells if (found := re.search(r"bad of ([\d,]+)", cell))]
    decided = sum(cell.strip().startswith(("safe", "unsafe", "unsupported")) for cell in cells)
    return decided, sum(int(number.replace(",", "")) for number in rounds)


def write(path: Path, page: str) -> bool:
    """Write the page unless the present one has more evidence; return True if it was written."""
    if path.exists() and evidence(path.read_text()) > evidence(page):
        return False
    path.write_text(page)
    return True


def main() -> int:
    path, seconds = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "120"
    results = {name: probed(setting, "--budget", seconds) for name, setting in SETTINGS.items()}
    found = failures(results)
    sys.stdout.write("".join(f"{' '.join(row)}\n" for row in found))
    if not write(path, table(results)):
        sys.stdout.write(f"{path} stays as it is: it has more rows decided, or more rounds\n{table(results)}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
