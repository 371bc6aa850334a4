"""The change log: every change once, in order, over all processes, whatever crashes in between."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.objects import change_log
from fencepost.impl.objects import index as indexing
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.objects.change_log import ChangeLog, Event
from fencepost.impl.objects.index import Index
from fencepost.impl.objects.reconcile import reconcile
from fencepost.impl.objects.recorded import RecordedStore
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.attributes import Attributes, md5
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.files.versions import Keep
from fencepost.impl.store.requests import (
    ANYTHING,
    AbortUpload,
    CompleteUpload,
    CreateUpload,
    Delete,
    Metadata,
    Outcome,
    UploadPart,
)

BUCKET = "bucket-one"


class Clock(SystemEnvironment):
    """Stands still until it is set."""

    def __init__(self, ns: int) -> None:
        super().__init__()
        self.ns = ns

    def now_ns(self) -> int:
        return self.ns


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path))
    found.create(BUCKET)
    reconcile(found)
    yield found
    found.close()


def put(buckets: Buckets, key: str, body: bytes = b"x") -> None:
    assert buckets.store(BUCKET).put(key, body, when=ANYTHING).outcome is Outcome.DONE


def events(buckets: Buckets, after_ns: int = 0) -> list[Event]:
    buckets.log.flush(buckets.index)
    return list(buckets.log.events(buckets.index, after_ns))


def changes(buckets: Buckets) -> list[tuple[str, int | None, int | None]]:
    return [
        (event.key, event.old and event.old["size"], event.new and event.new["size"])
        for event in events(buckets)
    ]


def killed(buckets: Buckets) -> None:
    """The process of this index ends without a word: its locks are released, its events stay."""
    index = buckets.index
    for fd in (index._alive, index._writers_lock):
        os.close(fd)
    index._start()


def files(tmp_path: Path) -> list[Path]:
    return sorted(Path(tmp_path, ".log").glob("*/*"))


def test_an_event_has_what_stood_before_and_after(buckets: Buckets) -> None:
    store = buckets.store(BUCKET)
    with store.incoming("k", ANYTHING) as incoming:
        incoming.write(b"12")
        known = Attributes("e" * 32, "", "text/x", Metadata({"a": "b"}), extra=Metadata({"Access": "public"}))
        incoming.publish(known)
    store.send(Delete("k", ANYTHING))
    created, deleted = events(buckets)
    assert (created.bucket, created.key, created.old) == (BUCKET, "k", None)
    assert created.new is not None
    assert created.new.pop("mark")
    assert created.new.pop("modified_ns") < created.ts_ns
    assert created.new == {
        "etag": "e" * 32,
        "size": 2,
        "content_type": "text/x",
        "metadata": {"a": "b"},
        "extra": {"Access": "public"},
    }
    assert deleted.old is not None
    assert (deleted.old["etag"], deleted.new) == ("e" * 32, None)
    assert created.ts_ns < deleted.ts_ns
    assert created.offset == 0 < deleted.offset


def test_a_reader_goes_on_from_its_position(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    put(buckets, "a")
    (first,) = events(buckets)
    monkeypatch.setattr(SystemEnvironment, "now_ns", lambda _: first.ts_ns + 3600 * 10**9)
    put(buckets, "b")
    assert [event.key for event in events(buckets)] == ["a", "b"]
    assert [event.key for event in events(buckets, first.ts_ns)] == ["b"]
    assert events(buckets, events(buckets)[-1].ts_ns) == []


def test_events_of_processes_are_in_the_order_of_the_changes(buckets: Buckets, tmp_path: Path) -> None:
    others = [Buckets(str(tmp_path)) for _ in range(2)]
    for number in range(12):
        put((buckets, *others)[number % 3], "k", b"x" * number)
    expected = [("k", None if number == 0 else number - 1, number) for number in range(12)]
    for one in others:
        one.log.flush(one.index)
    assert changes(buckets) == expected
    assert len(files(tmp_path)) >= 3
    for one in others:
        one.close()


def test_a_reader_stops_where_an_event_may_still_be_missing(buckets: Buckets, tmp_path: Path) -> None:
    other = Buckets(str(tmp_path))
    put(buckets, "a")
    put(other, "b")
    put(buckets, "c")
    assert [event.key for event in events(buckets)] == ["a"]  # `b` is in no file yet
    other.log.flush(other.index)
    assert [event.key for event in events(buckets)] == ["a", "b", "c"]
    other.close()


def test_the_events_of_a_killed_process_are_written_by_another(buckets: Buckets, tmp_path: Path) -> None:
    other = Buckets(str(tmp_path))
    put(other, "a")
    put(buckets, "b")
    assert changes(buckets) == []
    killed(other)
    assert [key for key, *_ in changes(buckets)] == ["a", "b"]


def test_nothing_is_left_of_a_process_that_ended(buckets: Buckets, tmp_path: Path) -> None:
    """Killed or not, with events or without: a server that runs for years has many workers."""
    for ended in range(4):
        other = Buckets(str(tmp_path))
        put(other, f"{ended}")
        events(other)
        if ended % 2:
            put(other, "more")
        if ended < 2:
            killed(other)
        else:
            other.close()
    put(buckets, "b")
    assert len(events(buckets)) == 7
    assert [path.name for path in (tmp_path / ".index" / "nodes").iterdir()] == [buckets.index.node]
    names = {path.name for path in (tmp_path / ".index").iterdir() if path.name.startswith(("log-", "node-"))}
    assert names == {f"log-{buckets.index.node}"}


def test_an_event_that_was_written_twice_is_read_once(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(buckets, "a")
    with monkeypatch.context() as crash:
        crash.setattr(Index, "settle", lambda *_: None)
        buckets.log.flush(buckets.index)
    put(buckets, "b")
    assert [key for key, *_ in changes(buckets)] == ["a", "b"]
    assert sum(path.read_bytes().count(b'"key": "a"') for path in files(tmp_path)) == 2


def test_a_line_that_a_crash_cut_short_is_passed_over(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(buckets, "a")
    with monkeypatch.context() as crash:
        crash.setattr(Index, "settle", lambda *_: None)
        buckets.log.flush(buckets.index)
    (path,) = files(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    assert [key for key, *_ in changes(buckets)] == ["a"]
    assert len(path.read_bytes().splitlines()) == 2


def test_an_event_is_durable_before_it_leaves_the_outbox(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync = change_log.os.fsync
    monkeypatch.setattr(change_log.os, "fsync", lambda fd: (steps.append("fsync"), fsync(fd))[0])
    put(buckets, "a")
    steps.clear()
    monkeypatch.setattr(Index, "settle", lambda *_: steps.append("settle"))
    buckets.log.flush(buckets.index)
    assert steps[-1] == "settle"
    assert "fsync" in steps


def test_a_change_that_was_never_recorded_has_its_event_after_reconcile(
    buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crash:
        crash.setattr(RecordedStore, "record", lambda *_: None)
        put(buckets, "a")
    assert changes(buckets) == []
    reconcile(buckets)
    assert changes(buckets) == [("a", None, 1)]


def test_times_go_on_rising_when_the_index_begins_anew(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    future_ns = buckets.env.now_ns() + 10**15
    with monkeypatch.context() as clock:
        clock.setattr(SystemEnvironment, "now_ns", lambda _: future_ns)
        put(buckets, "a")
        events(buckets)
    buckets.close()
    for path in Path(tmp_path, ".index").glob("*.sqlite*"):
        path.unlink()
    reconcile(buckets)
    put(buckets, "b")
    assert [key for key, *_ in changes(buckets)] == ["a", "a", "b"]
    assert events(buckets)[1].ts_ns > future_ns


def test_a_write_before_reconcile_has_a_later_time_than_the_log(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index has lost its last transactions, and the clock is behind: a reader would miss the event."""
    buckets.env = buckets.index._env = buckets.log._env = Clock(2 * 10**18)
    put(buckets, "a")
    last = events(buckets)[-1].ts_ns
    assert last >= 2 * 10**18
    with buckets.index.writing() as rows:
        rows.set_meta("newest_ns", 1)
    monkeypatch.setattr(indexing, "boot", lambda: "after a power loss")
    buckets.index.close()
    buckets.env.ns = 10**18  # type: ignore[attr-defined]  # a clock of ours
    put(buckets, "b")
    assert [event.key for event in events(buckets, last)] == ["b"]


