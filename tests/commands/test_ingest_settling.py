"""Decisions about parked batches and conflicts are printed, and may cover several batches at once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.commands import entry
from fencepost.impl.ingest import Authority, Conflict
from fencepost.impl.ingest.service.spool import Spool
from fencepost.impl.store import open_store
from tests.commands.test_ingest_inventory import ENV
from tests.impl.ingest_service.serving import batch, frame

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ingest(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = entry.run(lambda: entry.group.main(["ingest", *words], standalone_mode=False))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def parked(*answers: Any) -> list[str]:
    """Batches in a spool, each parked with one of these answers; their names."""
    names = []
    with Spool("spool", "agent-a") as spool:
        for start, answer in enumerate(answers, 1):
            identity = batch(start, start, boot=spool.boot_id)
            made = spool.add(1, lambda *_, identity=identity: frame(identity))
            spool.park(made, {"why": "refused", "answer": answer})
            names.append(made.name)
    return names


QUARANTINED = {"error": "quarantined"}
CONFLICT = {"error": "identity_conflict"}


def test_all_parked_batches_except_conflicts_are_sent_again(ingest: Run) -> None:
    """A released agent may have thousands of them, with long names."""
    *_, conflict = parked(QUARANTINED, QUARANTINED, {"error": "bad_frame"}, CONFLICT)
    code, out, _ = ingest("parked", "--spool", "spool", "--requeue-all")
    assert (code, out.splitlines()[0]) == (1, "3 batches wait to be sent again")
    assert conflict in out
    with Spool("spool", "agent-a") as spool:
        assert (len(spool), len(spool.parked())) == (3, 1)
    code, out, _ = ingest("parked", "--spool", "spool", "--requeue-all", "--json", "-")
    assert (code, len(json.loads(out)["parked"])) == (1, 1)


def test_the_action_on_one_batch_is_printed(ingest: Run) -> None:
    first, second, _ = parked(QUARANTINED, CONFLICT, QUARANTINED)
    assert ingest("parked", "--spool", "spool", "--requeue", first)[1].startswith(
        "1 batch waits to be sent again\n"
    )
    assert ingest("parked", "--spool", "spool", "--drop", second)[1].startswith(f"dropped {second}\n")


def test_only_one_action_at_a_time(ingest: Run) -> None:
    (name,) = parked(QUARANTINED)
    for words in (["--requeue-all", "--drop", name], ["--requeue", name, "--drop", name]):
        code, out, err = ingest("parked", "--spool", "spool", *words)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "give one of --drop, --requeue and --requeue-all" in err


def test_an_earlier_decision_is_reported_as_final(ingest: Run, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store?linger_ms=0"
    identity = batch(1, 1)
    with open_store(url) as store:
        ann = Authority(store, ENV, "ann")
        ann.accept(identity, frame(identity, 1.0))
        assert isinstance(ann.accept(identity, frame(identity, 2.0)), Conflict)
    words = ["conflicts", "resolve", "--store", url, "agent-a", "boot-1", "1", "1", "--author"]
    assert (
        ingest(*words, "ada", "--note", "an old disk")[1] == f"{identity}: accept-existing-and-drop, by ada\n"
    )
    code, out, _ = ingest(*words, "bob", "--note", "a new one")
    assert code == 0
    assert out == (f"{identity}: accept-existing-and-drop, by ada: decided before, and final (an old disk)\n")
