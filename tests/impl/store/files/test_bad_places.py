"""Places that cannot be used, and things in a directory that are not ours: one clear sentence each."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store import open_store
from fencepost.impl.store.errors import BrokenPromise, Misuse, Unsupported, Unusable
from fencepost.impl.store.files import FileStore, attributes
from fencepost.impl.store.files.internals import Internals
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches, Outcome
from tests.impl.store.files.broken import NoXattrs


def refused(action, *words):
    """The one sentence of an `Unusable` that names all the words."""
    with pytest.raises(Unusable) as raised:
        action()
    text = str(raised.value)
    assert "\n" not in text
    for word in words:
        assert str(word) in text
    return text


@pytest.fixture
def mounted(tmp_path):
    """Mounts a tiny file system in memory; only root may."""
    made = []

    def mount(*options):
        place = tmp_path / f"mount{len(made)}"
        place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", place], capture_output=True)
        if done.returncode:
            pytest.skip("needs the right to mount")
        made.append(place)
        return place

    yield mount
    for place in made:
        subprocess.run(["umount", "--lazy", place], check=True)


def test_a_full_disk_is_reported_and_leaves_nothing_half_written(mounted):
    place = mounted("-o", "size=256k")
    store = FileStore(place)
    store.put("keep", b"x" * 1000, when=ABSENT)
    for key, when in [("new/big", ABSENT), ("keep", ANYTHING), ("other/big", ANYTHING)]:
        refused(lambda key=key, when=when: store.put(key, b"y" * 400_000, when=when), place, "full", key)
    upload = store.create_upload("big").upload
    refused(lambda: store.upload_part("big", upload, 1, b"y" * 400_000), place, "full")
    assert [info.key for info in store.list().objects] == ["keep"]
    assert store.get("keep").body == b"x" * 1000
    assert sorted(path.name for path in place.iterdir()) == [".fencepost", "keep"]
    assert list((place / ".fencepost" / "tmp").iterdir()) == []
    assert store.put("keep", b"z", when=ANYTHING).done


def test_no_more_inodes_is_reported(mounted):
    place = mounted("-o", "nr_inodes=20")
    store = FileStore(place)

    def fill():
        for number in range(30):
            store.put(f"{number}/k", b"", when=ABSENT)

    refused(fill, place, "full")
    for info in store.list().objects:
        assert store.get(info.key).body == b""


def test_a_read_only_file_system_can_be_read_and_says_that_it_is(mounted):
    place = mounted()
    FileStore(place).put("a/k", b"body", when=ABSENT)
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    store = FileStore(place)
    assert store.get("a/k").body == b"body"
    assert [info.key for info in store.list().objects] == ["a/k"]
    refused(lambda: store.put("b", b"", when=ABSENT), place, "read-only")
    refused(lambda: store.put("a/k", b"", when=ANYTHING), place, "read-only")
    refused(lambda: store.delete("a/k", when=ANYTHING), place, "read-only")
    refused(store.verify, place, "read-only")


def test_an_untouched_read_only_file_system_says_so_too(mounted):
    place = mounted()
    (place / "foreign").write_bytes(b"1")
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    store = FileStore(place)
    assert store.get("foreign").body == b"1"
    refused(store.verify, place, "read-only")
    refused(lambda: store.put("k", b"", when=ABSENT), place, "read-only")
    refused(FileStore(place / "new").verify, place, "not writable")


def test_a_file_where_the_directory_belongs(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        store = FileStore(path)
        refused(store.verify, tmp_path / "file", "a file")
        refused(lambda store=store: store.put("k", b"", when=ABSENT), tmp_path / "file", "a file")
        refused(lambda store=store: store.list(), tmp_path / "file", "a file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_missing_directory_is_empty_until_the_first_write(tmp_path):
    store = FileStore(tmp_path / "new" / "deeper")
    store.verify()
    assert store.get("k").outcome is Outcome.MISSING
    assert store.list().objects == ()
    assert store.delete("k", when=ANYTHING).outcome is Outcome.DONE
    assert store.put("k", b"", when=Matches("0" * 32)).outcome is Outcome.MISSING
    assert store.put("k", b"", when=ABSENT).done
    assert (tmp_path / "new" / "deeper" / "k").exists()


def test_a_directory_that_is_removed_and_made_again_is_a_new_one(tmp_path):
    root = tmp_path / "root"
    store = FileStore(root)
    store.put("a/k", b"", when=ABSENT)
    subprocess.run(["rm", "-r", root], check=True)
    assert store.get("a/k").outcome is Outcome.MISSING
    assert store.list().objects == ()
    assert store.put("a/k", b"2", when=ABSENT).done
    assert (root / "a" / "k").read_bytes() == b"2"
    subprocess.run(["rm", "-r", root / ".fencepost"], check=True)
    assert store.put("a/l", b"3", when=ANYTHING).done
    assert store.put("a/k", b"3", when=ABSENT).outcome is Outcome.EXISTS


@pytest.fixture
def outside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("untouched")
    yield outside
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "untouched"


def test_symbolic_links_are_never_followed(tmp_path, outside):
    """If this fails, a link inside the directory lets a key reach anything on the machine."""
    root = tmp_path / "root"
    store = FileStore(root)
    store.put("k", b"", when=ABSENT)
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    (root / "dangling").symlink_to(outside / "nothing")
    for key in ("folder/secret", "folder/new", "folder/a/b", "file", "dangling"):
        refused(lambda key=key: store.get(key), "symbolic link")
        refused(lambda key=key: store.head(key), "symbolic link")
        for when in (ABSENT, ANYTHING, Matches("0" * 32)):
            refused(lambda key=key, when=when: store.put(key, b"x", when=when), "symbolic link")
        for when in (ANYTHING, Matches("0" * 32)):
            refused(lambda key=key, when=when: store.delete(key, when=when), "symbolic link")
    assert [info.key for info in store.list().objects] == ["k"]
    assert store.list(delimiter="/").prefixes == ()


@pytest.mark.parametrize("part", ["", "tmp", "locks", "uploads"])
def test_the_internal_folder_is_no_way_out_either(tmp_path, outside, part):
    root = tmp_path / "root"
    (root / ".fencepost").mkdir(parents=True)
    if not part:
        (root / ".fencepost").rmdir()
    (root / ".fencepost" / part if part else root / ".fencepost").symlink_to(outside)
    store = FileStore(root)
    refused(lambda: store.create_upload("k") and store.put("k", b"", when=ANYTHING), ".fencepost", "link")


def test_pipes_and_folders_at_a_key(tmp_path):
    store = FileStore(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    refused(lambda: store.get("pipe"), "pipe", "remove")
    (tmp_path / "folder").mkdir()
    assert store.get("folder").outcome is Outcome.MISSING
    assert store.delete("folder", when=ANYTHING).done
    assert store.put("folder", b"1", when=ABSENT).done
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_bytes(b"x")
    assert store.put("other", b"1", when=ANYTHING).done
    assert store.get("other/x").body == b"x"
    assert [info.key for info in store.list().objects] == ["folder", "other", "other/x"]


def test_a_file_of_others_is_an_object_with_the_etag_of_its_content(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.csv").write_bytes(b"hello")
    store = FileStore(tmp_path)
    info = store.get("data/x.csv").info
    assert info.etag == "5d41402abc4b2a76b9719d911017c592"
    assert store.list().objects[0].etag == info.etag
    assert store.put("data/x.csv", b"2", when=ABSENT).outcome is Outcome.EXISTS
    assert store.put("data/x.csv", b"2", when=Matches(info.etag)).done
    assert (tmp_path / "data" / "x.csv").read_bytes() == b"2"


def test_names_that_we_would_spell_differently_are_not_ours(tmp_path):
    for name in (b"%", b"%41", b"%zz", b"%more", b"\xff\xfe", b"a%folder", b"tab\t"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(b"foreign")
    store = FileStore(tmp_path)
    assert store.list().objects == ()
    for key in ("%", "%41", "A", "a", "tab\t"):
        assert store.put(key, b"ours", when=ABSENT).done
    assert Path(tmp_path, "%41").read_bytes() == b"foreign"


@pytest.mark.parametrize("multipart", [False, True])
def test_rotten_content_is_a_broken_promise(tmp_path, multipart):
    store = FileStore(tmp_path)
    if multipart:
        upload = store.create_upload("k").upload
        etag = store.upload_part("k", upload, 1, b"sound").etag
        store.complete_upload("k", upload, [(1, etag)], when=ABSENT)
    else:
        store.put("k", b"sound", when=ABSENT)
    with (tmp_path / "k").open("r+b") as file:
        file.write(b"r")
    with pytest.raises(BrokenPromise, match="restore"):
        store.get("k")
    assert store.get("k", start=0, stop=2).body == b"ro"
    assert FileStore(tmp_path, verify_reads=False).get("k").body == b"round"
    os.setxattr(tmp_path / "k", "user.fencepost", b"{")
    with pytest.raises(BrokenPromise, match="attributes"):
        store.head("k")


def test_large_attributes_find_room(tmp_path):
    """What does not fit into an extended attribute goes into a side file."""
    store = FileStore(tmp_path)
    metadata = {"m": "x" * 2000}
    for body in (b"1", b"2"):
        assert store.put("k", body, when=ANYTHING, content_type="t" * 9000, metadata=metadata).done
        info = store.get("k").info
        assert (info.content_type, dict(info.metadata)) == ("t" * 9000, metadata)
    assert len(list((tmp_path / ".fencepost" / "attributes").iterdir())) == 1
    store.delete("k", when=ANYTHING)
    assert list((tmp_path / ".fencepost" / "attributes").iterdir()) == []


def test_what_makes_no_sense_is_misuse(tmp_path):
    for options in ({"linger_ms": -1}, {"linger_ms": float("nan")}, {"parallel": 0}, {"temp_age_s": -1}):
        with pytest.raises(Misuse):
            FileStore(tmp_path, **options)
    for path in ("", "a\0b"):
        with pytest.raises(Misuse):
            FileStore(path)
    store = FileStore(tmp_path)
    for action in (lambda: store.get("k", version="1"), store.list_versions):
        with pytest.raises(Unsupported):
            action()
    for key in ("../x", "a/../b", "a\0b", "/..", ""):
        with pytest.raises(Misuse):
            store.put(key, b"", when=ABSENT)
    for upload in ("../../etc", "u", "", "u" + "0" * 40):
        assert store.upload_part("k", upload, 1, b"").outcome is Outcome.GONE
        assert store.abort_upload("k", upload).outcome is Outcome.GONE


def test_an_unknown_format_is_left_alone(tmp_path):
    (tmp_path / ".fencepost").mkdir()
    for text, word in (('{"format": 99, "names": "natural"}', "99"), ("nonsense", "restore")):
        (tmp_path / ".fencepost" / "format").write_text(text)
        refused(lambda: FileStore(tmp_path).list(), word)
        refused(lambda: FileStore(tmp_path).put("k", b"", when=ABSENT), word)


def test_a_file_system_that_folds_names_gets_the_safe_spelling(tmp_path, monkeypatch):
    """If this fails, `A` and `a` are one object where the file system takes them for the same."""
    monkeypatch.setattr(Internals, "_folds", lambda self: True)
    store = FileStore(tmp_path)
    for key in ("a", "A", "\u00e9", "e\u0301", "dot.", "con"):
        assert store.put(key, key.encode(), when=ABSENT).done
    monkeypatch.undo()
    again = FileStore(tmp_path)
    assert [info.key for info in again.list().objects] == ["A", "a", "con", "dot.", "e\u0301", "\u00e9"]
    assert again.get("A").body == b"A"
    names = [path.name for path in tmp_path.iterdir()]
    assert len({name.lower() for name in names}) == len(names) == 7
    assert all(name.isascii() for name in names)
    assert not again._session._internals._folds(), "this file system tells names apart"


def test_the_url_opens_the_same_store(tmp_path):
    for options in ({}, {"linger_ms": 0}):
        store = FileStore(tmp_path / "a b#%", **options)
        store.put("k", b"", when=ANYTHING)
        again = open_store(store.url)
        assert again.head("k").done
        assert (again.path, again.url) == (store.path, store.url)


def test_dead_writers_drafts_are_removed_when_old_and_live_ones_are_not(tmp_path):
    """If this fails, every crash leaves its garbage for ever, or a slow writer loses its file."""
    store = FileStore(tmp_path)
    store.put("k", b"", when=ABSENT)
    drafts = tmp_path / ".fencepost" / "tmp"
    for name, age_s in (("old", 7200), ("young", 60)):
        (drafts / name).write_bytes(b"")
        at = store.env.now_ns() - age_s * 10**9
        os.utime(drafts / name, ns=(at, at))
    (drafts / "folder").mkdir()
    (drafts / "folder" / "about").write_bytes(b"")
    os.utime(drafts / "folder", ns=(at - 10**13, at - 10**13))
    with store._session._internals.draft() as (fd, live):
        os.utime(fd, ns=(0, 0))
        FileStore(tmp_path).verify()
        assert sorted(path.name for path in drafts.iterdir()) == sorted([live, "young"])


def test_orphaned_side_files_are_removed_when_old(tmp_path):
    store = FileStore(tmp_path, disk=NoXattrs())
    store.put("a/kept", b"1", when=ABSENT)
    store.put("lost", b"2", when=ABSENT)
    (tmp_path / "lost").unlink()
    sides = tmp_path / ".fencepost" / "attributes"
    assert len(list(sides.iterdir())) == 2
    FileStore(tmp_path, disk=NoXattrs()).verify()
    assert len(list(sides.iterdir())) == 2, "not old yet"
    FileStore(tmp_path, disk=NoXattrs(), temp_age_s=0).verify()
    assert len(list(sides.iterdir())) == 1
    assert store.head("a/kept").done


def test_a_reader_whose_object_is_replaced_meanwhile_looks_again(tmp_path, monkeypatch):
    """If this fails, the old content is answered with its attributes lost."""
    store, other = FileStore(tmp_path, disk=NoXattrs()), FileStore(tmp_path, disk=NoXattrs())
    store.put("k", b"old", when=ABSENT, content_type="old/type")
    plain, waiting = attributes.read_file, [True]

    def reading(name, folder):
        if waiting and waiting.pop():
            other.put("k", b"new", when=ANYTHING, content_type="new/type")
        return plain(name, folder)

    monkeypatch.setattr(attributes, "read_file", reading)
    reply = store.get("k")
    assert (reply.body, reply.info.content_type) == (b"new", "new/type")


def test_a_create_that_lost_leaves_no_side_file(tmp_path):
    class Loses(NoXattrs):
        def link(self, source, source_fd, name, folder_fd):
            if name == "k":
                raise OSError(28, "No space left on device")
            super().link(source, source_fd, name, folder_fd)

    store = FileStore(tmp_path, disk=Loses())
    refused(lambda: store.put("k", b"", when=ABSENT), "full")
    assert list((tmp_path / ".fencepost" / "attributes").iterdir()) == []


def test_two_openings_with_one_seed_do_not_get_in_each_other_s_way(tmp_path):
    """Identifiers that repeat must not make two drafts or two uploads one."""
    stores = [FileStore(tmp_path, env=SeededEnvironment(7)) for _ in range(2)]
    for store in stores:
        assert store.put("k", b"1", when=ANYTHING).done
    uploads = [store.create_upload("k").upload for store in stores]
    assert len(set(uploads)) == 2


def test_send_all_keeps_the_order_and_raises_the_first_error_last(tmp_path):
    from fencepost.impl.store import requests as ask

    running = threading.active_count()  # other tests may have left some
    with FileStore(tmp_path, parallel=3) as store:
        puts = [ask.Put(f"{n}", b"x", ABSENT) for n in range(20)]
        assert [reply.outcome for reply in store.send_all([*puts, *puts[:2]])] == (
            [Outcome.DONE] * 20 + [Outcome.EXISTS] * 2
        ) or store.get("0").done
        assert [reply.info.key for reply in store.send_all([ask.Get(f"{n}") for n in range(20)])] == [
            f"{n}" for n in range(20)
        ]
        with pytest.raises(Misuse, match="empty"):
            store.send_all([ask.Get(""), ask.Put("after", b"", ABSENT)])
        assert store.get("after").done
        assert threading.active_count() <= running + 3
    assert store.get("after").done, "a closed store opens again"
