"""A probe of the server for tests finds the quirk that it has, and nothing else.

If this fails, a client that is tested against a quirk meets another one, or none.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.objects.quirks import QUIRKS, STORES, named_quirks
from fencepost.impl.objects.temporary import Unflushed
from fencepost.impl.objects.unreliable import UnreliableServer
from fencepost.impl.store import open_store
from fencepost.impl.store.errors import BrokenPromise
from fencepost.sim.probe import FEATURES, Plan, Probe
from tests.impl.objects.serving import client, secret, served
from tests.sim.probe.quirk_signs import SIGNS, quirks_of

SINGLE = (
    "create-only-put",
    "if-match-put",
    "if-match-delete",
    "etag-forms",
    "create-only-complete",
    "if-match-complete",
    "versioned-bucket",
    "etags",
    "list-after-write",
    "list-after-delete",
    "listing-order",
)
"""Rows that one client decides."""
UNSAFE, UNSUPPORTED, UNDECIDED = "unsafe", "unsupported", "undecided"
FOUND: dict[str, dict[str, str]] = {
    "put-if-none-match-ignored": {"create-only-put": UNSAFE},
    "put-if-match-ignored": {"if-match-put": UNSAFE, "etag-forms": UNSAFE},
    "delete-if-match-ignored": {"if-match-delete": UNSAFE, "etag-forms": UNSAFE},
    "complete-conditions-ignored": {
        "create-only-complete": UNSAFE,
        "if-match-complete": UNSAFE,
        "etag-forms": UNSAFE,
    },
    "conditions-refused": dict.fromkeys(
        ("create-only-put", "if-match-put", "if-match-delete", "create-only-complete", "if-match-complete"),
        UNSUPPORTED,
    ),
    "conditions-raced": {},
    "conflict-for-failed": dict.fromkeys(("create-only-put", "if-match-put", "if-match-delete"), UNDECIDED),
    "quoted-if-match-fails": {"if-match-put": UNSAFE},
    "if-match-creates": {"if-match-put": UNSAFE, "etag-forms": UNSAFE},
    "missing-as-changed": {},
    "unquoted-etags": {},
    "listing-unordered": {"listing-order": UNSUPPORTED},
    "listing-delayed": dict.fromkeys(("etags", "list-after-write", "list-after-delete"), UNSAFE),
    "versions-missing": {"versioned-bucket": UNSUPPORTED},
}
"""The rows that are not safe, with their verdicts. With weak ETags no row is asked."""
NOTED = {
    "missing-as-changed": ("if-match-put", "says changed (412) where S3 says missing (404)"),
    "unquoted-etags": ("etag-forms", "replies have ETags without quotes"),
    "quoted-if-match-fails": ("etag-forms", "matches ETags without quotes only"),
    "conditions-refused": ("etag-forms", "put: none; delete: none; completion: none"),
    "conflict-for-failed": ("create-only-put", "409 ConditionalRequestConflict"),
}
"""Texts of rows by which a quirk is known."""
RACED = {"racing-creates-threads", "counter-threads", "puts-against-deletes", "puts-against-completes"}

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Probe rows of a server with a quirk: its findings by name."""
    servers: list[UnreliableServer] = []

    def make(*arguments: Any, **options: Any) -> UnreliableServer:
        servers.append(UnreliableServer(*arguments, **options))
        return servers[-1]

    def probed(quirk: str, *rows: str, rounds: int = 1, versioned: bool = False) -> dict[str, Any]:
        servers[0].quirks = (quirk,) if quirk else ()
        bucket = "versioned" if versioned else "plain"
        plan = Plan(
            rounds=rounds, seconds=20.0, threads=2, body_bytes=4096, large_bytes=(), keys=25, page=10,
            samples=1, operations=60,
        )  # fmt: skip
        with open_store(f"s3://{bucket}/p?endpoint={address}") as store:
            return {found.name: found for found in Probe(store, plan, only=rows).run().features}

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "root")
        environment.setenv("AWS_SECRET_ACCESS_KEY", secret("root"))
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        root = tmp_path_factory.mktemp("objects")
        with served(root, disk=Unflushed(), make=make) as address:
            with contextlib.closing(client(address)) as s3:
                for bucket in ("plain", "versioned"):
                    s3.create_bucket(Bucket=bucket)
                enabled = {"Status": "Enabled"}
                s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration=enabled)
            yield probed


def not_safe(found: dict[str, Any], *, versioned: bool = False) -> dict[str, str]:
    rows = {name: row.verdict.value for name, row in found.items() if row.verdict.value != "safe"}
    if not versioned:  # the row does not apply
        assert rows.pop("versioned-bucket", UNSUPPORTED) == UNSUPPORTED
    return rows


