"""A create in one call: the same steps in the same order, and the same endings whatever fails.

What the compiled part asks of the system is seen by a library that is loaded before it (`watching.c`), which
can also fail any of its calls. Every failure is put into both ways, in one call and step by step.
"""

import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fencepost.impl.store.files import Disk, FileStore
from fencepost.impl.store.files.together import BODY_BYTES_MAX, CALLER_FLUSHES, create
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Put

HERE = Path(__file__).parent
COMPILER = shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0])

pytestmark = pytest.mark.skipif(not Disk.creates, reason="installed without a compiler")
watchable = pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="nothing to compile with")

WHOLE = ["openat", "opened", "fsetxattr", "pwritev2", "linkat", "fsync", "close"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    built = tmp_path_factory.mktemp("watching") / "watching.so"
    source = str(HERE / "watching.c")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


@pytest.fixture
def watch(library, tmp_path):
    """Runs cases (see `watched.py`) in a process of its own."""

    def run(*cases):
        ran = subprocess.run(
            [sys.executable, HERE / "watched.py", tmp_path],
            input=json.dumps(cases),
            capture_output=True,
            text=True,
            env=os.environ | {"LD_PRELOAD": str(library)},
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    return run


def verbs(found):
    return [call[0] for call in found["calls"]]


def clean(found):
    return not found["left_open"] and not found["left_lying"]


@watchable
def test_the_steps_are_those_of_a_durable_create_in_their_order(watch):
    """If this fails, a power failure leaves a name with half a content, or takes back an answer."""
    (found,) = watch(["one", "", "k", "body", "", 0, 0])
    assert verbs(found) == WHOLE
    calls = {name: (fd, detail) for name, fd, detail in found["calls"]}
    draft = calls["opened"][0]
    assert calls["openat"][1] & os.O_TMPFILE == os.O_TMPFILE
    assert calls["openat"][1] & os.O_CLOEXEC
    assert {calls[name][0] for name in ("fsetxattr", "pwritev2", "close")} == {draft}
    assert calls["pwritev2"][1] == os.RWF_SYNC
    assert calls["linkat"][0] == calls["fsync"][0] != draft, "the folder is flushed, not the draft"
    assert (found["ended"], found["stands"]) == ("done", "body")
    assert found["etag"] == hashlib.md5(b"body").hexdigest()
    assert clean(found)


@watchable
def test_an_empty_object_is_made_durable_by_a_flush(watch):
    """Writing nothing makes nothing durable."""
    (found,) = watch(["one", "", "k", "", "", 0, 0])
    assert verbs(found) == [{"pwritev2": "fsync"}.get(name, name) for name in WHOLE]
    assert found["calls"][3][1] == found["calls"][1][1], "the draft itself"
    assert (found["ended"], found["stands"]) == ("done", "")


@watchable
def test_who_comes_second_writes_once_and_changes_nothing(watch):
    """If this fails, losing a race costs two writes, or two writers win."""
    _, found = watch(["one", "", "k", "first", "", 0, 0], ["one", "", "k", "second", "", 0, 0])
    assert verbs(found) == ["openat", "opened", "fsetxattr", "pwritev2", "linkat", "close"]
    assert (found["ended"], found["stands"]) == ("exists", "first")
    assert clean(found)


FAILING = {
    "openat": {"Unusable"},
    "fsetxattr": {"Unusable", "done"},
    "pwritev2": {"Unusable", "done"},
    "linkat": {"Unusable", "unknown"},
    "fsync": {"unknown"},
}
ERRORS = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EMFILE,
    errno.EMLINK,
    errno.ETIMEDOUT,
    errno.EOPNOTSUPP,
    errno.EINVAL,
    errno.ENOSYS,
)


@watchable
@pytest.mark.parametrize("call", FAILING)
def test_whatever_keeps_failing_ends_as_step_by_step(watch, call):
    """If this fails, a certain failure is called unknown, an unknown one certain, or a failed flush done."""
    cases = [
        [f"{variant}{error}", variant, "k", "body", call, error, 1000]
        for error in ERRORS
        for variant in ("", "by-steps")
    ]
    found = watch(*cases)
    endings = set()
    for error, (one, steps) in zip(ERRORS, zip(found[::2], found[1::2], strict=True), strict=True):
        name = errno.errorcode[error]
        assert (one["ended"], one["stands"]) == (steps["ended"], steps["stands"]), name
        assert clean(one), name
        endings.add(one["ended"].partition(":")[0])
    assert endings == FAILING[call], "did they strike?"


@watchable
def test_what_fails_once_before_the_name_is_done_again_by_steps(watch):
    calls = ("openat", "fsetxattr", "pwritev2")
    found = watch(
        *([f"{call}{error}", "", "k", "body", call, error, 1] for call in calls for error in ERRORS)
    )
    for one in found:
        assert (one["ended"], one["stands"]) == ("done", "body")
        assert clean(one)


@watchable
def test_a_write_that_is_cut_short_gives_no_name_to_half_a_content(watch):
    (found,) = watch(["one", "", "k", "whole body", "pwritev2", 0, 1])
    at = verbs(found).index("linkat")
    assert "write" not in verbs(found)[:at] or found["stands"] == "whole body"
    assert verbs(found).count("linkat") == 1
    assert (found["ended"], found["stands"]) == ("done", "whole body")


@watchable
@pytest.mark.parametrize(
    ("call", "error", "ended", "links"),
    [
        ("linkat", errno.EIO, "unknown", 1),
        ("linkat", errno.ETIMEDOUT, "unknown", 1),
        ("linkat", errno.ENOSPC, "done", 2),
        ("linkat", errno.ENOENT, "done", 2),
        ("fsync", errno.EIO, "unknown", 1),
        ("fsync", errno.EINTR, "done", 1),
    ],
)
def test_only_what_surely_did_not_happen_is_done_again(watch, call, error, ended, links):
    """If this fails, a link that perhaps happened is repeated, and our own object taken for another's."""
    (found,) = watch(["one", "", "k", "body", call, error, 1])
    assert found["ended"] == ended
    assert verbs(found).count("linkat") == links
    assert found["stands"] == ("body" if (call, ended) != ("linkat", "unknown") else None)
    assert clean(found)


@watchable
@pytest.mark.parametrize("call", ["openat", "fsetxattr", "pwritev2"])
def test_what_a_file_system_cannot_do_is_tried_once(watch, call):
    first, second = watch(["one", "", "a", "x", call, errno.EOPNOTSUPP, 1], ["one", "", "b", "x", "", 0, 0])
    assert first["ended"] == second["ended"] == "done"
    by_steps = ["openat", "opened", "fsetxattr", "pwritev2", "linkat", "close", "fsync"]
    assert verbs(first)[-len(by_steps) :] == by_steps
    assert verbs(second) == by_steps, "still tried in one call"


class Recorder(Disk):
    """Notes what is created in one call."""

    def __init__(self):
        self.names = []
        self.flushed = []

    def create(self, drafts_fd, folder_fd, name, flush_fd, *content):
        self.names.append(name)
        self.flushed.append(flush_fd != CALLER_FLUSHES)
        return super().create(drafts_fd, folder_fd, name, flush_fd, *content)


@pytest.fixture
def disk():
    return Recorder()


@pytest.fixture
def store(tmp_path, disk):
    with FileStore(tmp_path / "root", disk=disk) as store:
        yield store


def test_small_creates_go_together_and_nothing_else(store, disk):
    assert store.put("small", b"x" * BODY_BYTES_MAX, when=ABSENT).done
    assert store.put("a/b", b"x", when=ABSENT, content_type="text/plain", metadata={"by": "me"}).done
    assert store.head("a/b").info.metadata == {"by": "me"}
    assert store.put("large", b"x" * (BODY_BYTES_MAX + 1), when=ABSENT).done
    etag = store.put("blind", b"x", when=ANYTHING).etag
    assert store.put("blind", b"y", when=Matches(etag)).done
    assert disk.names == ["small", "b"]


def test_the_etag_is_the_md5_of_the_content_whatever_its_length(store, disk):
    """If this fails, an ETag from one call and one from steps tell the same content apart."""
    chance = random.Random(5)
    lengths = [*range(260), 4095, 4096, 4097, BODY_BYTES_MAX - 1, BODY_BYTES_MAX]
    for length in lengths:
        body = chance.randbytes(length)
        reply = store.put(f"k{length}", body, when=ABSENT, metadata={"by": "me"} if length % 2 else {})
        found = store.get(f"k{length}")
        assert reply.etag == found.info.etag == hashlib.md5(body).hexdigest(), length
        assert found.body == body
    assert len(disk.names) == len(lengths)


@pytest.mark.parametrize("at", [-1, 1, 32])
def test_an_etag_without_room_is_refused(tmp_path, at):
    """If this fails, memory is written that is not ours."""
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(ValueError, match="room"):
            create(fd, fd, "k", fd, "user.fencepost", b"0" * 32, at, b"")
    finally:
        os.close(fd)
    assert list(tmp_path.iterdir()) == []


def test_an_object_and_a_folder_of_one_name_still_find_room(store, disk):
    """In one call the name is taken by a folder; by steps the folder moves."""
    assert store.put("a/b", b"below", when=ABSENT).done
    assert store.put("a", b"above", when=ABSENT).done
    assert store.get("a").body == b"above"
    assert store.get("a/b").body == b"below"
    assert disk.names == ["b", "a"]


def test_where_flushes_are_shared_the_call_leaves_that_to_them(store, disk):
    """If this fails, sixteen writers on a network volume make sixteen flushes, one after another."""
    store.put("first", b"", when=ABSENT)
    flush = store._session.answers[Put].__self__._folders.root._flush
    assert disk.flushed == [True]
    assert flush._least_s > 0, "the time of the flush was not learned"
    flush._least_s = 100.0
    assert store.put("second", b"", when=ABSENT).done
    assert disk.flushed == [True, False]
    assert flush._coming == set()


def test_a_disk_that_changes_a_step_is_asked_for_every_step():
    """If this fails, a disk that counts, delays or fails its calls is passed by."""

    class Changed(Disk):
        def link(self, source, source_fd, name, folder_fd):
            super().link(source, source_fd, name, folder_fd)

    class ChangedFurther(Recorder):
        pass

    assert Disk.creates
    assert Recorder.creates
    assert not Changed.creates
    assert not ChangedFurther.creates


def test_without_the_compiled_part_everything_works(tmp_path):
    script = (
        "import sys; sys.modules['fencepost.impl.store.files._together'] = None\n"
        "from fencepost.impl.store.files import Disk, FileStore\n"
        "from fencepost.impl.store.requests import ABSENT\n"
        "store = FileStore(sys.argv[1])\n"
        "print(Disk.creates, *(store.put('k', body, when=ABSENT).outcome for body in (b'x', b'y')))"
    )
    ran = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "done", "exists"]
