"""The zoo: every broken program is found, by the counterexample that its docstring describes; every fixed
one is proven.

Users will judge the audit by how many of their own incidents it would have found. So it is not enough that
something is found: the counterexample must be the one that happened.
"""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.examples.zoo import ENTRIES
from fencepost.sim.explore import AuditOutcome, audit, replay
from fencepost.sim.world import Budget
from fencepost.testing import unwrapped

FOLDER = Path(__file__).parents[2] / "examples" / "zoo"
LARGE = {
    f"{name} broken_boto3"
    for name in ("ambiguous-commit-cleaned-up", "fence-behind-boundary", "conflict-read-as-exists")
} | {
    f"{name} fixed_boto3"
    for name in set(ENTRIES)
    - {
        "plain-put-log",
        "stale-etag-published",
        "zombie-slot",
    }
}
"""Left to the long session: seconds each, for what the same program on our interface shows in a fraction."""

COUNTEREXAMPLES = {
    # Lines of the counterexample, in this order; others may be between them.
    "self-412": [
        r"put zoo/state.tflock if absent .* LOST",
        r"put zoo/state.tflock if absent .* -> exists",
        r"return .*Error acquiring the state lock",
    ],
    "self-fence": [
        r"old +put zoo/wal/\S+ if absent .* LOST",
        r"old +put zoo/wal/\S+ if absent .* -> exists",
        r"old +note fenced",
    ],
    "ambiguous-commit-cleaned-up": [
        r"ann +put zoo/metadata/\S+ if absent .* LOST",
        r"ann +delete zoo/data/00000.parquet .* -> done",
    ],
    "proof-by-existence": [
        r"lifecycle +abort-upload .* -> done",
        r"ann +complete-upload .* -> gone",
        r"ann +head .* -> done",
        r"ann +return +True",
    ],
    "conflict-read-as-exists": [
        r"(ann|bob) +put .* if absent .* 409",
        r"(ann|bob) +put .* if absent .* 409",
        r"get .* -> missing",
    ],
    "zombie-slot": [
        r"new_writer\S* +put zoo/manifest .* -> done",
        r"new_writer\S* +delete zoo/wal/0001 .* -> done",
        r"old_writer\S* +put zoo/wal/0001 if absent .* -> done",
        r"old_writer\S* +note acknowledged",
    ],
    "manifest-id-reuse": [
        r"busy +put zoo/manifest/0*3.manifest if absent .* -> done",
        r"busy +delete zoo/manifest/0*2.manifest .* -> done",
        r"slow +put zoo/manifest/0*2.manifest if absent .* -> done",
        r"slow +note committed",
    ],
    "fence-behind-boundary": [
        r"new +list zoo/wal/ .* \[\]",
        r"old +put zoo/manifest if .* -> done",
        r"old +delete zoo/wal/0001 .* -> done",
        r"new +put zoo/wal/0001 if absent b'fence' +-> done",
        r"new +note opened with",
    ],
    "epoch-before-slot": [
        r"ann +put zoo/manifest if .* b'1'",
        r"bob +put zoo/manifest if .* b'2'",
        r"bob +put zoo/wal/0001 if absent .* -> done",
        r"ann +list zoo/wal/",
        r"ann +put zoo/wal/0002 if absent .* -> done",
    ],
    "watermark-after-manifest": [
        r"collector +get zoo/manifest .* b'\[1\]'",
        r"compactor +put zoo/manifest .* b'\[2\]'",
        r"compactor +put zoo/compactions .* b'3'",
        r"collector +get zoo/compactions .* b'3'",
        r"collector +delete zoo/compacted/0002.sst",
    ],
    "temp-deleted-after-reservation": [
        r"ann +put zoo/lock-table/1 if absent .* -> done",
        r"ann .*(LOST|NOT APPLIED)",
        r"ann +delete zoo/_delta_log/.tmp/ann.json",
        r"next +get zoo/_delta_log/.tmp/ann.json +-> missing",
        r"next +put zoo/lock-table/1 if .* -> done",
    ],
    "collector-lost-its-race": [
        r"writer +put zoo/log/MANIFEST if .* -> done",
        r"collector +put zoo/log/MANIFEST if .* -> changed",
        r"collector +delete zoo/log/fragment-1 .* -> done",
    ],
    "lease-expires-in-flight": [
        r"ann +put zoo/lock if .* -> done",
        r"clock .*PAUSE",
        r"bob +put zoo/_delta_log/0001.json if absent b'ann' +-> done",
        r"ann +put zoo/_delta_log/0001.json if absent b'ann' +-> exists",
        r"ann +put zoo/_delta_log/000[23].json if absent b'ann' +-> done",
    ],
    "plain-put-log": [
        r"new +put zoo/shard-0/epoch ",
        r"new +put zoo/shard-0/wal/0001 unconditionally .* -> done",
        r"old +put zoo/shard-0/wal/0001 unconditionally .* -> done",
    ],
    "check-then-put": [
        r"(get|head) zoo/archive/_partition_key +-> missing",
        r"(get|head) zoo/archive/_partition_key +-> missing",
        r"put zoo/archive/_partition_key unconditionally .* -> done",
        r"put zoo/archive/_partition_key unconditionally .* -> done",
    ],
    "stale-etag-published": [
        r"writer +head zoo/_versions/7.manifest ",
        r"reader +(put|copy) zoo/_versions/7.manifest unconditionally .*-> done",
        r"reader +put zoo/latest .* -> done",
        r"writer +put zoo/latest .* -> done",
    ],
    "manifest-without-token": [
        r"worker-1 +get zoo/stream/manifest.json .* b'{\"cursor\": 0",
        r"worker-2 +put zoo/stream/manifest.json unconditionally b'{\"cursor\": 200",
        r"worker-1 +put zoo/stream/manifest.json unconditionally b'{\"cursor\": 100",
    ],
    "retried-contention": [
        r"bob +put zoo/log/manifest/MANIFEST if .* -> done",
        r"ann +put zoo/log/manifest/MANIFEST if .* -> changed",
        r"ann +put zoo/log/manifest/MANIFEST if .* -> done",
    ],
}


