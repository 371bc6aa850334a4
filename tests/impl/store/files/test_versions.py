"""Versions on a directory: nothing acknowledged is lost, whatever is interrupted where."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost.impl.store.errors import Unsupported
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.attributes import Attributes, md5
from fencepost.impl.store.files.disk import Disk
from fencepost.impl.store.files.reading import Opened
from fencepost.impl.store.files.versions import Keep
from fencepost.impl.store.requests import ABSENT, ANYTHING, Condition, Matches, Metadata, Outcome

Row = tuple[str, bool, bool, bytes]
"""Of a version: its identifier, whether it is the latest, whether it is a marker, its content."""


def put(store: FileStore, key: str, body: bytes, keep: Keep = Keep.ALL, when: Condition = ANYTHING) -> str:
    with store.incoming(key, when, keep) as incoming:
        incoming.write(body)
        reply = incoming.publish(Attributes(md5(body)))
    assert reply.outcome is Outcome.DONE
    return reply.version


def delete(store: FileStore, key: str, keep: Keep = Keep.ALL) -> str:
    reply = store.delete_keeping(key, ANYTHING, keep)
    assert (reply.outcome, reply.marker) == (Outcome.DONE, True)
    return reply.version


def allowed(_: Opened) -> None:
    """A guard that lets everything pass."""


def remove(store: FileStore, key: str, version: str) -> None:
    assert store.remove_version(key, version, allowed).outcome is Outcome.DONE


def content(store: FileStore, key: str, version: str = "") -> bytes | None:
    with store.opened(key, version) as found:
        return None if found is None else os.pread(found.fd, 1 << 20, 0)


def rows(store: FileStore, key: str) -> list[Row]:
    page = store.versions(key, "", ("", ""), 1000)
    return [
        (row.version, row.latest, row.marker, content(store, key, row.version) or b"")
        for row in page.versions
        if row.key == key
    ]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "store") as found:
        yield found


def test_every_version_stays_until_it_is_removed(store: FileStore) -> None:
    first, second = put(store, "a/k", b"1"), put(store, "a/k", b"2")
    marker = delete(store, "a/k")
    assert rows(store, "a/k") == [
        (marker, True, True, b""),
        (second, False, False, b"2"),
        (first, False, False, b"1"),
    ]
    assert content(store, "a/k") is None
    assert store.latest_marker("a/k") == marker
    assert store.list("").objects == ()
    remove(store, "a/k", marker)
    assert content(store, "a/k") == b"2"
    remove(store, "a/k", second)
    assert rows(store, "a/k") == [(first, True, False, b"1")]
    assert [info.key for info in store.list("").objects] == ["a/k"]
    remove(store, "a/k", first)
    assert rows(store, "a/k") == []
    assert not any(Path(store.path, ".fencepost/versions").iterdir())


def test_objects_older_than_versioning_are_null(store: FileStore) -> None:
    store.put("k", b"old", when=ABSENT)
    assert rows(store, "k") == [("null", True, False, b"old")]
    first = put(store, "k", b"1")
    assert [row[0] for row in rows(store, "k")] == [first, "null"]
    assert put(store, "k", b"new null", Keep.NULL) == "null"
    assert rows(store, "k") == [("null", True, False, b"new null"), (first, False, False, b"1")]
    assert delete(store, "k", Keep.NULL) == "null"
    assert rows(store, "k") == [("null", True, True, b""), (first, False, False, b"1")]
    put(store, "k", b"again", Keep.NULL)
    assert rows(store, "k") == [("null", True, False, b"again"), (first, False, False, b"1")]


def test_conditions_look_at_the_current_version_only(store: FileStore) -> None:
    put(store, "k", b"1", when=ABSENT)
    with store.incoming("k", ABSENT, Keep.ALL) as incoming:
        assert incoming.publish(Attributes(md5(b""))).outcome is Outcome.EXISTS
    delete(store, "k")
    with store.incoming("k", Matches(md5(b"1")), Keep.ALL) as incoming:
        assert incoming.publish(Attributes(md5(b""))).outcome is Outcome.MISSING
    put(store, "k", b"2", when=ABSENT)
    assert len(rows(store, "k")) == 3


def test_pages_of_versions_hold_everything_once_and_in_order(store: FileStore) -> None:
    for key in ("a", "a/b", "a-b", "dir/x", "dir/y", "z"):
        for number in range(3):
            put(store, key, b"%d" % number)
    delete(store, "a")
    delete(store, "only-marker")
    whole = store.versions("", "", ("", ""), 1000)
    assert [row.key for row in whole.versions] == sorted(row.key for row in whole.versions)
    assert len(whole.versions) == 6 * 3 + 2
    for limit in (1, 2, 5):
        found, after, more = [], ("", ""), True
        while more:
            page = store.versions("", "", after, limit)
            found += page.versions
            more = page.more
            if page.versions:
                after = (page.versions[-1].key, page.versions[-1].version)
        assert found == whole.versions
    grouped = store.versions("", "/", ("", ""), 1000)
    assert grouped.prefixes == ["a/", "dir/"]
    assert {row.key for row in grouped.versions} == {"a", "a-b", "only-marker", "z"}
    assert store.versions("", "/", ("dir/", ""), 1000).prefixes == []
    assert {row.key for row in store.versions("dir/", "", ("", ""), 1000).versions} == {"dir/x", "dir/y"}


def test_a_version_is_its_own_whatever_the_clock_does(tmp_path: Path) -> None:
    from fencepost.impl.environment import SystemEnvironment

    class Backwards(SystemEnvironment):
        at = 2_000_000_000_000_000_000

        def now_ns(self) -> int:
            Backwards.at -= 1_000
            return Backwards.at

    with FileStore(tmp_path / "store", env=Backwards()) as store:
        versions = [put(store, "k", b"%d" % number) for number in range(4)]
        assert [row[0] for row in rows(store, "k")] == versions[::-1]


def test_attributes_change_in_place_and_may_outgrow_the_file(store: FileStore) -> None:
    version = put(store, "k", b"1")
    for size in (10, 200_000, 20):
        extra = {"Tags": "x" * size}

        def grown(found: Opened, extra: dict[str, str] = extra) -> Attributes:
            return found.attributes._replace(extra=Metadata({**found.attributes.extra, **extra}))

        assert store.change("k", version, grown) is Outcome.DONE
        with FileStore(store.path) as again, again.opened("k", version) as found:
            assert found is not None
            assert found.attributes.extra["Tags"] == "x" * size
    put(store, "k", b"2")
    with store.opened("k", version) as found:
        assert found is not None
        assert found.attributes.extra["Tags"] == "x" * 20
    assert store.change("none", "", lambda found: found.attributes) is Outcome.MISSING


def test_a_plain_write_cannot_lose_a_version(store: FileStore) -> None:
    put(store, "k", b"1")
    put(store, "k", b"2")
    with FileStore(store.path) as plain:
        for act in (lambda: plain.put("k", b"", when=ANYTHING), lambda: plain.delete("k", when=ANYTHING)):
            with pytest.raises(Unsupported):
                act()


# Interrupted anywhere.


class Killed(BaseException):
    """The process ended here."""


class Fragile(Disk):
    """Ends at the call with number `left`, and at every one after it."""

    left = 1 << 30

    def _step(self) -> None:
        Fragile.left -= 1
        if Fragile.left < 0:
            raise Killed

    def fsync(self, fd: int) -> None:
        self._step()

    def fsync_folder(self, fd: int) -> None:
        self._step()

    def set_attribute(self, fd: int, value: bytes) -> None:
        self._step()
        super().set_attribute(fd, value)

    def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._step()
        super().link(source, source_fd, name, folder_fd)

    def replace(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
        self._step()
        super().replace(source, source_fd, name, folder_fd)

    def unlink(self, name: str, folder_fd: int) -> None:
        self._step()
        super().unlink(name, folder_fd)


def _put_all(store: FileStore) -> None:
    put(store, "k", b"3")


def _put_null(store: FileStore) -> None:
    put(store, "k", b"3", Keep.NULL)


def _delete_all(store: FileStore) -> None:
    delete(store, "k")


def _delete_null(store: FileStore) -> None:
    delete(store, "k", Keep.NULL)


def _remove(at: int) -> Callable[[FileStore], None]:
    def act(store: FileStore) -> None:
        remove(store, "k", rows(store, "k")[at][0])

    return act


def _plain(store: FileStore) -> None:
    store.put("k", b"0", when=ANYTHING)


def _second(store: FileStore) -> None:
    put(store, "k", b"2")


def _second_null(store: FileStore) -> None:
    put(store, "k", b"n", Keep.NULL)


def _before(*acts: Callable[[FileStore], None]) -> Callable[[FileStore], None]:
    def make(store: FileStore) -> None:
        for act in acts:
            act(store)

    return make


SETTINGS = {
    "new": _before(),
    "unversioned": _before(_plain),
    "versions": _before(_plain, _second, _put_all),
    "marker": _before(_plain, _put_all, _delete_all),
    "null-marker": _before(_plain, _put_all, _delete_null),
    "null": _before(_put_all, _second_null),
}
ACTS = {
    "put": _put_all,
    "put-null": _put_null,
    "delete": _delete_all,
    "delete-null": _delete_null,
    "remove-newest": _remove(0),
    "remove-last": _remove(-1),
}


def shape(found: list[Row]) -> list[tuple[bool, bool, bool, bytes]]:
    """Without the identifiers, which differ from run to run."""
    return [(row[0] == "null", *row[1:]) for row in found]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("act", ACTS)
def test_an_interrupted_change_happened_or_did_not(tmp_path: Path, setting: str, act: str) -> None:
    """And the next change finds nothing left of it."""
    if setting == "new" and act.startswith("remove"):
        pytest.skip("there is nothing to remove")
    with FileStore(tmp_path / "whole") as whole:
        SETTINGS[setting](whole)
        before = shape(rows(whole, "k"))
        ACTS[act](whole)
        after = shape(rows(whole, "k"))
        put(whole, "k", b"next")
        following = shape(rows(whole, "k"))
    template = tmp_path / "template"
    with FileStore(template) as plain:
        SETTINGS[setting](plain)
        standing = rows(plain, "k")
    template.mkdir(exist_ok=True)
    outcomes = set()
    for steps in range(60):
        path = tmp_path / str(steps)
        shutil.copytree(template, path)
        Fragile.left = steps
        broken = FileStore(path, disk=Fragile())
        try:
            ACTS[act](broken)
        except Killed:
            pass
        else:
            assert steps > 0
            break
        finally:
            Fragile.left = 1 << 30
            broken.close()
        with FileStore(path) as again:
            found = rows(again, "k")
            assert shape(found) in (before, after)
            outcomes.add(shape(found) == before)
            if shape(found) == before:
                assert found == standing
            listed = [info.key for info in again.list("").objects]
            latest = bool(found) and not found[0][2]
            assert listed == (["k"] if latest else [])
            assert content(again, "k") == (found[0][3] if latest else None)
            put(again, "k", b"next")
            if shape(found) == after:
                assert shape(rows(again, "k")) == following
            else:
                assert rows(again, "k")[1:] == [(row[0], False, *row[2:]) for row in standing]
    else:
        pytest.fail("the change never ended")
    assert True in outcomes, "it was never interrupted before it happened"


def test_each_step_is_durable_before_the_next(tmp_path: Path) -> None:
    """A power loss would otherwise take a version that was acknowledged."""
    calls = []

    class Watching(Disk):
        def fsync_folder(self, fd: int) -> None:
            calls.append(("flush", Path(f"/proc/self/fd/{fd}").readlink().name))
            super().fsync_folder(fd)

        def link(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
            calls.append(("link", Path(f"/proc/self/fd/{folder_fd}").readlink().name))
            super().link(source, source_fd, name, folder_fd)

        def replace(self, source: str, source_fd: int, name: str, folder_fd: int) -> None:
            calls.append(("replace", Path(f"/proc/self/fd/{folder_fd}").readlink().name))
            super().replace(source, source_fd, name, folder_fd)

        def unlink(self, name: str, folder_fd: int) -> None:
            calls.append(("unlink", Path(f"/proc/self/fd/{folder_fd}").readlink().name))
            super().unlink(name, folder_fd)

    def steps(act: Callable[[], object]) -> list[tuple[str, str]]:
        calls.clear()
        act()
        return calls[:]

    with FileStore(tmp_path / "store", disk=Watching(), linger_ms=0) as store:
        for number in range(2):
            put(store, "k", b"%d" % number)
        assert steps(lambda: put(store, "k", b"2")) == [
            ("link", "k%01"), ("flush", "k%01"), ("replace", "store"), ("flush", "store"),
        ]  # fmt: skip
        assert steps(lambda: delete(store, "k")) == [
            ("link", "k%01"), ("flush", "k%01"), ("link", "k%01"), ("flush", "k%01"),
            ("unlink", "store"), ("flush", "store"),
        ]  # fmt: skip
        marker = store.latest_marker("k")
        assert steps(lambda: remove(store, "k", marker)) == [
            ("link", "tmp"), ("replace", "store"), ("flush", "store"),
            ("unlink", "k%01"), ("unlink", "k%01"), ("flush", "k%01"),
        ]  # fmt: skip
