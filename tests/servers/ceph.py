"""The public S3 tests of Ceph against our server: a table of outcomes by category.

    python -m tests.servers.ceph SUITE OUT [WORDS OF PYTEST ...]

SUITE is a checkout of https://github.com/ceph/s3-tests, which no package index has; install what it requires.
OUT gets the table, and what failed in each category; the report is beside it, as XML. The server is
`fencepost objects serve --memory`; the second user of the suite is a named key without rights.

Its exit code is 0 whatever fails: many tests are of Ceph's own, or of services that the server does not have.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

TOKEN = "a root token of the suite of ceph"
FILES = ("s3tests/functional/test_s3.py", "s3tests/functional/test_headers.py")
MARKS, NOT_AWS = "marks", "fails_on_aws"
"""The property of a test in the report that has the names of its marks, and the mark of what AWS fails."""
OUTCOMES = ("passed", "failed", NOT_AWS, "skipped")
OTHER_SERVICES = ("iam", "sts", "sns", "s3select", "role", "webidentity", "token_", "session_policy")
"""Starts of marks of tests of services besides S3."""
CATEGORIES: tuple[tuple[str, str, str], ...] = (
    ("encryption", r"encryption|sse_s3", r"sse|encrypt"),
    ("POST and CORS", r"cors", r"post_object|cors"),
    ("policies", r"bucket_policy|user_policy|group_policy", r"policy|public_block"),
    ("ACL and ownership", r"object_ownership", r"acl|grant|ownership|access_bucket|object_anon|raw_"),
    ("logging", r"bucket_logging.*", r"logging"),
    ("lifecycle", r"lifecycle.*|cloud_.*", r"lifecycle"),
    ("website", r"s3website.*", r"website"),
    ("conditional writes", r"conditional_write", r"ifmatch|ifnonmatch|ifnonematch|conditional"),
    ("object lock", r"object_lock", r"object_lock"),
    ("versioning", r"versioning|delete_marker", r"version"),
    ("multipart", r"", r"multipart"),
    ("checksums", r"checksum", r"checksum"),
    ("tagging", r"tagging", r"tagging|tags"),
    ("copies", r"copy", r"copy"),
    ("listings", r"list_objects_v2", r"list"),
    ("headers and signatures", r"auth_.*", r"headers|bad_|presigned"),
    ("objects", r"", r"object|ranged|atomic"),
    ("buckets", r"", r"bucket"),
)
"""Name of a category, and patterns of the marks and names of its tests; the first that fits is taken."""
CORE = {"conditional writes", "object lock", "versioning", "multipart", "checksums", "tagging", "copies",
        "listings", "headers and signatures", "objects", "buckets"}  # fmt: skip


def category(name: str, marks: Sequence[str]) -> str:
    """Return the category of a test, by its marks and otherwise by its name."""
    if any(mark.startswith(OTHER_SERVICES) for mark in marks):
        return "other services"
    by_mark = (one for one, of_marks, _ in CATEGORIES if any(re.fullmatch(of_marks, mark) for mark in marks))
    by_name = (one for one, _, of_names in CATEGORIES if re.search(of_names, name))
    return next(by_mark, next(by_name, "others"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Write the marks of each test into the report. pytest calls it where this module is a plugin."""
    for item in items:
        item.user_properties.append((MARKS, " ".join(mark.name for mark in item.iter_markers())))


def outcomes(report: ET.Element) -> Iterator[tuple[str, str, str]]:
    """Yield name, category and outcome of each test of a JUnit report."""
    for case in report.iter("testcase"):
        found = case.find(f"properties/property[@name='{MARKS}']")
        marks = found.get("value", "").split() if found is not None else []
        name = case.get("name", "")
        failed = case.find("failure") is not None or case.find("error") is not None
        outcome = "failed" if failed else "skipped" if case.find("skipped") is not None else "passed"
        if outcome == "failed" and NOT_AWS in marks:
            outcome = NOT_AWS
        yield name, category(name, marks), outcome