def test_the_newest_event_is_found_in_any_file(buckets: Buckets, tmp_path: Path) -> None:
    clock = buckets.env = buckets.index._env = buckets.log._env = Clock(2 * 10**18)
    other = Buckets(str(tmp_path), clock)
    with contextlib.closing(other):
        put(buckets, "a")
        clock.ns += 3600 * 10**9
        put(other, "b")
        events(other)
        clock.ns += 3600 * 10**9
        newest = events(buckets)[-1].ts_ns  # "a" is in a later file than "b"
        assert buckets.log.newest_ns() == newest


def test_days_are_removed_when_somebody_wants_it(buckets: Buckets, tmp_path: Path) -> None:
    put(buckets, "a")
    events(buckets)
    old = Path(tmp_path, ".log", "2001-01-01")
    old.mkdir()
    (old / "00-00.node").write_bytes(b"")
    assert ChangeLog(str(tmp_path), buckets.env).remove_before("2001-01-02") == 1
    assert not old.exists()
    assert [key for key, *_ in changes(buckets)] == ["a"]
    assert json.loads(files(tmp_path)[0].read_bytes().partition(b" ")[2])["key"] == "a"


# Where it begins.


def test_a_log_that_nothing_was_removed_from_has_everything(buckets: Buckets) -> None:
    put(buckets, "k")
    events(buckets)
    reconcile(buckets)
    assert buckets.log.begins_ns() == 0


