"""The calls of a live server, as `serve --record` notes them: accepted as shipped, rejected in a mutant."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.objects import calls
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.calls import Calls
from fencepost.impl.recording.files import Recorder
from fencepost.impl.store.files.versions import Keep
from fencepost.impl.store.requests import (
    ABSENT,
    ANYTHING,
    CompleteUpload,
    CreateUpload,
    Delete,
    Matches,
    Put,
    UploadPart,
)
from fencepost.sim.systems import SYSTEMS
from tests.commands.running import exit_of

BUCKET = "bucket"
OBJECTS = SYSTEMS["objects"]


def recorded(folder: Path, act: Callable[[Any], None], mutant: str = "") -> dict[str, Any]:
    """The JSON of a replay of what `act` does with the store of a bucket."""
    buckets = Buckets(str(folder / "data"), **({"safeguards": OBJECTS.without(mutant)} if mutant else {}))
    recorder = Recorder(folder / "traces", "objects")
    buckets.calls = Calls(recorder)
    buckets.create(BUCKET)
    with buckets.using(BUCKET) as store:
        act(store)
    buckets.close()
    recorder.close()
    exit_of("replay", str(folder / "traces"), "--model", "objects", "--json", str(folder / "found.json"))
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def every_kind(store: Any) -> None:
    """Each kind of write, with each condition, met and not met; keys whose folders move, and whose names are
    those of files that a store writes itself.
    """
    for key in ("a/format", "a/format", "result"):
        store.send(Put(key, b"1", ABSENT))
    store.send(Put("a", b"2", ANYTHING))
    etag = store.send(Put("a", b"3", ANYTHING)).etag
    for key in ("a", "a", "missing"):
        store.send(Put(key, b"4", Matches(etag)))
    for when in (ANYTHING, ANYTHING, Matches(etag)):
        store.send(Delete("a", when))
    store.send(Put("long", b"5" * 100_000, ABSENT))
    with store.incoming("in pieces", ANYTHING) as arriving:
        arriving.write(b"6")
        arriving.publish(arriving.draft.attributes)
    upload = store.send(CreateUpload("joined")).upload
    part = store.send(UploadPart("joined", upload, 1, b"7" * 100))
    for _ in range(2):
        store.send(CompleteUpload("joined", upload, ((1, part.etag),), ABSENT))


def test_every_kind_of_write_is_accepted(tmp_path: Path) -> None:
    found = recorded(tmp_path, every_kind)
    assert (found["verdict"], found["undecided"]) == ("holds", 0), found["violations"]
    assert found["accepted"] >= 14
    events = (tmp_path / "traces/objects-0-000001.jsonl").read_text()
    for topic in calls.TOPICS:
        assert f'"key":"{topic} ' in events, topic


@pytest.mark.parametrize(
    ("mutant", "topic", "guard"),
    [
        ("key-lock", "renamed", '.at == "locked"'),
        ("atomic-create", "renamed", '.at == "locked"'),
        ("directory-flush", "indexed", '.at == "flushed"'),
        ("event-after-publish", "indexed", '.at == "flushed"'),
    ],
)
def test_a_mutant_is_rejected_at_its_first_odd_call(
    mutant: str, topic: str, guard: str, tmp_path: Path
) -> None:
    found = recorded(tmp_path, every_kind, mutant)
    assert found["verdict"] == "violated"
    for violation in found["violations"]:
        assert f" {topic} {BUCKET}/" in violation["event"]
        assert guard in violation["reason"]


def test_writers_at_once_are_accepted(tmp_path: Path) -> None:
    """They share flushes and transactions, and win and lose races."""

    def act(store: Any) -> None:
        def write(number: int) -> None:
            for turn in range(8):
                key = f"k{turn % 3}"
                etag = store.send(Put(key, b"%d" % number, ANYTHING if turn % 2 else ABSENT)).etag
                store.send(Put(key, b"more", Matches(etag or "none")))
                if not number:
                    store.send(Delete(key, ANYTHING))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = recorded(tmp_path, act)
    assert (found["verdict"], found["undecided"]) == ("holds", 0), found["violations"]
    assert found["accepted"] == 5 * 16 + 8


def test_what_is_not_judged_is_counted(tmp_path: Path) -> None:
    """A write where versions are kept is no write of the model."""

    def act(store: Any) -> None:
        with store.incoming("a", ANYTHING, Keep.ALL) as arriving:
            arriving.write(b"1")
            arriving.publish(arriving.draft.attributes)
        store.send(Put("b", b"2", ABSENT))

    found = recorded(tmp_path, act)
    assert (found["accepted"], found["left_out"]) == (1, 1)
    assert any("unjudged" in name for name in found["left_out_by"])


def test_a_dropped_note_ends_the_notes_of_its_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the `flushed` of a write its `indexed` would be rejected."""
    emit = Recorder.emit
    monkeypatch.setattr(
        Recorder,
        "emit",
        lambda self, *words, **columns: not words[2].startswith("flushed ") and emit(self, *words, **columns),
    )
    found = recorded(tmp_path, every_kind)
    assert (found["verdict"], found["undecided"]) == ("holds", 0), found["violations"]
