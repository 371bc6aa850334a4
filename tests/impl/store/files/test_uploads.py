"""Uploads in a directory, and what is written if-match, while others are at work on the key."""

import errno
import os
import threading

import pytest

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import Disk, FileStore, uploads
from fencepost.impl.store.files.attributes import Attributes, md5
from fencepost.impl.store.files.versions import Keep
from fencepost.impl.store.requests import ABSENT, ANYTHING, CompleteUpload, Matches, Outcome


class Meanwhile(Disk):
    """Does something of ours right before the object of `key` gets its name."""

    def __init__(self, key, act):
        self.key, self.act = key, act

    def move(self, source, source_fd, name, folder_fd):
        if name == self.key and self.act is not None:
            act, self.act = self.act, None
            act()
        super().move(source, source_fd, name, folder_fd)


def uploaded(store, key, body):
    upload = store.create_upload(key).upload
    return upload, [(1, store.upload_part(key, upload, 1, body).etag)]


def test_an_upload_that_lost_its_key_in_the_last_moment_is_still_there(tmp_path):
    """A create takes no lock, so it can come between the look and the link: that must not cost the parts."""
    other = FileStore(tmp_path)
    store = FileStore(tmp_path, disk=Meanwhile("k", lambda: other.put("k", b"theirs", when=ABSENT)))
    upload, parts = uploaded(store, "k", b"ours")
    assert store.complete_upload("k", upload, parts, when=ABSENT).outcome is Outcome.EXISTS
    assert store.get("k").body == b"theirs"
    assert [info.upload for info in store.list_uploads().uploads] == [upload]
    assert store.complete_upload("k", upload, parts, when=ANYTHING).done
    assert store.get("k").body == b"ours"
    assert store.list_uploads().uploads == ()


def test_an_upload_whose_object_found_no_room_is_still_there(tmp_path):
    def full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = FileStore(tmp_path, disk=Meanwhile("k", full))
    upload, parts = uploaded(store, "k", b"ours")
    with pytest.raises(Unusable, match="full"):
        store.complete_upload("k", upload, parts, when=ABSENT)
    assert not store.head("k").done
    assert store.complete_upload("k", upload, parts, when=ABSENT).done


def test_an_upload_is_completed_by_one_of_two(tmp_path):
    """Both hold all the parts open: whoever takes the upload away publishes it, and nobody else."""
    other = FileStore(tmp_path)
    upload, parts = uploaded(other, "k", b"ours")
    ends = []

    class Twice(Disk):
        def fsync(self, fd):
            if not ends:
                ends.append(None)
                ends[0] = other.complete_upload("k", upload, parts, when=ANYTHING).outcome
                other.put("k", b"newer", when=ANYTHING)
            super().fsync(fd)

    store = FileStore(tmp_path, disk=Twice())
    ends.append(store.complete_upload("k", upload, parts, when=ANYTHING).outcome)
    assert ends == [Outcome.DONE, Outcome.GONE]
    assert store.get("k").body == b"newer"


@pytest.mark.parametrize("first", ["put", "upload"])
@pytest.mark.parametrize("what", ["put", "delete", "blind put", "upload"])
def test_nothing_comes_between_the_decision_and_the_object(tmp_path, what, first):
    """If this fails, a write with if-match buries what was written after it looked."""
    other = FileStore(tmp_path)
    before = other.put("k", b"before", when=ANYTHING).etag
    upload, parts = uploaded(other, "k", b"completed")
    rival, rival_parts = uploaded(other, "k", b"rival")
    acts = {
        "put": lambda: other.put("k", b"rival", when=Matches(before)),
        "delete": lambda: other.delete("k", when=Matches(before)),
        "blind put": lambda: other.put("k", b"rival", when=ANYTHING),
        "upload": lambda: other.complete_upload("k", rival, rival_parts, when=Matches(before)),
    }
    ends = []
    thread = threading.Thread(target=lambda: ends.append(acts[what]().outcome))

    class Between(Disk):
        def replace(self, source, source_fd, name, folder_fd):
            if name == "k" and not thread.ident:
                thread.start()
                thread.join(0.1)
                assert thread.is_alive(), "it waits for the lock of the key"
            super().replace(source, source_fd, name, folder_fd)

    store = FileStore(tmp_path, disk=Between())
    if first == "upload":
        assert store.complete_upload("k", upload, parts, when=Matches(before)).done
    else:
        assert store.put("k", b"completed", when=Matches(before)).done
    thread.join()
    assert ends == [Outcome.DONE if what == "blind put" else Outcome.CHANGED]
    assert other.get("k").body == (b"rival" if what == "blind put" else b"completed")


