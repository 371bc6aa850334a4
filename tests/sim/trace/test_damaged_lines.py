"""Whatever the lines of a file are: every event among them is judged, and every other line is counted.

The reader of columns, which judges, and the reader of lines, which looks up places, agree on what an event
is.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from fencepost.properties.refinement import Automaton
from fencepost.properties.refinement.text import Values
from fencepost.results import RunVerdict
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.parts import completed_only, in_order, load, plan
from fencepost.sim.replay.places import located
from fencepost.sim.replay.spark import ReadFiles
from fencepost.sim.trace import SCHEMA, Problem, TraceError, batches, read_access_log, reading, table_of
from fencepost.sim.trace.columns import ArrowValues, events
from fencepost.sim.trace.grouping import find_grouping
from fencepost.sim.trace.reading import blocks
from fencepost.sim.trace.schema import is_event
from tests.commands.test_replay import BAD, GOOD, MAP, traced
from tests.sim.trace.test_access_log import PUT

EVENTS = [
    {name: value for name in SCHEMA.names if (value := getattr(event, name)) not in ("", -1)}
    for event in traced(GOOD, BAD)
]
HUGE = 2**63 - 1
VALUES = st.one_of(
    st.sampled_from([None, True, 0, -1, HUGE, HUGE + 1, -HUGE - 2, 10**30, 0.5, "\ud800", "\0", "9" * 5000]),
    st.text(max_size=3),
    st.recursive(st.none(), lambda inner: st.lists(inner, max_size=2), max_leaves=3),
)
CHANGED = st.tuples(
    st.sampled_from(EVENTS), st.dictionaries(st.sampled_from(SCHEMA.names), VALUES, max_size=3)
).map(lambda both: json.dumps({**both[0], **both[1]}).encode())
LINE = st.one_of(
    CHANGED,
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=20),
    st.sampled_from([b"{}", b'{"seq": NaN}', b"[" * 9999, b'{"run": "a"} null', b"\xef\xbb\xbf{}", b"PAR"]),
).map(lambda line: line.replace(b"\n", b" "))


def one(event: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({**event, **more}).encode()


@pytest.fixture(scope="module")
def judge() -> Judge:
    names: dict[str, Any] = {}
    exec(compile(MAP, "map", "exec"), names)
    return Judge(Automaton(names["LockMap"](), slots=8), whole=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINE, min_size=1, max_size=6))
@example(lines=[b"null"])  # Arrow 26 crashes
@example(lines=[one(EVENTS[0]), one(EVENTS[1], t_ns=HUGE)])
@example(lines=[one(EVENTS[0], op=HUGE), one(EVENTS[1], seq=-HUGE)])
@example(lines=[one(EVENTS[0], trace_fields="take=" + "9" * 5000)])
@example(lines=[one(EVENTS[0]), b'{"run": "\xff", "seq": 1, "op": 1, "phase": "note"}'])
def test_every_event_is_read_and_every_other_line_is_counted(
    tmp_path: Path, judge: Judge, lines: list[bytes]
) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join([one(EVENTS[3]), *lines]))
    problems: list[Problem] = []
    table = pa.concat_tables(batches([path], problems.append), promote_options="permissive")
    good = [line for line in lines if _is_event(line)]
    damaged = [line for line in lines if line.strip() and not _is_event(line)]
    assert (len(table), sum(problem.lines for problem in problems)) == (1 + len(good), len(damaged))
    verdicts = judge.verdicts(events(in_order(completed_only(table, SCHEMA.names))))
    rows = [
        RunVerdict(run=row["run"], seq=row["seq"], event=row["event"], reason="")
        for row in verdicts.to_pylist()
    ]
    for as_recorded in (True, False):
        assert len(located(rows, [path], as_recorded=as_recorded)) == len(rows)
    batch = pa.RecordBatch.from_pydict({"id": [0]})
    on_spark = pa.Table.from_batches(ReadFiles((str(path),), "run")([batch]))
    assert len(on_spark) == len(table) + len(problems)


def _is_event(line: bytes) -> bool:
    try:
        return is_event(json.loads(line.decode()))
    except (ValueError, RecursionError):
        return False


@pytest.mark.parametrize("text", ["0", "7", "9" * 5000, "1" + "0" * 4999, str(2**64), str(2**63)])
def test_a_number_of_any_length_is_read_modulo_2_to_64(text: str) -> None:
    """Python reads no more than 4,300 digits at once."""
    expected = 0
    for digit in text:
        expected = (expected * 10 + int(digit)) % 2**64
    for kind in (Values, ArrowValues):
        (number,), (decimal,) = kind.of([text]).decimals()
        assert (int(number) % 2**64, bool(decimal)) == (expected, True)


def test_a_packed_file_whose_bytes_are_damaged_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(b"\n".join(one(event) for event in EVENTS) * 20))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)
    (tmp_path / "t").write_bytes(packed)
    problems: list[Problem] = []
    list(batches([tmp_path / "t"], problems.append))
    assert "cut off or damaged" in problems[-1].what
    row = RunVerdict(run="service", seq=0, event="x", reason="")
    assert located([row], [tmp_path / "t"], as_recorded=True) == [row]


def test_a_mark_of_byte_order_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbf" + one(EVENTS[0]))
    problems: list[Problem] = []
    assert [len(table) for table in batches([tmp_path / "t"], problems.append)] == [1]
    assert not problems


def test_a_line_without_end_is_not_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte of zeros would fill the memory, and be copied over and over."""
    monkeypatch.setattr(reading, "_BLOCK", 10)
    monkeypatch.setattr(reading, "_LINE_MAX", 20)
    (tmp_path / "t").write_bytes(b"0" * 1000 + b"\nab\n")
    whole = b"".join(block for block, _ in blocks(tmp_path / "t", print))
    assert len(whole) < 50
    assert whole.endswith(b"0\nab\n")


