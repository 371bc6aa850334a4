"""S3 server access logs, as they really look."""

import gzip
from pathlib import Path

import pytest

from fencepost.sim.trace import Problem, TraceError, events_of, read_access_log

OWNER = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"
OLD = (
    f"{OWNER} bkt [06/Feb/2019:00:00:38 +0000] 192.0.2.3 {OWNER} 3E57427F3EXAMPLE REST.GET.VERSIONING - "
    '"GET /bkt?versioning HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" -'
)
PUT = (
    f"{OWNER} bkt [06/Feb/2019:00:01:00 +0000] 192.0.2.3 arn:aws:sts::1:assumed-role/r/i 4F REST.PUT.OBJECT "
    'a/na%2520me.json "PUT /bkt/a/na%20me.json?x-id=PutObject HTTP/1.1" 200 - - 17 33 20 "-" '
    '"agent "quoted" [x]" - s9lzHYrFp76ZVxRcpX9+5cjAnEH2ROuNkd2BHfIa6UkFVdtjf5mKR3/eTPFvsiP/XV/VLi31234= '
    "SigV4 ECDHE-RSA-AES128-GCM-SHA256 AuthHeader bkt.s3.us-west-1.amazonaws.com TLSV1.2 - - eu new-field"
)
LOST = PUT.replace(" 200 - - 17", " 412 PreconditionFailed 560 -").replace("00:01:00", "00:00:59")
DELETE = PUT.replace("REST.PUT.OBJECT", "S3.EXPIRE.OBJECT").replace(
    '"PUT /bkt/a/na%20me.json?x-id=PutObject HTTP/1.1" 200', '"-" -'
)


def read(*paths: Path) -> tuple[list[tuple[object, ...]], list[Problem]]:
    problems: list[Problem] = []
    found = [
        event for event in events_of(read_access_log(paths, problems.append)) if event.phase != "request"
    ]
    return [(e.run, e.seq, e.phase, e.kind, e.key, e.outcome, e.size, e.note) for e in found], problems


def test_lines_of_all_ages_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join([PUT, OLD, LOST, DELETE]) + "\n")
    assert read(path) == (
        [
            ("bkt", 1, "response", "other", "", "done", -1, ""),
            ("bkt", 3, "response", "put", "a/na me.json", "exists", -1, "PreconditionFailed"),
            ("bkt", 6, "response", "put", "a/na me.json", "done", 17, ""),
            ("bkt", 7, "response", "delete", "a/na me.json", "done", 17, ""),
        ],
        [],
    )


def test_rotated_and_packed_files_are_one_log_and_bad_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / "1").write_text(PUT + "\n" + "rubbish\n" + PUT[:90] + "\n" + LOST + "\n")
    (tmp_path / "2.gz").write_bytes(gzip.compress((OLD + "\n").encode()))
    (tmp_path / "3").write_text("")
    found, problems = read(*sorted(tmp_path.iterdir()))
    assert [row[1] for row in found] == [1, 3, 5]
    assert [str(problem) for problem in problems] == [
        f"{tmp_path}/1, line 2: is no line of an S3 server access log (and 1 more like it)"
    ]


def test_nothing_to_read_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("rubbish\n")
    with pytest.raises(TraceError, match="no line of an S3 server access log"):
        read(tmp_path / "1")
