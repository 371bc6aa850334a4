"""`fencepost ingest maintenance`: what a collector does on its own, by hand or as a process."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.commands import entry
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import keys
from fencepost.impl.ingest.maintenance import Maintenance
from fencepost.impl.store import ANYTHING, Store, open_store
from tests.commands.test_ingest_inventory import accepted, standing
from tests.impl.ingest.given import accepted as batch

ENV = SystemEnvironment()
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def maintenance(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(url: str, *arguments: str) -> tuple[int, str, str]:
        words = ["ingest", "maintenance", "--store", url, *arguments]
        code = entry.run(lambda: entry.group.main(words, standalone_mode=False))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store?linger_ms=0"


def halfway(store: Store) -> None:
    """A batch whose collector wrote only its place in time."""
    manifest = accepted(store)
    store.put(manifest.by_time_key, manifest.body(), when=ANYTHING)


def test_one_process_at_a_time_holds_the_lease(maintenance: Run, url: str) -> None:
    with open_store(url) as store:
        halfway(store)
        done = "1 batches seen, 0 were in no index, 1 missing index objects written, 1 batches rolled up\n"
        assert maintenance(url)[:2] == (0, done)
        code, out, _ = maintenance(url, "--json", "-")
        assert (code, json.loads(out)["turn"]) == (0, True), "the lease was released"
        Maintenance(store, ENV, "another").run_once()
        assert maintenance(url)[:2] == (0, "another process holds the lease; nothing was done\n")


def test_unindexed_batches_are_searched_for(maintenance: Run, url: str) -> None:
    with open_store(url) as store:
        accepted(store)
        code, out, _ = maintenance(url, "--landing-bound", "0", "--skew-bound", "0", "--search-every", "0")
        assert (code, out.split(", ")[1:3]) == (0, ["1 were in no index", "2 missing index objects written"])
        assert any(key.startswith(keys.BY_TIME) for key in standing(store))


def test_failures_are_printed(maintenance: Run, url: str) -> None:
    with open_store(url) as store:
        halfway(store)
        store.put(f"{keys.CURSORS}reconcile.json", b"{", when=ANYTHING)
    code, out, _ = maintenance(url)
    assert (code, "failed: cursors/v1/reconcile.json is no cursor" in out) == (3, True)


def test_lost_data_is_an_alarm(maintenance: Run, url: str) -> None:
    with open_store(url) as store:
        manifest = accepted(store)
        store.put(manifest.by_time_key, manifest.body(), when=ANYTHING)
        store.delete(manifest.raw_blob_key, when=ANYTHING)
    code, out, _ = maintenance(url)
    assert (code, f"its blob is missing or incomplete: {manifest.key}" in out) == (1, True)


def test_an_audit_is_narrowed_to_known_agents(ran: Run, tmp_path: Path) -> None:
    url, tokens = f"file://{tmp_path}/narrow", str(tmp_path / "registry.json")
    with open_store(url) as store:
        batch(store, follow_up=False)
    for name in ("agent-a", "agent-b"):
        assert ran("ingest", "enrol", tokens, name, "--token-file", str(tmp_path / name))[0] == 0
    operators = str(tmp_path / "operators.json")
    words = ("ada", "--operator", "--token-file", str(tmp_path / "ada"))
    assert ran("ingest", "enrol", operators, *words)[0] == 0
    code, out, _ = ran("ingest", "audit", "--store", url, "--agent", "agent-b")
    assert (code, out) == (0, "0 batches and 0 conflicts checked, 0 missing index objects written\n")
    code, out, _ = ran("ingest", "audit", "--store", url, "--agents", tokens)
    assert (code, out) == (0, "1 batches and 0 conflicts checked, 2 missing index objects written\n")
    for words, message in (
        (["--boot", "b"], "--boot is that of one --agent"),
        (["--agent", "a\n"], "control characters"),
        (["--agent", "a", "--inventory", "x"], "--inventory has the batches of all agents"),
        (["--agents", operators], "names no agent"),
        (["--agents", str(tmp_path / "misspelt.json")], "cannot read the token file"),
    ):
        code, _, error = ran("ingest", "audit", "--store", url, *words)
        assert (code, error.count("\n"), message in error) == (2, 1, True), error
