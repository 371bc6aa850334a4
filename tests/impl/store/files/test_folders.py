"""Folders that are made, moved and removed while others write, read and list through them."""

import contextlib
import fcntl
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from fencepost.impl.store import requests as ask
from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.files import FileStore
from fencepost.impl.store.files.folders import Folders
from fencepost.impl.store.files.listing import Lister
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome


@pytest.fixture
def root():
    """In memory where there is such a file system: more happens there in the same time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        yield root


@pytest.fixture
def hurry():
    """Threads change places as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def names(*path):
    return sorted(entry.name for entry in Path(*path).iterdir())


def together(*works):
    """Run all at once; the first error of any."""
    errors = []

    def run(work):
        try:
            work()
        except Exception as error:  # noqa: BLE001 - raised below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]


def test_an_ordinary_key_is_found_under_its_own_path(root):
    """If this fails, no other program can read what we wrote."""
    store = FileStore(root)
    for key in ("data/x.parquet", "t/date=2024-01-01/part-0.snappy.parquet", ".hidden/_SUCCESS", "Ü/a b"):
        store.put(key, key.encode(), when=ABSENT)
        assert Path(root, key).read_bytes() == key.encode()


def test_an_object_and_a_folder_of_one_name_live_side_by_side(root):
    store = FileStore(root)
    for first, second in (("a", "a/b"), ("c/d", "c")):
        assert store.put(first, b"1", when=ABSENT).done
        assert store.put(second, b"2", when=ABSENT).done
        assert (store.get(first).body, store.get(second).body) == (b"1", b"2")
        assert store.put(first, b"3", when=ABSENT).outcome is Outcome.EXISTS
    assert [info.key for info in store.list().objects] == ["a", "a/b", "c", "c/d"]
    listed = store.list(delimiter="/")
    assert ([info.key for info in listed.objects], listed.prefixes) == (["a", "c"], ("a/", "c/"))
    for key in ("a", "a/b", "c", "c/d"):
        assert store.delete(key, when=ANYTHING).done
    assert names(root) == [".fencepost"]


def test_empty_folders_are_removed_with_their_parents_and_no_others(root):
    store = FileStore(root)
    for key in ("a/b/c/d", "a/x"):
        store.put(key, b"", when=ABSENT)
    store.delete("a/b/c/d", when=ANYTHING)
    assert names(root, "a") == ["x"]


def test_empty_folders_of_others_are_no_prefixes(root):
    Path(root, "empty", "deeper").mkdir(parents=True)
    store = FileStore(root)
    store.put("full/x", b"", when=ABSENT)
    assert store.list(delimiter="/").prefixes == ("full/",)
    assert store.list("empty/", delimiter="/").prefixes == ()


def test_creators_are_never_lost_to_who_removes_their_folder(root, hurry):
    """If this fails, an acknowledged object vanishes with the folder somebody thought empty."""
    stores = [FileStore(root) for _ in range(4)]

    def work(who, store):
        for turn in range(150):
            key = f"f/g/{who}-{turn}"
            assert store.put(key, b"x", when=ABSENT).done
            assert store.get(key).body == b"x"
            assert stores[0].head(key).done
            assert store.delete(key, when=ANYTHING).done
            assert store.get(key).outcome is Outcome.MISSING

    together(*(lambda who=who, store=store: work(who, store) for who, store in enumerate(stores)))
    assert names(root) == [".fencepost"]


def test_an_object_comes_and_goes_at_a_folder_s_name(root, hurry):
    """If this fails, moving a folder aside hides or doubles what is in it."""
    stores = [FileStore(root) for _ in range(4)]
    stores[0].put("n/stays", b"s", when=ABSENT)
    over = threading.Event()

    def objects(store):
        for _ in range(200):
            assert store.put("n", b"o", when=ABSENT).done
            assert store.delete("n", when=ANYTHING).done
        over.set()

    def inside(store):
        turn = 0
        while not over.is_set():
            turn += 1
            assert store.put(f"n/{turn % 3}", str(turn).encode(), when=ANYTHING).done
            assert store.get(f"n/{turn % 3}").body == str(turn).encode()
            if turn % 2:
                assert store.delete(f"n/{turn % 3}", when=ANYTHING).done

    def reader(store):
        while not over.is_set():
            assert store.get("n/stays").body == b"s"
            assert "n/stays" in [info.key for info in store.list().objects]
            assert store.list(delimiter="/").prefixes == ("n/",)
            assert store.put("n/stays", b"", when=ABSENT).outcome is Outcome.EXISTS

    together(*(lambda f=f, s=s: f(s) for f, s in zip((objects, inside, reader, reader), stores, strict=True)))