@pytest.mark.parametrize(
    "by", ["prefix:\u00b2", "prefix:0", "prefix:9999", "(?=a)(b)", "(", "a", "(a){2000}"]
)
def test_a_grouping_that_cannot_be_is_refused(by: str) -> None:
    with pytest.raises(TraceError, match="grouping"):
        find_grouping(by, "run")


@pytest.mark.parametrize(
    "damage",
    [
        PUT.replace("06/Feb/2019", "99/Foo/2019"),
        PUT.replace("06/Feb/2019", "06/Feb/9999"),
        PUT.replace("17 33 20", "17 x 20"),
        PUT.replace("17 33 20", f"17 {'9' * 30} 20"),
        "\x00\xff",
    ],
)
def test_a_damaged_line_of_an_access_log_is_counted_and_hides_no_other(tmp_path: Path, damage: str) -> None:
    (tmp_path / "log").write_text(f"{PUT}\n{damage}\n{PUT}\n")
    problems: list[Problem] = []
    assert len(read_access_log([tmp_path / "log"], problems.append)) == 4
    assert [problem.lines for problem in problems] == [1]


@pytest.mark.parametrize("name", ["run", "etag", "trace_fields", "note"])
def test_text_of_a_parquet_file_that_is_no_utf8_is_damage(tmp_path: Path, name: str) -> None:
    table = table_of(traced(GOOD))
    offsets, data = np.arange(len(table) + 1, dtype=np.int32), b"\xff" * len(table)
    bad = pa.Array.from_buffers(pa.string(), len(table), [None, *map(pa.py_buffer, (offsets, data))])
    pq.write_table(table.set_column(table.column_names.index(name), name, bad), tmp_path / "t.parquet")
    problems: list[Problem] = []
    found = plan([tmp_path / "t.parquet"], "run", tmp_path, problems.append)
    for part in found.parts:
        load(part, SCHEMA.names, problems.append)
    assert [problem.what.split(" cannot")[0] for problem in problems] == ["row group 0"]