@pytest.mark.parametrize("first", ["put", "upload"])
@pytest.mark.parametrize("condition", ["matches", "absent"])
def test_what_was_decided_before_the_work_is_decided_again_when_it_counts(tmp_path, first, condition):
    """If this fails, a write buries what was written while its own bytes became durable."""
    other = FileStore(tmp_path)
    when = Matches(other.put("k", b"before", when=ANYTHING).etag) if condition == "matches" else ABSENT
    if when is ABSENT:
        other.delete("k", when=ANYTHING)
    upload, parts = uploaded(other, "k", b"ours")
    written = []

    class Meantime(Disk):
        one_call = False

        def fsync(self, fd):
            if not written:
                written.append(other.put("k", b"theirs", when=ANYTHING))
            super().fsync(fd)

    store = FileStore(tmp_path, disk=Meantime())
    if first == "put":
        reply = store.put("k", b"ours", when=when)
    else:
        reply = store.complete_upload("k", upload, parts, when=when)
    assert written, "it came in between"
    assert reply.outcome is (Outcome.EXISTS if when is ABSENT else Outcome.CHANGED)
    assert other.get("k").body == b"theirs"


class Killed(BaseException):
    """No code of ours catches it."""


class KilledAt(Disk):
    """The process ends before or after its n-th step; nothing is cleaned up."""

    def __init__(self, left):
        self.left = left

    def __getattribute__(self, name):
        plain = super().__getattribute__(name)
        if name not in ("fsync", "fsync_folder", "move", "replace", "unlink", "link", "set_attribute"):
            return plain

        def step(*args):
            if self.left == 0:
                raise Killed
            plain(*args)
            self.left -= 1
            if self.left == 0:
                raise Killed

        return step


@pytest.mark.parametrize("keep", list(Keep))
@pytest.mark.parametrize("when", [ANYTHING, ABSENT])
def test_a_completion_that_is_killed_anywhere_can_be_repeated(tmp_path, keep, when):
    """Somebody else overwrites the object in between, which a repetition must not undo."""
    for steps in range(1, 100):
        other = FileStore(tmp_path / str(steps), remembers_uploads=True)
        upload, parts = uploaded(other, "k", b"ours")
        request = CompleteUpload("k", upload, tuple(parts), when)
        disk = KilledAt(steps)
        store = FileStore(other.path, disk=disk, remembers_uploads=True)
        try:
            etag, ended = store.complete(request, keep).etag, True
        except Killed:
            etag, ended = "", False
        published = other.get("k").done
        if published:
            with other.incoming("k", ANYTHING, keep) as newer:
                newer.write(b"newer")
                newer.publish(Attributes(md5(b"newer")))
        again = other.complete(request, keep)
        result = other.upload_result("k", upload)
        assert result is not None, steps
        assert (again.outcome is Outcome.GONE) == published, steps
        assert other.get("k").body == (b"newer" if published else b"ours"), steps
        assert result.etag == (etag or again.etag or result.etag)
        assert bool(result.version) == (keep is not Keep.NOTHING)
        assert other.list_uploads().uploads == ()
        assert other.parts("k", upload) is None
        if ended:
            break
    assert steps > 5


def test_pages_of_uploads_read_each_upload_once(tmp_path, monkeypatch):
    """A page costs the names of the uploads. An upload that is gone is listed no more."""
    store = FileStore(tmp_path)
    begun = [store.create_upload(f"key-{number}").upload for number in range(4)]
    read = []
    real = uploads._about
    monkeypatch.setattr(uploads, "_about", lambda folder: read.append(folder) or real(folder))
    found, token = [], ""
    while page := store.list_uploads(limit=1, token=token):
        found += [info.upload for info in page.uploads]
        token = page.next
        if not token:
            break
    assert found == begun
    assert len(read) == len(begun)
    store.abort_upload("key-2", begun[2])
    assert [info.upload for info in store.list_uploads().uploads] == [*begun[:2], begun[3]]
