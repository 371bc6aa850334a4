"""What access logs show: each rule broken on purpose, and its neighbour just past the edge."""

from pathlib import Path

import pytest

from fencepost.sim.replay.access_rules import Layout, layout, violations
from fencepost.sim.trace import TraceError, read_access_log

LOCK = Layout(created_once=("once/.*",), never_deleted=("kept/.*",))


def log(tmp_path: Path, *lines: str) -> object:
    """`SECOND OPERATION KEY STATUS [MILLISECONDS]`, one request a line."""
    text = ""
    for number, line in enumerate(lines):
        second, operation, key, status, *taken = line.split(" ")
        name = {"put": "REST.PUT.OBJECT", "del": "REST.DELETE.OBJECT", "get": "REST.GET.OBJECT"}[operation]
        when = f"18/Nov/2026:10:{int(second) // 60:02d}:{int(second) % 60:02d} +0000"
        text += (
            f'owner bkt [{when}] 192.0.2.1 arn:x R{number} {name} {key} "X /{key} HTTP/1.1" {status} - - 10 '
            f'{taken[0] if taken else 20} 5 "-" "agent" -\n'
        )
    (tmp_path / "log").write_text(text)
    problems: list[object] = []
    table = read_access_log([tmp_path / "log"], problems.append)
    assert problems == []
    return table


def found(tmp_path: Path, promised: Layout, *lines: str) -> list[tuple[str, str, str]]:
    return [
        (one.rule, one.verdict, one.event.split(" ")[2])
        for one in violations(log(tmp_path, *lines), promised)
    ]


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["1 put once/a 200", "9 put once/a 200"], True),
        (["1 put once/a 200", "1 put once/a 200"], True),
        (["1 put once/a 200", "9 put once/a 412"], False),
        (["1 put once/a 200", "9 put once/b 200"], False),
        (["1 put many/a 200", "9 put many/a 200"], False),
        (["1 put once/a 200", "5 del once/a 204", "9 put once/a 200"], False),
        (["5 del once/a 204", "8 put once/a 200", "19 put once/a 200"], True),
        (["1 put once/a 200", "5 del once/b 204", "9 put once/a 200"], True),
        (["1 put once/a 200", "5 del once/a 403", "9 put once/a 200"], True),
        (["1 put once/a 200", "9 put once/a 200", "9 del once/a 204"], False),  # may have been before it
        (["1 put once/a 200", "9 put once/a 200", "11 del once/a 204"], True),
    ],
)
def test_two_creates_of_one_key(tmp_path: Path, lines: list[str], error: bool) -> None:
    expected = [("created-once", "violated", "once/a")] if error else []
    assert found(tmp_path, LOCK, *lines) == expected


def test_a_delete_under_a_protected_prefix(tmp_path: Path) -> None:
    lines = ["1 del kept/a 204", "2 del kept/b 403", "3 del other/c 204", "4 put kept/d 200"]
    assert found(tmp_path, LOCK, *lines) == [("never-deleted", "violated", "kept/a")]


NEEDS = Layout(needs=(("(?P<root>(?:.*/)?)manifest/(?P<id>[^/]+)[.]json", "{root}blob/{id}"),))


@pytest.mark.parametrize(
    ("lines", "verdicts"),
    [
        (["1 put blob/7.bin 200", "2 put manifest/7.json 200"], []),
        (["1 put blob/7 200", "2 put manifest/7.json 200"], []),
        (["1 put blob/7.bin 412", "2 put manifest/7.json 200"], []),  # it stood there already
        (["2 put manifest/7.json 200", "3 get blob/7.bin 200"], []),
        (["2 put manifest/7.json 200", "3 get blob/7.bin 404"], ["violated"]),
        (["1 put blob/8.bin 200", "2 put manifest/7.json 200"], ["undecided"]),
        (["1 put x/blob/7.bin 200", "2 put manifest/7.json 200"], ["undecided"]),
        (["2 put manifest/7.json 412"], []),
        (["1 put blob/7.bin 503", "2 put manifest/7.json 200"], ["undecided"]),
    ],
)
def test_a_manifest_whose_blob_never_existed(tmp_path: Path, lines: list[str], verdicts: list[str]) -> None:
    assert [verdict for _, verdict, _ in found(tmp_path, NEEDS, *lines)] == verdicts