def programs(*kinds: str) -> list[Any]:
    found = []
    for name, entry in ENTRIES.items():
        for attribute, value in vars(importlib.import_module(entry.module(name))).items():
            if attribute.split("_")[0] in kinds and callable(value):
                marks = [pytest.mark.slow] if f"{name} {attribute}" in LARGE else []
                found.append(pytest.param(name, value, id=f"{name}-{attribute}", marks=marks))
    return found


def audited(program: Callable[..., Any]) -> AuditOutcome:
    """With the options that the program brings, and otherwise the default ones."""
    function, options = unwrapped(program)
    return audit(function, budget=Budget(**(options.faults or {})), minimise_seconds=1)


def misfit(lines: list[str], counterexample: list[str]) -> str:
    """The first line of the counterexample that is not among `lines` behind those before it."""
    rest = iter(lines)
    for wanted in counterexample:
        if not any(re.search(wanted, line) for line in rest):
            return wanted
    return ""


@pytest.mark.parametrize(("name", "program"), programs("broken"))
def test_what_is_broken_is_found_by_the_counterexample_that_happened(name: str, program: Any) -> None:
    result = audited(program)
    assert result.verdict == "violated", str(result)
    counterexample = result.counterexamples[0]
    assert counterexample.property == ENTRIES[name].property
    assert misfit(counterexample.text(), COUNTEREXAMPLES[name]) == "", "\n".join(counterexample.text())


@pytest.mark.parametrize(("name", "program"), programs("fixed"))
def test_what_is_fixed_is_proven(name: str, program: Any) -> None:
    """With everything covered: a fixed program that does nothing would hold as well."""
    result = audited(program)
    assert (result.verdict, result.findings) == ("holds", ()), str(result)
    assert "1 crash, 1 lost reply or request" in result.bound
    assert result.coverage.conflicts > 0
    assert {"crash", "reply_lost"} <= set(result.coverage.faults)


@pytest.mark.parametrize(("name", "program"), programs("tempting"))
def test_what_is_tempting_is_refuted(name: str, program: Any) -> None:
    result = audited(program)
    assert result.verdict == "violated", str(result)


@pytest.mark.parametrize("name", ["self-412", "lease-expires-in-flight", "ambiguous-commit-cleaned-up"])
def test_a_counterexample_of_the_zoo_can_be_replayed(name: str) -> None:
    function, options = unwrapped(importlib.import_module(ENTRIES[name].module(name)).broken)
    budget = Budget(**(options.faults or {}))
    counterexample = audit(function, budget=budget, minimise_seconds=1).counterexamples[0]
    again = replay(function, counterexample.token, budget=budget)
    assert again.misfit == ""
    assert again.violation is not None
    assert again.violation.name == counterexample.property


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_is_complete(name: str) -> None:
    """Four programs, one a file, with its sources where a reader looks for them."""
    entry = ENTRIES[name]
    module = importlib.import_module(entry.module(name))
    assert all(callable(getattr(module, kind)) for kind in ("broken", "fixed", "broken_boto3", "fixed_boto3"))
    doc = " ".join((module.__doc__ or "").split())
    assert [source for source in entry.sources if source not in doc] == []
    assert "Counterexample (" in doc
    assert "Fixed" in doc
    assert "Why that is enough: " in doc
    tempting = [attribute for attribute in vars(module) if attribute.startswith("tempting_")]
    assert "Tempting, but incorrect" in doc if tempting else True


def test_nothing_is_forgotten() -> None:
    modules = {path.stem.replace("_", "-") for path in FOLDER.glob("*.py")} - {"--init--"}
    assert modules == set(ENTRIES) == set(COUNTEREXAMPLES)


def test_another_counterexample_is_distinguished() -> None:
    """The check of the counterexamples must not be fooled by their order, or by what is missing."""
    assert misfit(["a b", "c", "d"], ["b", "d"]) == ""
    assert misfit(["d", "a b"], ["b", "d"]) == "d"
    assert misfit(["a"], ["a", "a"]) == "a"
