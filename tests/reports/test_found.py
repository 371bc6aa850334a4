"""Results are found whatever else a folder holds, and what cannot be read is named."""

from pathlib import Path

from fencepost.reports.folder import read_folder
from tests.reports.samples import PROBE, REPLAY, SIMULATE, write, write_samples


def test_every_command_is_known_again(tmp_path: Path) -> None:
    write_samples(tmp_path)
    write(tmp_path, "probe.json", PROBE)
    write(tmp_path, "sim.json", SIMULATE)
    write(tmp_path, "replay.json", REPLAY)
    found = read_folder(tmp_path)
    assert [(r.file, r.command, r.verdict) for r in found.results] == [
        ("check-without.json", "check", "violated"),
        ("check.json", "check", "holds"),
        ("deep/audit.json", "audit", "violated"),
        ("probe.json", "probe", "unsafe"),
        ("replay.json", "replay", "violated"),
        ("sim.json", "simulate", "violated"),
        ("zoo.json", "zoo", "holds"),
    ]
    assert not found.unread
    assert [r.title for r in found.results][:3] == [
        "check two-phase without all-prepared",
        "check peterson",
        "audit election without check-then-create",
    ]
    assert [r.expected for r in found.results] == [True, False, True, False, False, False, False]


def test_what_is_no_result_is_passed_over(tmp_path: Path) -> None:
    """A folder of results also holds profiles, packages, and hidden files of editors."""
    write(tmp_path, "package.json", {"name": "mine"})
    write(tmp_path, "list.json", [1, 2])
    write(tmp_path, ".hidden.json", PROBE)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "notes.txt").write_text("{")
    found = read_folder(tmp_path)
    assert not found.results
    assert not found.unread


def test_what_cannot_be_read_is_named_and_hides_nothing(tmp_path: Path) -> None:
    write(tmp_path, "good.json", PROBE)
    (tmp_path / "cut.json").write_text('{"model": "x",\n "dist')
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "deep.json").write_text("[" * 100_000)
    found = read_folder(tmp_path)
    assert [r.file for r in found.results] == ["good.json"]
    assert set(found.unread) == {"bytes.json", "cut.json", "deep.json"}
    assert found.unread["cut.json"].startswith("line 2: it is not whole JSON")
    assert found.unread["bytes.json"] == "it is not text: byte 7 is no UTF-8"