def test_a_log_begins_behind_the_days_that_were_removed(
    buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before they are removed: a crash in between may leave days, and no log that seems to be whole."""
    put(buckets, "k")
    events(buckets)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        buckets.log.remove_before("2999-01-02")
    begins_ns = ChangeLog(str(tmp_path), buckets.env).begins_ns()
    assert begins_ns == 32472230400 * 10**9  # 2999-01-02
    monkeypatch.undo()
    assert buckets.log.remove_before("2999-01-01") == 1
    assert buckets.log.begins_ns() == begins_ns


def test_a_log_is_younger_than_objects_that_it_was_made_for(tmp_path: Path) -> None:
    with_old = Buckets(str(tmp_path))
    with_old.create(BUCKET)
    Path(tmp_path, BUCKET).mkdir()
    Path(tmp_path, BUCKET, "old").write_bytes(b"x")
    reconcile(with_old)
    assert with_old.log.begins_ns() > 0
    assert [key for key, *_ in changes(with_old)] == ["old"]
    with_old.close()


# Uploads.


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("how", ["abort", "complete"])
def test_an_upload_has_an_event_when_it_begins_and_when_it_ends(
    buckets: Buckets, crashed: bool, how: str
) -> None:
    """A process that is killed before it has recorded it leaves that to the next comparison."""
    store = buckets.store(BUCKET)
    to = FileStore(store.path) if crashed else store

    def found() -> list[tuple[str, str]]:
        if crashed:
            assert reconcile(buckets) is not None
        of_uploads = [one for one in events(buckets) if one.version.startswith("upload/")]
        return [(one.version, "ends" if one.new is None else "begins") for one in of_uploads]

    upload = to.begin_upload(CreateUpload("k"), Metadata()).upload
    begun = (f"upload/{upload}", "begins")
    assert found() == [begun]
    last = [event for event in events(buckets) if event.version][-1]
    assert last.new is not None
    assert last.new["modified_ns"] == store.uploads("k")[0].started_ns
    if how == "abort":
        to.send(AbortUpload("k", upload))
    else:
        part = to.send(UploadPart("k", upload, 1, b"x"))
        to.complete(CompleteUpload("k", upload, ((1, part.etag),), ANYTHING), Keep.NOTHING)
    assert found() == [begun, (f"upload/{upload}", "ends")]
    assert [event.key for event in events(buckets) if not event.version] == ["k"] * (how == "complete")
    again = reconcile(buckets)
    assert again is not None
    assert again.differences == 0


# Versions.


def write(store: FileStore, body: bytes, keep: Keep = Keep.ALL) -> str:
    with store.incoming("k", ANYTHING, keep) as incoming:
        incoming.write(body)
        return incoming.publish(Attributes(md5(body))).version


def every_version(store: FileStore) -> set[tuple[str, str]]:
    """The versions and markers that are not current, each with its ETag."""
    rows = store.versions("", "", ("", ""), 1000).versions
    with store.opened("k") as current:
        latest = current is not None
    return {(row.version, row.etag) for row in rows if not (row.latest and latest and not row.marker)}


def of_events(found: list[Event]) -> set[tuple[str, str]]:
    """What the events say of versions that are not current."""
    state = {event.version: event.new for event in found if event.version}
    return {(version, new["etag"]) for version, new in state.items() if new is not None}


def no_guard(_: Opened) -> None: ...


@pytest.mark.parametrize("crashed", [False, True])
def test_every_version_has_its_events(buckets: Buckets, crashed: bool) -> None:
    """A process that is killed before it has recorded a change leaves that to the next comparison."""
    store = buckets.store(BUCKET)
    plain = FileStore(store.path)

    def do(act: Callable[[FileStore], object]) -> None:
        act(plain if crashed else store)
        if crashed:
            reconcile(buckets)
        assert of_events(events(buckets)) == every_version(store)

    put(buckets, "k")  # older than the versions of its bucket
    names: list[str] = []
    for number in range(3):
        do(lambda to, n=number: names.append(write(to, b"%d" % n)))  # type: ignore[misc]  # a default
    assert ("null", md5(b"x")) in of_events(events(buckets))
    do(lambda to: to.delete_keeping("k", ANYTHING, Keep.ALL))
    marker = store.latest_marker("k")
    assert (marker, "") in of_events(events(buckets))
    tags = Metadata({"Tags": "a=1"})

    def tagged(found: Opened) -> Attributes:
        return found.attributes._replace(extra=Metadata({**found.attributes.extra, **tags}))

    do(lambda to: to.change("k", names[0], tagged))
    last = [event for event in events(buckets) if event.version == names[0]][-1]
    assert last.old is not None
    assert last.new is not None
    assert last.new["extra"]["Tags"] == "a=1"
    do(lambda to: to.remove_version("k", names[1], no_guard))
    do(lambda to: to.remove_version("k", marker, no_guard))
    assert [event.version for event in events(buckets)][-3:].count("") == 1  # names[2] is current again
    do(lambda to: write(to, b"null", Keep.NULL))
    do(lambda to: to.delete_keeping("k", ANYTHING, Keep.NULL))
    do(lambda to: to.remove_version("k", names[0], no_guard))
    found = reconcile(buckets)
    assert found is not None
    assert found.differences == 0
