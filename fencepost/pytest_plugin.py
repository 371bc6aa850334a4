"""The pytest plugin: audited tests report their counterexamples, their bounds, and how to replay them.

pytest loads it in every project in which Fencepost is installed, so it imports nothing but pytest, and
does next to nothing in a session without audited tests.

Under pytest-xdist the results travel with the test reports, and the process that prints sums them up.
"""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fencepost.sim.explore.result import AuditResult
    from fencepost.testing import Options

STRATEGIES = ("portfolio", "exhaustive", "pct", "random", "hypothesis")
KEY = "fencepost"
COLOURS = {"holds": "green", "violated": "red", "undecided": "yellow"}

present: "Present | None" = None
"""The test that is running: where `fencepost.testing` finds its options and leaves its results."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fencepost", "audits (fencepost)")
    group.addoption("--fencepost-strategy", choices=STRATEGIES, help="How audited tests explore schedules.")
    group.addoption(
        "--fencepost-budget",
        metavar="SECONDS",
        type=_above_zero,
        help="How long each audited test may explore.",
    )
    group.addoption("--fencepost-seed", metavar="N", type=int, help="The seed of audited tests.")
    group.addoption(
        "--fencepost-undecided",
        choices=("fail", "pass"),
        help="Whether an audited test fails when time ran out before all was explored.",
    )
    group.addoption(
        "--fencepost-profile",
        metavar="NAME",
        help="Options of audited tests: fast, ci, deep, or one of yours.",
    )
    group.addoption(
        "--fencepost-token", metavar="TOKEN", help="Replay the one schedule of the one test that is selected."
    )
    for name, text in (
        ("strategy", "how audited tests explore schedules, unless they have an option of their own"),
        ("budget", "seconds each audited test may explore, unless it has an option of its own"),
        ("seed", "the seed of audited tests"),
        ("wait_rounds", "rounds of a loop that waits, before it is held back in audited tests"),
        ("undecided", "fail or pass, when time ran out before all was explored"),
        (
            "profile",
            "the profile of audited tests, unless --fencepost-profile or FENCEPOST_PROFILE names one",
        ),
    ):
        parser.addini(f"fencepost_{name}", text, default=None)


def _above_zero(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fencepost-token") is not None and config.getoption("numprocesses", None):
        raise pytest.UsageError("--fencepost-token replays one test; leave out -n, or add -n 0")
    for name, reads in (("budget", _above_zero), ("seed", int), ("wait_rounds", _above_zero)):
        value = config.getini(f"fencepost_{name}")
        try:
            if value is not None:
                reads(value)
        except ValueError:
            raise pytest.UsageError(f"fencepost_{name} = {value} in the configuration is no number") from None
    for name, known in (("strategy", STRATEGIES), ("undecided", ("fail", "pass"))):
        value = config.getini(f"fencepost_{name}")
        if value is not None and value not in known:
            raise pytest.UsageError(
                f"fencepost_{name} = {value} in the configuration; choose from {', '.join(known)}"
            )

    config.stash[_PROFILE] = _profile(config)


_PROFILE = pytest.StashKey["Options | None"]()


def _profile(config: pytest.Config) -> "Options | None":
    """Return the options of the profile that the command line, the environment or the configuration names."""
    ways = config.getoption("--fencepost-profile"), os.environ.get("FENCEPOST_PROFILE")
    name = next(filter(None, ways), config.getini("fencepost_profile"))
    if not name:
        return None
    from fencepost.commands.defaults import table_near
    from fencepost.commands.exit_codes import BadRequest
    from fencepost.testing import profile_of

    try:
        own = table_near(config.rootpath)[1].get("profiles", {})
        return profile_of(name, own if isinstance(own, Mapping) else {})
    except (BadRequest, ValueError) as error:
        raise pytest.UsageError(str(error)) from None


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if config.getoption("--fencepost-token") is None:
        return
    count = sum(_is_audited(item) for item in session.items)
    if count > 1:
        raise pytest.UsageError(
            f"--fencepost-token replays one test, and {count} audited tests are selected; name the one that "
            "printed the token, as in pytest test_file.py::test_name --fencepost-token=..."
        )


def _is_audited(item: pytest.Item) -> bool:
    return hasattr(getattr(item, "obj", None), "__fencepost__") or "fencepost_audit" in getattr(
        item, "fixturenames", ()
    )


@pytest.fixture
def fencepost_audit() -> "Callable[..., AuditResult]":
    """Audit a program inside of a test: fencepost_audit(program, crash=1, ...) gives the result."""
    from fencepost.testing import check_program, options_of, run, unwrapped

    def audit(program: Callable[..., Any], /, **options: Any) -> "AuditResult":
        function, declared = unwrapped(program)
        check_program(function)
        return run(function, declared.under(options_of(options)), {})

    return audit


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    global present
    if not _is_audited(item):
        return (yield)
    present = Present(item)
    try:
        _refuse_fixtures(item)
        return (yield)
    finally:
        item.stash[_RESULTS] = present.results
        present = None


_RESULTS = pytest.StashKey[list[dict[str, Any]]]()


def _refuse_fixtures(item: pytest.Item) -> None:
    """A fixture of function scope is set up once, and all schedules would share what it made."""
    from fencepost.testing import AuditFailed, unwrapped

    function = getattr(item, "obj", None)
    if not hasattr(function, "__fencepost__") or unwrapped(function)[1].shared_fixtures:
        return
    found: Any = getattr(item, "_fixtureinfo", None)
    for name in found.argnames if found is not None else ():
        for fixture in found.name2fixturedefs.get(name, ())[-1:]:
            # A plain parameter of `parametrize` is a fixture inside pytest, and a value for everybody else.
            is_value = fixture.func.__name__ == "get_direct_param_fixture_func"
            if fixture.scope == "function" and not is_value:
                raise AuditFailed(
                    f"the fixture {name!r} is set up once for the test, and not for each schedule that the "
                    "test runs: what one schedule leaves behind, the next would find. Make what it gives "
                    "inside of the test; or, when no schedule changes it, give the fixture scope='module' "
                    "or the audit shared_fixtures=True"
                )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when != "call" or _RESULTS not in item.stash:
        return report
    results = item.stash[_RESULTS]
    if results:
        setattr(report, KEY, results)
    if call.excinfo is not None and type(call.excinfo.value).__name__ == "AuditFailed" and report.failed:
        report.longrepr = _failure_of(item, call.excinfo)
    return report


def _failure_of(item: pytest.Item, failure: pytest.ExceptionInfo[BaseException]) -> Any:
    """The failure without the lines of the harness, which do not help; the counterexample is a section."""
    reason, _, counterexample = str(failure.value).partition("\n\n")
    shown: Any = failure.getrepr(style="value")
    shown.reprtraceback.reprentries[-1].lines[:] = [f"E   {reason}"]
    if counterexample:
        shown.addsection("fencepost", counterexample, "-")
    if shown.reprcrash is not None:
        shown.reprcrash.message = reason
        shown.reprcrash.path = str(item.path)
        shown.reprcrash.lineno = (item.location[1] or 0) + 1
    return shown


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """A line for every audit: its verdict, the schedules run, and what was proven."""
    rows = [
        (report.nodeid, result)
        for reports in terminalreporter.stats.values()
        for report in reports
        for result in getattr(report, KEY, ())
    ]
    if not rows:
        return
    from fencepost.reports.media import one_line

    terminalreporter.section("fencepost")
    for name, result in rows if config.get_verbosity() >= 0 else ():
        colour = {COLOURS[result["verdict"]]: True}
        terminalreporter.write(f"{result['verdict']:<10}", **colour)
        terminalreporter.line(
            f" {name}: {result['schedules']:,} interleavings, {result['seconds']:.1f} s; "
            f"{one_line(result['bound'])}"
        )
        if result["cost"]:
            terminalreporter.line(f"{'':<10} requests/hops at most: {one_line(result['cost'])}")
        for finding in result["findings"]:
            terminalreporter.line(f"{'':<10} finding: {one_line(finding)}", yellow=True)
    counts = [
        f"{sum(1 for _, result in rows if result['verdict'] == verdict)} {word}"
        for verdict, word in (("holds", "hold"), ("violated", "violated"), ("undecided", "undecided"))
        if any(result["verdict"] == verdict for _, result in rows)
    ]
    total = sum(result["schedules"] for _, result in rows)
    terminalreporter.line(f"{', '.join(counts)}; {total:,} interleavings run")


class Present:
    """One running test, as `fencepost.testing` sees it."""

    def __init__(self, item: pytest.Item) -> None:
        from fencepost.testing import Options

        self._item = item
        self.name = item.nodeid
        self.results: list[dict[str, Any]] = []
        config = item.config
        budget, seed = config.getini("fencepost_budget"), config.getini("fencepost_seed")
        rounds = config.getini("fencepost_wait_rounds")
        self.weaker = Options(
            strategy=config.getini("fencepost_strategy"),
            seconds=None if budget is None else float(budget),
            seed=None if seed is None else int(seed),
            wait_rounds=None if rounds is None else int(rounds),
            undecided=config.getini("fencepost_undecided"),
        )
        if profile := config.stash[_PROFILE]:
            self.weaker = self.weaker.under(profile)
        self.stronger = Options(
            strategy=config.getoption("--fencepost-strategy"),
            seconds=config.getoption("--fencepost-budget"),
            seed=config.getoption("--fencepost-seed"),
            undecided=config.getoption("--fencepost-undecided"),
            token=config.getoption("--fencepost-token"),
        )

    @property
    def memory(self) -> Path | None:
        """The file that remembers the token of this test's failure: it is tried first the next time."""
        cache = getattr(self._item.config, "cache", None)
        name = hashlib.sha256(self.name.encode()).hexdigest()[:16]
        try:
            return None if cache is None else cache.mkdir("fencepost") / name
        except OSError:
            return None  # a project that cannot be written to is audited all the same

    def record(self, result: "AuditResult", why: str) -> None:
        """Keep the part of the result that the summary needs; it travels with the report."""
        from fencepost.reports.audit_text import cost_summary

        kept = {key: getattr(result, key) for key in ("verdict", "bound", "strategy", "schedules", "seconds")}
        findings = [] if why else list(result.findings)
        self.results.append({**kept, "findings": findings, "cost": cost_summary(result)})
        self._item.user_properties.append((KEY, f"{result.verdict}: {result.bound}"))

    def command(self, token: str) -> str:
        """The command line that replays this test's failure."""
        config = self._item.config
        path, colons, rest = self._item.nodeid.partition("::")
        file = config.rootpath / path
        here = config.invocation_params.dir
        named = file.relative_to(here) if file.is_relative_to(here) else file
        words = [*_begun_as(), f"{named}{colons}{rest}"]
        seed = config.getoption("--fencepost-seed")
        if seed is not None:
            words.append(f"--fencepost-seed={seed}")
        return shlex.join([*words, f"--fencepost-token={token}"])


