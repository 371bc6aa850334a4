"""Trace files: what is written is read back, and what is damaged is named and hides nothing."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.trace import (
    SCHEMA,
    Problem,
    TraceError,
    batches,
    discover,
    events_of,
    table_of,
    write_json_lines,
    write_parquet,
)


def event(run: str, seq: int, **more: object) -> Event:
    columns = {"t_ns": seq, "process": "p", "incarnation": 0, "op": seq, "phase": "request"}
    return Event(run=run, seq=seq, **{**columns, "kind": "put", "key": f"{run}/k", **more})  # type: ignore[arg-type]


RUNS = [event(run, seq, etag=f"e{seq}", note="über") for run in ("a", "b", "c") for seq in range(3)]


def read(*paths: Path) -> tuple[list[Event], list[Problem]]:
    problems: list[Problem] = []
    tables = list(batches(discover(paths), problems.append))
    return [found for table in tables for found in events_of(table)], problems


@pytest.mark.parametrize("write", [write_parquet, write_json_lines])
def test_what_is_written_is_read_back(tmp_path: Path, write: object) -> None:
    write(tmp_path / "t", table_of(RUNS))  # type: ignore[operator]
    assert read(tmp_path) == (RUNS, [])
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_parquet_is_sorted_and_cut_where_runs_end(tmp_path: Path) -> None:
    """If a run were cut, a part of a file could not be judged by itself."""
    path = tmp_path / "t.parquet"
    write_parquet(path, table_of(reversed(RUNS)), rows=4)
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(number)["run"].to_pylist() for number in range(file.num_row_groups)]
    assert groups == [["a"] * 3, ["b"] * 3, ["c"] * 3]
    assert [found.seq for found in read(path)[0]] == [0, 1, 2] * 3


def test_a_run_longer_than_a_row_group_stays_whole(tmp_path: Path) -> None:
    long = [event("b", seq) for seq in range(10)]
    write_parquet(tmp_path / "t", table_of([*RUNS[:3], *long, *RUNS[6:]]), rows=4)
    file = pq.ParquetFile(tmp_path / "t")
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [3, 10, 3]


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    def broken() -> object:
        yield table_of(RUNS)
        raise ValueError("the source went away")

    with pytest.raises(ValueError, match="went away"):
        write_parquet(tmp_path / "t", broken())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_bad_lines_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_json_lines(path, table_of(RUNS))
    lines = path.read_text().splitlines()
    lines[4] = "not an event at all"
    lines[6] = json.dumps({**json.loads(lines[6]), "seq": "six"})
    lines[-1] = lines[-1][:20]
    path.write_text("\n".join(lines))
    found, problems = read(path)
    assert found == [row for number, row in enumerate(RUNS) if number not in (4, 6, 8)]
    assert [problem.where for problem in problems] == [f"{path}, line {n}" for n in (5, 7, 9)]
    assert "not an event" in problems[0].what


def test_many_bad_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("x\n" * 50 + "{}\n")
    _, problems = read(tmp_path)
    assert len(problems) == 21
    assert problems[-1].what == "has 31 more lines that are no events"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (bytes(range(256)) * 20, "has binary data"),
        (b"\0\1\n" * 100, "has binary data"),
        (b"owner bucket [18/Nov/2026] REST.PUT.OBJECT\n" * 100, "read with --from"),
    ],
)
def test_a_file_without_any_object_is_one_problem(content: bytes, why: str, tmp_path: Path) -> None:
    """Not one for each of its lines, with their bytes."""
    (tmp_path / "t").write_bytes(content)
    found, problems = read(tmp_path)
    assert found == []
    assert [why in problem.what and problem.what.isprintable() for problem in problems] == [True]
    assert problems[0].lines == content.count(b"\n")


def test_unknown_columns_are_passed_over_and_missing_ones_named(tmp_path: Path) -> None:
    rows = [{"run": "a", "seq": 0, "process": "p", "op": 1, "phase": "request", "kind": "get", "key": "k"}]
    (tmp_path / "more.jsonl").write_text(json.dumps({**rows[0], "host": {"zone": 1}}) + "\n")
    assert read(tmp_path)[0] == [Event("a", 0, -1, "p", -1, 1, "request", "get", "k")]
    pq.write_table(pa.Table.from_pylist(rows).append_column("host", [["h"]]), tmp_path / "more.parquet")
    assert len(read(tmp_path)[0]) == 2
    pq.write_table(pa.Table.from_pylist(rows).drop_columns(["op", "key"]), tmp_path / "less.parquet")
    (tmp_path / "less.jsonl").write_text('{"run": "a", "seq": 1, "process": "p"}\n')
    found, problems = read(tmp_path)
    assert len(found) == 2
    assert {str(problem) for problem in problems} == {
        f"{tmp_path}/less.parquet: lacks the column op, key, without which it is no trace",
        f"{tmp_path}/less.jsonl: lacks op, phase, kind, key, without which an event cannot be placed",
    }


def test_a_cut_off_parquet_file_is_named_and_hides_nothing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "good.parquet", table_of(RUNS[:3]))
    write_parquet(tmp_path / "cut.parquet", table_of(RUNS[3:]))
    whole = (tmp_path / "cut.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.parquet").write_bytes(b"")
    found, problems = read(tmp_path)
    assert found == RUNS[:3]
    assert [Path(problem.where).name for problem in problems] == ["cut.parquet", "empty.parquet"]
    assert "not a whole Parquet file" in problems[0].what


def test_a_damaged_row_group_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    many = [event(run, seq, note=f"{run}{seq}" * 50) for run in ("a", "b", "c") for seq in range(200)]
    write_parquet(path, table_of(many), rows=200)
    column = pq.ParquetFile(path).metadata.row_group(1).column(SCHEMA.names.index("note"))
    raw = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    raw[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(raw)
    found, problems = read(path)
    assert found == many[:200] + many[400:]
    assert [problem.what.split(" cannot")[0] for problem in problems] == ["row group 1"]


def test_bad_types_are_named(tmp_path: Path) -> None:
    table = table_of(RUNS).drop_columns(["seq"]).append_column("seq", [["x"] * len(RUNS)])
    pq.write_table(table, tmp_path / "t.parquet")
    found, problems = read(tmp_path)
    assert found == []
    assert len(problems) == 1
    assert "row group 0" in problems[0].what


def test_gzip_is_known_by_its_bytes_and_may_be_cut_off(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "plain", table_of(RUNS))
    packed = gzip.compress((tmp_path / "plain").read_bytes())
    (tmp_path / "plain").unlink()
    (tmp_path / "t.jsonl.3").write_bytes(packed)
    assert read(tmp_path) == (RUNS, [])
    (tmp_path / "t.jsonl.3").write_bytes(packed[:-20])
    _, problems = read(tmp_path)
    assert "cut off" in problems[0].what


def test_no_files_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no files in"):
        discover([tmp_path])
    with pytest.raises(TraceError, match="there is no file or folder"):
        discover([tmp_path / "x"])
