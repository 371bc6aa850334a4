"""A power loss leaves everything that the profile allows, and nothing else.

If these fail, a missing fsync is not found, or an fsync that is there is held to be worth nothing.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.store.errors import Misuse
from fencepost.sim.explore import AuditOutcome, audit, replay
from fencepost.sim.world import Budget, View, World

POWER = Budget(crash=0, reply_lost=0, request_lost=0, pause=0, power_loss=1, restart=0)


def durable(path: Path, body: bytes = b"", flags: int = 0) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags)
    os.write(fd, body)
    os.fsync(fd)
    os.close(fd)


def flush(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def left_by(code: Callable[[Path], Any], profile: str = "strict") -> set[Any]:
    """Every state of the files that is found after a power loss that came when `code` had ended."""
    found: set[Any] = set()

    def program(world: World) -> None:
        root = world.filesystem(profile=profile)
        (root / "old").write_bytes(b"12")

        def run() -> None:
            code(root)
            world.note("ended")

        world.spawn(run, name="ann")

        def look(view: View) -> None:
            if view.notes("ended") and "after" in view.results():
                found.add(tuple(sorted(view.files().items())))

        world.spawn(lambda: None, name="after", after_power_loss=True)
        world.finally_("look", look)

    result = audit(program, budget=POWER)
    assert result.verdict == "holds", str(result)
    return found


def files(**bodies: bytes) -> Any:
    return tuple(sorted(bodies.items()))


OLD = {"old": b"12"}


def test_what_was_flushed_with_its_directory_is_there() -> None:
    def code(root: Path) -> None:
        durable(root / "new", b"34")
        flush(root)

    assert left_by(code) == {files(**OLD, new=b"34")}
    assert left_by(code, "ext4") == {files(**OLD, new=b"34")}


def test_a_file_that_was_flushed_alone_may_have_no_name() -> None:
    def code(root: Path) -> None:
        durable(root / "new", b"34")

    assert left_by(code) == {files(**OLD), files(**OLD, new=b"34")}
    assert left_by(code, "ext4") == {files(**OLD, new=b"34")}, "an fsync writes the journal"


def test_content_that_was_not_flushed_is_lost_torn_or_zeros() -> None:
    def code(root: Path) -> None:
        (root / "new").write_bytes(b"34")
        flush(root)

    bodies = {dict(found)["new"] for found in left_by(code)}
    assert bodies == {b"", b"3", b"\0\0", b"34"}
    bodies = {dict(found)["new"] for found in left_by(code, "ext4")}
    assert bodies == {b"", b"34"}


def test_ext4_tears_an_append_at_the_end_of_a_page() -> None:
    def code(root: Path) -> None:
        (root / "old").open("ab").write(bytes(5000))

    assert {len(dict(found)["old"]) for found in left_by(code, "ext4")} == {2, 4096, 5002}


def test_appends_survive_in_order_on_ext4_and_in_any_under_strict() -> None:
    def code(root: Path) -> None:
        fd = os.open(root / "old", os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"a")
        os.write(fd, b"b")
        os.close(fd)

    assert {dict(found)["old"] for found in left_by(code, "ext4")} == {b"12", b"12a", b"12ab"}
    assert b"12\0b" in {dict(found)["old"] for found in left_by(code)}


def test_overwrites_in_place_survive_in_any_combination() -> None:
    def code(root: Path) -> None:
        fd = os.open(root / "old", os.O_WRONLY)
        os.pwrite(fd, b"a", 0)
        os.pwrite(fd, b"b", 1)
        os.close(fd)

    for profile in ("strict", "ext4"):
        assert {dict(found)["old"] for found in left_by(code, profile)} == {b"12", b"a2", b"1b", b"ab"}


def test_names_survive_in_any_combination_under_strict_and_in_order_on_ext4() -> None:
    def code(root: Path) -> None:
        os.close(os.open(root / "a", os.O_CREAT))
        os.close(os.open(root / "b", os.O_CREAT))

    nothing, a, b, both = ({**OLD}, {**OLD, "a": b""}, {**OLD, "b": b""}, {**OLD, "a": b"", "b": b""})
    assert left_by(code) == {files(**one) for one in (nothing, a, b, both)}
    assert left_by(code, "ext4") == {files(**one) for one in (nothing, a, both)}


def test_a_rename_over_a_file_allocates_first_on_ext4_only() -> None:
    def code(root: Path) -> None:
        (root / "tmp").write_bytes(b"34")
        os.rename(root / "tmp", root / "old")

    assert {dict(found).get("old") for found in left_by(code, "ext4")} == {b"12", b"34"}
    assert {b"", b"12", b"34"} <= {dict(found).get("old") for found in left_by(code)}


def test_a_rename_to_a_new_name_may_leave_an_empty_file_on_ext4() -> None:
    def code(root: Path) -> None:
        (root / "tmp").write_bytes(b"34")
        os.rename(root / "tmp", root / "new")

    assert {dict(found).get("new") for found in left_by(code, "ext4")} == {None, b"", b"34"}


def test_attributes_are_durable_with_their_file() -> None:
    def program(flushed: bool, profile: str) -> AuditOutcome:
        def declared(world: World) -> None:
            root = world.filesystem(profile=profile)
            (root / "f").touch()

            def run() -> None:
                fd = os.open(root / "f", os.O_WRONLY)
                os.setxattr(fd, "user.a", b"1")
                if flushed:
                    os.fsync(fd)
                world.note("ended")
                os.close(fd)

            world.spawn(run, name="ann")
            world.spawn(lambda: os.listxattr(root / "f"), name="after", after_power_loss=True)
            world.always("kept", lambda view: not (view.notes("ended") and view.result("after") == []))

        return audit(declared, budget=POWER)

    for profile in ("strict", "ext4"):
        assert program(flushed=True, profile=profile).verdict == "holds"
        assert program(flushed=False, profile=profile).verdict == "violated"


def test_a_removal_that_was_not_flushed_may_come_undone() -> None:
    def code(root: Path) -> None:
        os.unlink(root / "old")

    assert left_by(code) == {files(), files(**OLD)}


def test_what_every_process_wrote_may_be_lost_and_is_named() -> None:
    def program(world: World) -> None:
        root = world.filesystem()

        def save() -> None:
            (root / "out.tmp").write_bytes(b"12345")
            os.rename(root / "out.tmp", root / "out")
            flush(root)

        world.spawn(save, name="ann")
        world.always("whole", lambda view: view.file("out") in (None, b"12345"))

    result = audit(program, budget=POWER)
    found = result.counterexamples[0]
    text = "\n".join(found.text())
    assert "ann          write out.tmp 5 bytes" in text
    assert "ann          rename out.tmp to out" in text
    assert "power loss" in text
    assert "data of out is lost" in text
    again = replay(program, found.token, budget=POWER)
    assert again.violation is not None
    assert not again.misfit
    assert found.faults == 1


def test_processes_start_again_and_recovery_runs_only_after_a_power_loss() -> None:
    def program(world: World) -> None:
        root = world.filesystem()
        (root / "count").write_bytes(b"0")

        def run() -> None:
            durable(root / "count", b"1")
            world.note("ran")

        world.spawn(run, name="ann")
        world.spawn(lambda: world.note("recovered"), name="after", after_power_loss=True)
        world.sometimes("twice", lambda view: len(view.notes("ran")) == 2 and bool(view.notes("recovered")))
        world.finally_("ran", lambda view: bool(view.notes("ran")))
        world.finally_("only after", lambda view: view.state("after") in ("new", "done"))

    result = audit(program, budget=Budget(crash=0, reply_lost=0, request_lost=0, pause=0, power_loss=1))
    assert result.verdict == "holds", str(result)
    none = audit(program, budget=Budget(crash=0, reply_lost=0, request_lost=0, pause=0))
    assert any("twice" in finding for finding in none.findings)


def test_an_unknown_profile_is_refused() -> None:
    def program(world: World) -> None:
        world.filesystem(profile="fat")

    with pytest.raises(Misuse, match="strict, ext4"):
        audit(program, budget=POWER)


def test_too_many_states_are_refused_and_not_left_out() -> None:
    def program(world: World) -> None:
        root = world.filesystem()

        def run() -> None:
            for number in range(13):
                os.close(os.open(root / f"{number}", os.O_CREAT))

        world.spawn(run, name="ann")

    with pytest.raises(Misuse, match="states of the disk"):
        audit(program, budget=POWER)


@pytest.mark.parametrize(
    ("flushes", "kept"),
    [
        (lambda fd: os.fsync(fd), False),  # nothing of it changed since
        (lambda fd: (os.pwrite(fd, b"3", 0), os.fsync(fd)), False),  # neither did its size
        (lambda fd: (os.pwrite(fd, b"3", 2), os.fsync(fd)), True),
        (lambda fd: (os.pwrite(fd, b"3", 2), os.fdatasync(fd)), True),
        (lambda fd: (os.setxattr(fd, "user.x", b""), os.fsync(fd)), True),
        (lambda fd: (os.setxattr(fd, "user.x", b""), os.fdatasync(fd)), False),
    ],
)
def test_ext4_writes_the_journal_up_to_the_last_change_of_what_is_flushed(
    flushes: Callable[[int], Any], *, kept: bool
) -> None:
    """An fsync of a file that did not change writes nothing, so it is no barrier for the names of others."""

    def code(root: Path) -> None:
        fd = os.open(root / "old", os.O_RDWR)
        os.close(os.open(root / "new", os.O_CREAT | os.O_WRONLY))
        flushes(fd)

    assert {"new" in dict(found) for found in left_by(code, "ext4")} == ({True} if kept else {True, False})


def test_an_fdatasync_flushes_no_attributes() -> None:
    seen: set[Any] = set()

    def program(world: World) -> None:
        root = world.filesystem()
        (root / "old").write_bytes(b"12")

        def write() -> None:
            fd = os.open(root / "old", os.O_RDWR)
            os.setxattr(fd, "user.x", b"")
            os.pwrite(fd, b"3", 0)
            os.fdatasync(fd)
            world.note("ended")

        world.spawn(write, name="ann")
        world.spawn(
            lambda: (os.listxattr(root / "old"), (root / "old").read_bytes()),
            name="after",
            after_power_loss=True,
        )
        world.finally_("look", lambda view: view.notes("ended") and seen.add(str(view.result("after"))))

    audit(program, budget=POWER)
    assert seen >= {"([], b'32')", "(['user.x'], b'32')"}
    assert not any("b'12'" in found for found in seen)


def test_what_a_rename_forced_forces_nothing_written_later() -> None:
    """What the journal still promises of a file is counted from what of it is durable already."""

    def code(root: Path) -> None:
        (root / "draft").write_bytes(b"34")
        (root / "draft").rename(root / "old")
        fd = os.open(root / "old", os.O_WRONLY)
        os.fdatasync(fd)
        os.pwrite(fd, b"5", 2)

    assert left_by(code, "ext4") >= {files(old=b"34"), files(old=b"345")}


def test_what_one_commit_forces_twice_is_forced_once() -> None:
    """Two renames force the content up to each of them, in one commit of the journal, and nothing later."""

    def code(root: Path) -> None:
        durable(root / "third", b"t")
        (root / "draft").write_bytes(b"34")
        (root / "draft").rename(root / "old")
        fd = os.open(root / "old", os.O_WRONLY)
        os.pwrite(fd, b"5", 2)
        (root / "old").rename(root / "third")
        os.pwrite(fd, b"6", 3)
        flush(root)

    assert left_by(code, "ext4") == {files(third=b"345"), files(third=b"3456")}


def test_a_name_that_changed_often_has_any_of_the_files_that_it_named() -> None:
    """And the one that it had when its directory was last flushed, or none."""

    def rename(root: Path, *bodies: bytes) -> None:
        for body in bodies:
            durable(root / "new", body)
            (root / "new").rename(root / "old")

    def code(root: Path) -> None:
        flush(root)
        rename(root, b"3", b"4", b"5")

    def flushed_between(root: Path) -> None:
        rename(root, b"3")
        flush(root)
        rename(root, b"4", b"5")

    def removed_between(root: Path) -> None:
        rename(root, b"3")
        (root / "old").unlink()
        rename(root, b"4")

    def of_old(code: Callable[[Path], Any]) -> set[Any]:
        return {dict(found).get("old") for found in left_by(code)}

    assert of_old(code) == {b"12", b"3", b"4", b"5"}
    assert of_old(flushed_between) == {b"3", b"4", b"5"}
    assert of_old(removed_between) == {b"12", b"3", None, b"4"}