def test_a_folder_moves_while_it_is_listed(root, hurry):
    """If this fails, a listing misses a whole folder that was there all the time."""
    store, other = FileStore(root), FileStore(root)
    expected = {f"f{number:03}/k" for number in range(150)}
    for key in expected:
        store.put(key, b"", when=ABSENT)
    over = threading.Event()

    def move():
        for key in sorted(expected):
            assert other.put(key.removesuffix("/k"), b"", when=ANYTHING).done
        over.set()

    def look():
        while not over.is_set():
            assert expected <= {info.key for info in store.list().objects}

    together(move, look)
    assert len(store.list().objects) == 300


def test_a_folder_that_moves_while_it_is_looked_for_is_found(root, monkeypatch):
    """If this fails, an object that was there all the time is missing for a moment."""
    store, other, fresh = FileStore(root), FileStore(root), FileStore(root)
    store.put("n/stays", b"s", when=ABSENT)
    plain, waiting = Folders.open, [True]

    def opening(self, name, parent):
        found = plain(self, name, parent)
        if found is None and waiting and waiting.pop():
            other.put("n", b"", when=ABSENT)
        return found

    for store in (fresh, FileStore(root)):
        waiting[:] = [True]
        monkeypatch.setattr(Folders, "open", opening)
        assert store.get("n/stays").body == b"s"
        monkeypatch.setattr(Folders, "open", plain)


def test_folders_are_made_under_the_lock(root, monkeypatch):
    """If this fails, two makers can give one path two folders, under its two names."""
    held = []

    def mkdir(name, dir_fd):
        if name in ("n", "n%folder"):
            with (
                Path(root, ".fencepost", "locks", "tree").open("rb") as file,
                pytest.raises(BlockingIOError) as raised,
            ):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append((name, raised.type))
        os_mkdir(name, dir_fd=dir_fd)

    store = FileStore(root)
    store.put("other", b"", when=ABSENT)
    os_mkdir = os.mkdir
    monkeypatch.setattr(os, "mkdir", mkdir)
    store.put("n/k", b"", when=ABSENT)
    store.delete("n/k", when=ANYTHING)
    store.put("n", b"", when=ABSENT)
    store.put("n/k", b"", when=ABSENT)
    assert [name for name, _ in held] == ["n", "n", "n%folder"]


def test_a_mover_that_died_half_way_stops_nobody(root):
    store = FileStore(root)
    store.put("f/k", b"", when=ABSENT)
    store._session._internals.count_move()
    assert store.list(delimiter="/").prefixes == ("f/",)
    store._session._internals.count_move()
    assert store.put("f", b"", when=ABSENT).done
    assert [info.key for info in store.list().objects] == ["f", "f/k"]
    assert store._session._internals.moves() % 2 == 0


def test_a_folder_that_others_doubled_is_refused(root):
    store = FileStore(root)
    for name in ("f", "f%folder"):
        Path(root, name).mkdir()
        Path(root, name, "x").write_bytes(b"")
    with pytest.raises(Unusable, match="'f' and 'f%folder'"):
        store.put("f", b"", when=ABSENT)


def test_a_file_of_others_where_a_folder_belongs_is_refused(root):
    store = FileStore(root)
    store.put("f", b"", when=ABSENT)
    Path(root, "f%folder").write_bytes(b"")
    with pytest.raises(Unusable, match="'f%folder' where a folder belongs"):
        store.put("f/k", b"", when=ABSENT)


