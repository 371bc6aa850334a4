"""What is durable when, which no kill can show: the order of the calls, and what a failed one means."""

import errno
import os
import threading
from pathlib import Path

import pytest

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from tests.impl.store.files.broken import NoFileFsync, NoFolderFsync


def path_of(fd):
    return str(Path(f"/proc/self/fd/{fd}").readlink()).removesuffix(" (deleted)")


def recording(base=Disk):
    """A disk that writes down each call with what it touched, before doing it as `base` does."""

    class Recording(base):
        one_call = False

        def __init__(self):
            self.calls = []

        def note(self, *call):
            self.calls.append(call)

        def write(self, fd, body):
            self.note("write", path_of(fd))
            super().write(fd, body)

        def set_attribute(self, fd, value):
            self.note("attribute", path_of(fd))
            super().set_attribute(fd, value)

        def fsync(self, fd):
            if base is not NoFileFsync:
                self.note("fsync", path_of(fd))
            super().fsync(fd)

        def fsync_folder(self, fd):
            if base is not NoFolderFsync:
                self.note("fsync-folder", path_of(fd))
            super().fsync_folder(fd)

        def link(self, source, source_fd, name, folder_fd):
            self.note("link", f"{path_of(folder_fd)}/{name}", source)
            super().link(source, source_fd, name, folder_fd)

        def replace(self, source, source_fd, name, folder_fd):
            self.note("replace", f"{path_of(folder_fd)}/{name}", source)
            super().replace(source, source_fd, name, folder_fd)

        def unlink(self, name, folder_fd):
            self.note("unlink", f"{path_of(folder_fd)}/{name}")
            super().unlink(name, folder_fd)

    return Recording()


def verbs(disk):
    return [call[0] for call in disk.calls]


def flushed_folders(disk):
    return [call[1] for call in disk.calls if call[0] == "fsync-folder" and ".fencepost" not in call[1]]


@pytest.fixture
def disk():
    return recording()


@pytest.fixture
def store(tmp_path, disk):
    with FileStore(tmp_path / "root", disk=disk) as store:
        store.put("first", b"", when=ANYTHING)  # makes what belongs into .fencepost
        disk.calls.clear()
        yield store


CREATE = ["attribute", "write", "fsync", "link", "fsync-folder"]
REPLACE = ["attribute", "write", "fsync", "replace", "fsync-folder"]


def test_a_create_makes_content_durable_before_the_name_and_the_name_before_the_answer(store, disk):
    """If this fails, a power failure leaves a name with half a content, or takes back an answer."""
    store.put("k", b"body", when=ABSENT)
    assert verbs(disk) == CREATE
    assert disk.calls[-1] == ("fsync-folder", store.path)


@pytest.mark.skipif(not Disk.one_call, reason="this system has no write that is its own fsync")
def test_in_one_call_the_content_is_durable_with_the_attributes_before_the_name(store, disk, monkeypatch):
    """If this fails, the quick way is not the safe way."""
    system = os.pwritev

    def pwritev(fd, bodies, at, flags):
        disk.note("durable write", b"".join(bodies), flags)
        return system(fd, bodies, at, flags)

    monkeypatch.setattr(os, "pwritev", pwritev)
    disk.one_call = True
    store.put("k", b"body", when=ABSENT)
    assert verbs(disk) == ["attribute", "durable write", "link", "fsync-folder"]
    assert disk.calls[1] == ("durable write", b"body", os.RWF_SYNC)
    disk.calls.clear()
    store.put("empty", b"", when=ABSENT)
    assert verbs(disk) == CREATE, "writing nothing would make nothing durable"