FENCED = Layout(
    fenced=(("(?P<log>.*)/epoch/(?P<epoch>[0-9]+)", "(?P<log>.*)/entry/(?P<epoch>[0-9]+)-[0-9]+", "epoch"),)
)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["1 put l/epoch/2 200", "9 put l/entry/1-1 200"], True),
        (["1 put l/epoch/2 200", "9 put l/entry/2-1 200"], False),
        (["1 put l/epoch/2 200", "9 put l/entry/1-1 412"], False),
        (["1 put l/epoch/2 412", "9 put l/entry/1-1 200"], False),
        (["1 put l/epoch/2 200", "1 put l/entry/1-1 200"], False),  # the log cannot prove which was first
        (["1 put l/epoch/2 200 5000", "6 put l/entry/1-1 200"], False),  # ... nor here: 5 s under way
        (["1 put l/epoch/2 200 5000", "8 put l/entry/1-1 200"], True),
        (["1 put l/epoch/10 200", "9 put l/entry/9-1 200"], True),
        (["1 put m/epoch/2 200", "9 put l/entry/1-1 200"], False),
        (
            ["1 put l/epoch/1 200", "5 put l/epoch/3 200", "9 put l/epoch/2 200", "19 put l/entry/2-4 200"],
            True,
        ),
    ],
)
def test_a_commit_of_a_fenced_epoch(tmp_path: Path, lines: list[str], error: bool) -> None:
    assert [rule for rule, _, _ in found(tmp_path, FENCED, *lines)] == (["fenced"] if error else [])


def test_a_boundary_that_moved_back(tmp_path: Path) -> None:
    forward = Layout(forward=(("(?P<log>.*)/boundary/(?P<n>[0-9]+)", "n"),))
    lines = ["1 put l/boundary/07 200", "3 put m/boundary/1 200", "5 put l/boundary/9 200"]
    assert found(tmp_path, forward, *lines) == []
    [error] = violations(log(tmp_path, *lines, "8 put l/boundary/8 200"), forward)
    assert (error.rule, error.seq) == ("forward", 7)
    assert error.reason == "8 after 9: event 5 had created l/boundary/9"


def test_shipped_layouts_and_files(tmp_path: Path) -> None:
    sha = "ab" * 32
    reference = f"v/accepted-by-blob/v1/sha256/ab/ab/{sha}/agent=1/boot=2/3-4.json"
    blob = f"v/raw-blobs/v1/sha256/ab/ab/{sha}~0000000007.lmbatch"
    ingest = layout("ingest")
    assert found(tmp_path, ingest, f"1 put {blob} 200", f"2 put {reference} 200") == []
    assert found(tmp_path, ingest, f"2 put {reference} 200", f"3 get {blob} 404") == [
        ("needs", "violated", reference)
    ]
    assert found(tmp_path, ingest, "2 del v/accepted/v1/agent=1/boot=2/3-4.json 204")
    manifest = f"c/branch/main/manifest/{7:020d}.json"
    assert found(tmp_path, layout("publish"), f"1 put {manifest} 200", f"4 put {manifest} 200")
    mine = tmp_path / "mine.toml"
    mine.write_text(
        "[promises]\ncreated_once = ['once/.*']\n[[forward]]\nkey = 'n/(?P<n>[0-9]+)'\nnumber = 'n'\n"
    )
    assert layout(str(mine)) == Layout(created_once=("once/.*",), forward=(("n/(?P<n>[0-9]+)", "n"),))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = ", "is no TOML file"),
        ("[rules]", "unknown section 'rules'"),
        ("[promises]\ncreated_once = 'x'", "must be a list"),
        ("[promises]\ncreated_once = ['(']", "is no pattern"),
        ("[[needs]]\nkey = 'x'", "has exactly key, of"),
        ("[[forward]]\nkey = 'x'\nnumber = 'n'", "has no group named n"),
    ],
)
def test_a_bad_layout_is_a_sentence(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(TraceError, match=why):
        layout(str(tmp_path / "bad.toml"))
    with pytest.raises(TraceError, match="no layout is called"):
        layout("other")