def table(report: ET.Element) -> str:
    counts: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, where, outcome in outcomes(report):
        counts[where][outcome].append(name)
    lines = ["| category | passed | failed | failed, as on AWS | skipped |", "|---|---|---|---|---|"]

    def row(title: str, names: Sequence[str]) -> str:
        cells = [sum(len(counts[name][one]) for name in names) for one in OUTCOMES]
        return f"| {title} | {' | '.join(map(str, cells))} |"

    lines += [row(name, [name]) for name in sorted(counts)]
    lines += [row("**core**", sorted(CORE & counts.keys())), row("**all**", sorted(counts))]
    for name in sorted(counts):
        if counts[name]["failed"]:
            lines += ["", f"Failed of {name}: {', '.join(sorted(counts[name]['failed']))}."]
    return "\n".join([*lines, ""])


def settings(address: str, secret: str, other: str, other_secret: str) -> str:
    """The configuration file of the suite."""
    host, _, port = address.removeprefix("http://").partition(":")
    sections = {
        "DEFAULT": {"host": host, "port": port, "is_secure": "False", "ssl_verify": "False"},
        "fixtures": {"bucket prefix": "ceph-{random}-", "iam name prefix": "s3-", "iam path prefix": "/s3/"},
    }
    for name in ("s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root"):
        is_main = name == "s3 main"
        sections[name] = {
            "display_name": "fencepost" if is_main else "other",
            "user_id": "fencepost" if is_main else "other",
            "email": f"{name.replace(' ', '-')}@example.com",
            "api_name": "",
            "tenant": "tenant",
            "access_key": "root" if is_main else other,
            "secret_key": secret if is_main else other_secret,
        }
    texts = [
        [f"[{name}]", *(f"{key} = {value}" for key, value in one.items())] for name, one in sections.items()
    ]
    return "\n".join(line for text in texts for line in text) + "\n"


def _fencepost(*words: str) -> str:
    environment = {**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": TOKEN}
    command = [sys.executable, "-m", "fencepost", "objects", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


@contextlib.contextmanager
def _serving(tokens: Path) -> Iterator[str]:
    words = ["objects", "serve", "--memory", "--listen", "127.0.0.1:0", "--tokens", str(tokens)]
    with subprocess.Popen(
        [sys.executable, "-m", "fencepost", *words],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "FENCEPOST_OBJECTS_ROOT_TOKEN": TOKEN},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None, "the server did not start"
            yield found[0]
        finally:
            process.terminate()


def run(suite: Path, report: Path, words: Sequence[str]) -> None:
    """Run the suite against a server of its own, and write its report."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        tokens = folder / "tokens.json"
        other = _fencepost("enrol", str(tokens), "other", "--grant", "/nothing=read").partition(".")[0]
        with _serving(tokens) as address:
            secrets = [_fencepost("token", key) for key in ("root", other)]
            (folder / "conf").write_text(settings(address, secrets[0], other, secrets[1]))
            paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
            environment = {
                **os.environ, "S3TEST_CONF": str(folder / "conf"), "PYTHONPATH": os.pathsep.join(paths),
            }  # fmt: skip
            options = ["-p", "tests.servers.ceph", "-p", "no:fencepost", "-p", "no:cacheprovider", "-q"]
            options += [f"--junitxml={report}", "-W", "default", *words]
            options += [] if any(".py" in word for word in words) else FILES
            subprocess.run(
                [sys.executable, "-m", "pytest", *options], cwd=suite, env=environment, check=False
            )


def main() -> int:
    suite, out, *words = sys.argv[1:]
    if not Path(suite, "s3tests").is_dir():
        sys.stderr.write(f"{suite} is no checkout of https://github.com/ceph/s3-tests\n")
        return 2
    path = Path(out).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    report = path.with_suffix(".xml")
    run(Path(suite), report, words)
    page = table(ET.parse(report).getroot())
    path.write_text(page)
    sys.stdout.write(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