@pytest.mark.parametrize("ends", ["no such call", "half"])
def test_where_one_call_does_not_do_it_two_do(store, disk, monkeypatch, ends):
    def pwritev(fd, bodies, at, flags):
        if ends == "half":
            return os.pwrite(fd, bodies[0][:2], at)
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "RWF_SYNC", 4, raising=False)
    disk.one_call = True
    assert store.put("k", b"body", when=ABSENT).done
    assert verbs(disk) == CREATE
    assert store.get("k").body == b"body"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failure_of_the_one_call_applies_nothing(store, disk, monkeypatch, error):
    def pwritev(fd, bodies, at, flags):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "RWF_SYNC", 4, raising=False)
    disk.one_call = True
    with pytest.raises(Unusable):
        store.put("k", b"body", when=ABSENT)
    assert not store.get("k").done


@pytest.mark.parametrize("base", [NoFileFsync, NoFolderFsync])
def test_a_missing_fsync_is_caught(tmp_path, base):
    """The recorded order must show it: a kill never does."""
    disk = recording(base)
    store = FileStore(tmp_path, disk=disk)
    store.put("first", b"", when=ABSENT)
    disk.calls.clear()
    store.put("k", b"body", when=ABSENT)
    assert verbs(disk) != CREATE
    assert set(CREATE) - set(verbs(disk)) == {"fsync" if base is NoFileFsync else "fsync-folder"}


@pytest.mark.parametrize("matching", [True, False])
def test_a_replacement_keeps_the_same_order(store, disk, matching):
    etag = store.put("k", b"old", when=ABSENT).etag
    disk.calls.clear()
    store.put("k", b"new", when=Matches(etag) if matching else ANYTHING)
    assert verbs(disk) == REPLACE


def test_a_delete_is_durable_before_the_answer(store, disk):
    store.put("k", b"", when=ABSENT)
    disk.calls.clear()
    store.delete("k", when=ANYTHING)
    assert disk.calls == [("unlink", f"{store.path}/k"), ("fsync-folder", store.path)]


def test_new_folders_are_durable_with_all_their_parents(store, disk):
    """If this fails, an acknowledged object is lost with a folder that was not durable yet."""
    store.put("a/b/k", b"", when=ABSENT)
    folders = flushed_folders(disk)
    assert folders == [store.path, f"{store.path}/a", f"{store.path}/a/b"]