def test_a_folder_that_is_removed_right_after_it_was_made_is_made_again(root, monkeypatch):
    """If this fails, a creator is refused because somebody else cleans up."""
    store, plain, removed = FileStore(root), os.mkdir, []

    def mkdir(name, dir_fd):
        plain(name, dir_fd=dir_fd)
        if name == "f" and len(removed) < 3:
            removed.append(name)
            os.rmdir(name, dir_fd=dir_fd)

    store.put("other", b"", when=ABSENT)
    monkeypatch.setattr(os, "mkdir", mkdir)
    assert store.put("f/k", b"", when=ABSENT).done
    assert len(removed) == 3


def test_pages_read_only_the_folders_they_need(root, monkeypatch):
    """If this fails, every page of a listing reads the whole tree."""
    store = FileStore(root)
    for top in range(8):
        for name in range(5):
            store.put(f"t{top}/f{name}/k", b"", when=ABSENT)
    entered = []
    plain = Folders.open
    monkeypatch.setattr(
        Folders, "open", lambda self, name, parent: entered.append(name) or plain(self, name, parent)
    )

    def folders(**options):
        entered.clear()
        reply = store.list(**options)
        return len(entered), reply

    count, page = folders(limit=3)
    assert count <= 1 + 5
    assert [info.key for info in page.objects] == ["t0/f0/k", "t0/f1/k", "t0/f2/k"]
    count, page = folders(limit=3, token="t5/f4/k")
    assert count <= 2 + 1 + 4
    assert page.objects[0].key == "t6/f0/k"
    count, page = folders(prefix="t7/f1")
    assert count <= 2
    count, page = folders(delimiter="/")
    assert count <= 8 * 2
    assert len(page.prefixes) == 8
    count, page = folders(delimiter="/", after="t6/f4/k")
    assert page.prefixes == ("t7/",)
    assert count <= 5


def test_of_a_group_it_is_enough_that_something_is_in_it(root, monkeypatch):
    """If this fails, listing the tables of a dataset reads the names of all their files."""
    store = FileStore(root)
    for top in range(3):
        for name in range(30):
            store.put(f"t{top}/k{name}", b"", when=ABSENT)
    seen = []
    plain = Lister._entry
    monkeypatch.setattr(
        Lister, "_entry", lambda self, found, *where: seen.append(found.name) or plain(self, found, *where)
    )
    assert store.list(delimiter="/").prefixes == ("t0/", "t1/", "t2/")
    assert len(seen) <= 3 + 1 + 3, "the folders and .fencepost, and one name in each"


def test_long_keys_of_many_folders_need_few_open_files(root):
    before = len(names("/proc/self/fd"))
    store = FileStore(root)
    for number in range(150):
        store.put(f"d{number}/k", b"", when=ABSENT)
    assert len(names("/proc/self/fd")) < before + 140
    assert store.get("d0/k").done


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_shares_no_lock_with_its_parent(root):
    """If this fails, parent and child both hold the lock, and updates are lost."""
    store = FileStore(root)
    store.put("n", b"0", when=ABSENT)

    def add(times):
        for _ in range(times):
            while True:
                seen = store.get("n")
                if store.put("n", str(int(seen.body) + 1).encode(), when=Matches(seen.info.etag)).done:
                    break

    store.send_all([ask.Get("n"), ask.Get("n")])  # the parent has threads, which the child will lack
    child = os.fork()
    if child == 0:
        code = 1
        signal.alarm(20)
        try:
            store.send_all([ask.Get("n"), ask.Get("n")])
            add(50)
            code = 0
        finally:
            os._exit(code)
    add(50)
    assert os.waitpid(child, 0)[1] == 0
    assert store.get("n").body == b"100"


def test_a_deep_key_costs_its_depth(root, monkeypatch):
    """Each folder was looked up from the root again: 500 levels took 125,000 calls."""
    opened, calls = os.open, []

    def counted(*args, **more):
        calls.append(args[0])
        return opened(*args, **more)

    monkeypatch.setattr(os, "open", counted)
    with contextlib.closing(FileStore(root)) as store:
        assert store.put("/".join("a" * 500), b"x", when=ANYTHING).outcome is Outcome.DONE
    assert len(calls) < 10 * 500