def signs(found: dict[str, Any], *, versioned: bool = False) -> list[str]:
    rows = [row for row in found.values() if row.applies or versioned]
    return quirks_of((row.name, row.verdict.value, row.detail) for row in rows)


def test_without_a_quirk_every_row_is_safe(ask: Ask) -> None:
    found = ask("", "create-only-put", "listing-order")
    assert not_safe(found) == {}
    assert signs(found) == []


QUICK = ("put-if-none-match-ignored", "listing-unordered")
"""The others are `slow`."""


@pytest.mark.parametrize(
    "quirk",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in FOUND
        if name not in ("versions-missing", "conditions-raced")
    ],
)
def test_a_probe_finds_the_quirk_and_nothing_else(ask: Ask, quirk: str) -> None:
    rows = [row for row in SINGLE if row in FOUND[quirk] or row == NOTED.get(quirk, ("", ""))[0]]
    other = "listing-order" if "listing-order" not in rows else "create-only-put"
    found = ask(quirk, *rows, other, rounds=2)
    assert not_safe(found) == FOUND[quirk]
    if quirk in NOTED:
        row, text = NOTED[quirk]
        assert text in found[row].detail
    assert signs(found) == [quirk]


@pytest.mark.slow
def test_a_probe_finds_that_versions_are_missing(ask: Ask) -> None:
    assert not_safe(ask("", "versioned-bucket", versioned=True), versioned=True) == {}
    found = ask("versions-missing", "versioned-bucket", "create-only-put", versioned=True)
    assert not_safe(found, versioned=True) == FOUND["versions-missing"]
    assert signs(found, versioned=True) == ["versions-missing"]


@pytest.mark.slow
def test_a_probe_finds_conditions_that_are_raced(ask: Ask) -> None:
    found = ask("conditions-raced", "create-only-put", "if-match-put", "racing-creates-threads", rounds=2)
    assert not_safe(found) == {"racing-creates-threads": UNSAFE}
    assert signs(found) == ["conditions-raced"]


def test_nothing_can_be_built_on_weak_etags(ask: Ask) -> None:
    with pytest.raises(BrokenPromise, match="weak ETag"):
        ask("weak-etags", "etags")


@pytest.mark.slow
@pytest.mark.parametrize("quirk", ["", *FOUND])
def test_a_whole_probe_finds_the_quirk_and_nothing_else(ask: Ask, quirk: str) -> None:
    rows = [one.name for one in FEATURES if "processes" not in one.name and one.name != "clock-skew"]
    found = not_safe(ask(quirk, *rows, rounds=10, versioned=quirk == "versions-missing"))
    # A race for which a busy machine leaves no time is undecided; it is no finding.
    races = {name for name, verdict in found.items() if name not in SINGLE and verdict != UNDECIDED}
    expected = {row: verdict for row, verdict in FOUND.get(quirk, {}).items() if row != "versioned-bucket"}
    assert {name: verdict for name, verdict in found.items() if name in SINGLE} == expected
    if quirk in ("", "listing-unordered", "listing-delayed", "unquoted-etags", "missing-as-changed"):
        assert races == set()
    if quirk == "conditions-raced":
        assert races >= {"racing-creates-threads", "counter-threads"}
        assert races <= {*RACED, "linearizability"}


def test_every_quirk_has_a_public_source_and_a_test() -> None:
    assert {*FOUND, "weak-etags"} == set(QUIRKS) == set(SIGNS)
    assert len(QUIRKS) >= 8
    for quirk in QUIRKS.values():
        assert quirk.source.startswith("https://")
        assert quirk.text.endswith(".")


def test_every_store_has_known_quirks() -> None:
    assert {"r2", "gcs", "b2", "minio", "ceph", "spaces"} <= set(STORES)
    for store, quirks in STORES.items():
        assert named_quirks([], [store]) == quirks
        assert set(quirks) <= set(QUIRKS)
    with pytest.raises(ValueError, match="no store is called 's4'; known: b2, ceph"):
        named_quirks([], ["s4"])


def test_the_guide_has_every_quirk_and_store_with_its_source() -> None:
    text = (Path(__file__).parents[3] / "docs/guides/objects-for-tests.md").read_text()
    source = r" \| .*\(https://\S+\) \|$"
    for name, quirk in QUIRKS.items():
        assert re.search(rf"^\| `{name}` \| {re.escape(quirk.text)}{source}", text, re.MULTILINE)
        assert f"({quirk.source}) |" in text
    for name, quirks in STORES.items():
        listed = ", ".join(f"`{quirk}`" for quirk in quirks)
        assert re.search(rf"^\| `{name}` \| {listed}{source}", text, re.MULTILINE)