def test_folders_that_another_made_are_made_durable_too(tmp_path, disk):
    """If this fails, we acknowledge an object below a folder whose maker has not flushed it yet."""
    FileStore(tmp_path).put("a/b/k", b"", when=ABSENT)
    store = FileStore(tmp_path, disk=disk)
    store.put("a/b/l", b"", when=ABSENT)
    folders = flushed_folders(disk)
    assert folders[-3:] == [str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/a/b"]


def test_the_directory_itself_is_durable_with_all_its_parents(tmp_path):
    """If this fails, a power failure takes a whole new store away, and what was acknowledged in it."""
    disk = recording()
    FileStore(tmp_path / "new" / "deep", disk=disk).put("k", b"", when=ABSENT)
    folders = flushed_folders(disk)
    above = folders[: folders.index(f"{tmp_path}/new/deep")]
    assert above[-2:] == [str(tmp_path), f"{tmp_path}/new"]
    assert verbs(disk).index("fsync-folder") < verbs(disk).index("link")


def test_a_root_that_another_made_is_made_durable_too(tmp_path, disk):
    """If this fails, the whole store is lost with a directory that its maker has not flushed yet."""
    (tmp_path / "new" / "root").mkdir(parents=True)
    FileStore(tmp_path / "new" / "root", disk=disk).put("k", b"", when=ABSENT)
    folders = flushed_folders(disk)
    assert str(tmp_path) in folders
    assert folders.index(str(tmp_path / "new")) < folders.index(str(tmp_path / "new" / "root"))


def test_side_files_are_durable_before_the_name(store, disk):
    disk.set_attribute = lambda fd, value: (_ for _ in ()).throw(OSError(errno.ENOTSUP, "no"))
    store.put("k", b"", when=ABSENT)
    at = verbs(disk).index("link")
    assert verbs(disk)[-2:] == ["link", "fsync-folder"]
    assert disk.calls[at - 1] == ("fsync-folder", f"{store.path}/.fencepost/attributes")
    assert verbs(disk)[at - 4 : at - 1] == ["write", "fsync", "replace"]
    assert disk.calls[at - 4][1] == disk.calls[at - 3][1], "what was written is what was made durable"


class Failing(Disk):
    """Fails one kind of call with one error while switched on."""

    one_call = False

    def __init__(self):
        self.verb, self.error = "", 0

    def fail(self, verb):
        if verb == self.verb:
            raise OSError(self.error, os.strerror(self.error))


def _failing(verb):
    def call(self, *arguments):
        self.fail(verb)
        return getattr(Disk, verb)(self, *arguments)

    return call


for _verb in ("write", "fsync", "fsync_folder", "set_attribute", "link", "replace", "unlink"):
    setattr(Failing, _verb, _failing(_verb))


@pytest.fixture
def failing(tmp_path):
    disk = Failing()
    with FileStore(tmp_path / "root", disk=disk) as store:
        store.put("k", b"old", when=ABSENT)
        store.put("a/first", b"", when=ABSENT)
        store.put("a/k", b"old", when=ABSENT)
        yield store, disk


def everything(store):
    return {info.key: store.get(info.key).body for page in store.pages() for info in page.objects}


@pytest.mark.parametrize("key", ["new", "b/new", "k", "a/k"])
@pytest.mark.parametrize("verb", ["write", "fsync"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
def test_a_failure_before_the_name_applies_nothing(failing, key, verb, error):
    """If this fails, half a file is left or a certain failure is called unknown."""
    store, disk = failing
    before = everything(store)
    disk.verb, disk.error = verb, error
    with pytest.raises(Unusable) as raised:
        store.put(key, b"new", when=ANYTHING)
    assert "\n" not in str(raised.value)
    assert store.path in str(raised.value)
    disk.verb = ""
    assert everything(store) == before
    assert not Path(store.path, "b").exists()
    assert list(Path(store.path, ".fencepost/tmp").iterdir()) == []


def test_a_failed_fsync_of_the_folder_leaves_the_outcome_unknown(failing):
    """If this fails, success is claimed for what a power failure may take back."""
    store, disk = failing
    disk.verb, disk.error = "fsync_folder", errno.EIO
    assert store.put("new", b"", when=ABSENT).outcome is Outcome.UNKNOWN
    assert store.put("k", b"", when=ANYTHING).outcome is Outcome.UNKNOWN
    assert store.delete("k", when=ANYTHING).outcome is Outcome.UNKNOWN
    upload = store.list_uploads()
    assert upload.done


@pytest.mark.parametrize(
    ("error", "sure"), [(errno.EIO, False), (errno.ETIMEDOUT, False), (errno.ENOSPC, True)]
)
def test_a_link_or_rename_that_does_not_say_is_unknown(failing, error, sure):
    store, disk = failing
    for verb, when in (("link", ABSENT), ("replace", ANYTHING)):
        disk.verb, disk.error = verb, error
        if sure:
            with pytest.raises(Unusable):
                store.put("new", b"", when=when)
        else:
            assert store.put("new", b"", when=when).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("error", [errno.EIO, errno.ETIMEDOUT])
def test_an_unlink_that_does_not_say_is_unknown(failing, error):
    store, disk = failing
    disk.verb, disk.error = "unlink", error
    assert store.delete("k", when=ANYTHING).outcome is Outcome.UNKNOWN


def test_all_writers_of_a_failed_fsync_see_the_failure(tmp_path):
    """If this fails, only the one who called fsync learns that nothing is durable."""

    class Together(Disk):
        """Every writer links before any may flush; then all flushes fail."""

        armed = False

        def fsync_folder(self, fd):
            if self.armed:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().fsync_folder(fd)

    disk = Together()
    store = FileStore(tmp_path, disk=disk)
    store.put("first", b"", when=ABSENT)
    disk.armed = True
    outcomes = []
    threads = [
        threading.Thread(target=lambda n=n: outcomes.append(store.put(f"k{n}", b"", when=ABSENT).outcome))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [Outcome.UNKNOWN] * 8