def _begun_as() -> list[str]:
    """Return the words that started pytest: `python -m` also adds the current folder to the import path."""
    by_module = Path(sys.argv[0]).parts[-2:] == ("pytest", "__main__.py")
    return [Path(sys.executable).name, "-m", "pytest"] if by_module else ["pytest"]


# A real S3 server for each test.


class S3Server:
    """An S3 server of one test, empty at the start and used by no other test."""

    access_key = "root"
    region = "us-east-1"

    def __init__(self, url: str, secret_key: str, root_token: str) -> None:
        self.url = url
        self.secret_key = secret_key
        self._root_token = root_token

    def fail(self, *faults: Mapping[str, Any] | str, seed: int = 0) -> None:
        """Have requests fail by these faults, or by the text of one script; earlier ones are forgotten."""
        if len(faults) == 1 and isinstance(faults[0], str):
            self._administer("PUT", "faults", faults[0])
        else:
            self._administer("PUT", "faults", json.dumps({"seed": seed, "fault": faults}))

    @property
    def struck(self) -> list[dict[str, Any]]:
        """The requests that failed so far: effect, operation, bucket, key and number of each."""
        found: list[dict[str, Any]] = self._administer("GET", "faults")["struck"]
        return found

    def answer_as(self, *stores: str, quirks: Sequence[str] = ()) -> None:
        """Answer as these stores do, or with these quirks; with neither, as S3."""
        self._administer("PUT", "quirks", json.dumps({"stores": stores, "quirks": quirks}))

    def _administer(self, method: str, place: str, body: str = "") -> Any:
        headers = {"Authorization": f"Bearer {self._root_token}"}
        url = f"{self.url}/_fencepost/v1/{place}"
        request = urllib.request.Request(url, body.encode() or None, headers, method=method)  # noqa: S310  ours
        try:
            with urllib.request.urlopen(request) as response:  # noqa: S310  the same
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            with error:
                raise ValueError(json.loads(error.read())["message"]) from None

    def client(self, **options: Any) -> Any:
        """A client of boto3."""
        import boto3  # noqa: TID251  the test's own

        return boto3.client("s3", **self._named(), **options)

    def resource(self, **options: Any) -> Any:
        import boto3  # noqa: TID251  the test's own

        return boto3.resource("s3", **self._named(), **options)

    def _named(self) -> dict[str, Any]:
        from botocore.config import Config  # noqa: TID251  the test's own

        return {
            "endpoint_url": self.url,
            "region_name": self.region,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "config": Config(s3={"addressing_style": "path"}),
        }

    @property
    def environ(self) -> dict[str, str]:
        """The environment variables that the SDKs of AWS and most other clients read."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
        }


class _Servers:
    """The process that has the servers of a session."""

    def __init__(self, directory: Path) -> None:
        # A file: an unread pipe fills up and blocks the server.
        self._errors = directory / "stderr.log"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(  # noqa: S603  our own module
                [sys.executable, "-m", "fencepost.impl.objects.temporary", str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def send(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._process.wait()
            why = self._errors.read_text(errors="replace").strip().splitlines()[-1:]
            missing = "No module named" in "".join(why)
            pytest.fail(
                "the server needs more: pip install 'fencepost[objects]'"
                if missing
                else f"the S3 server ended: {''.join(why)}",
                pytrace=False,
            )
        return answer

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def _s3_servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[_Servers]:
    servers = _Servers(tmp_path_factory.mktemp("s3"))
    yield servers
    servers.close()


@pytest.fixture
def s3_server(_s3_servers: _Servers) -> Generator[S3Server]:
    """An S3 server on 127.0.0.1 with no buckets, for this test alone."""
    url, secret_key, root_token = _s3_servers.send("start").split(" ", 2)
    yield S3Server(url, secret_key, root_token)
    _s3_servers.send(f"stop {url}")
