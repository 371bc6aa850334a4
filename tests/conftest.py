"""What every test shares: Hypothesis profiles, and the S3 endpoints as fixtures.

`fast` is the default and repeats itself exactly; `nox -s deep` runs `deep`, which looks further with a
new seed every time and prints the blob that repeats a failure.
"""

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Any

import hypothesis
import pytest

from tests import depth, outcomes

# Tests start hundreds of processes: the first of them compiles the package, and the others load it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Suites that live beside the properties, and what tests share, explain their assertions like tests do.
pytest.register_assert_rewrite(
    "fencepost.properties.store_behaviour", "tests.model.counterexamples", "tests.sim.mistakes"
)

pytest_plugins = ["tests.servers.fixtures", "tests.generators"]

hypothesis.settings.register_profile(
    "fast", derandomize=True, deadline=None, max_examples=50, print_blob=True, database=None
)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=depth.EXAMPLES, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("FENCEPOST_HYPOTHESIS", "fast"))

COUNTS = pytest.StashKey[str]()
"""File to which the counts of this run are appended."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Each worker takes whole modules, so that their fixtures are set up once, and steals at the end."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.option.dist == "load" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what was collected out of garbage collection: every full one would visit 13,000 tests in vain."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `nox -s deep` runs beside slow tests: the rest would repeat the quick run."""
    for item in items:
        if depth.looks_further(item.path):
            item.add_marker(pytest.mark.deeper)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that leaves a world open: clients of boto3 that later tests make would belong to it."""
    yield
    present = sys.modules.get("fencepost.sim.world.present")
    if present is not None and (present._runs or present._aside):
        present._runs.clear()
        present._aside.clear()
        pytest.fail("a world is left open", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the file of counts from the workers, and from runs of pytest that tests start."""
    if file := os.environ.pop(outcomes.VARIABLE, None):
        config.stash[COUNTS] = file


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Append the counts of this run to the file that FENCEPOST_OUTCOMES named."""
    file = config.stash.get(COUNTS, None)
    if file is None:
        return
    reports = terminalreporter.stats
    skipped = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports.get("skipped", []))
    skipped += Counter(f"xfail: {report.wasxfail}" for report in reports.get("xfailed", []))
    failed = [report.nodeid for kind in ("failed", "error") for report in reports.get(kind, [])]
    outcomes.record(len(reports.get("passed", [])), failed, skipped, file)
