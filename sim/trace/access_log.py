"""S3 server access logs as event tables.

A line of such a log is one answered request, its fields divided by spaces, some in quotes:

    OWNER BUCKET [06/Feb/2026:00:00:38 +0000] 192.0.2.3 REQUESTER ID REST.PUT.OBJECT KEY "PUT /k HTTP/1.1"
    200 - ...

It does not record conditions of a request, ETags, bodies, and when within its second it came. Requests
that were never answered may be missing, and the delivery of lines is best effort, out of order and late. So
a log can prove that something happened, and rarely that something did not.

Fields that were added over the years come last; those behind the version are ignored. A line
becomes a `request` event and a `response` event of its run, the bucket; its process is the requester and its
address.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from fencepost.sim.trace.reading import DAMAGED, Report, opened
from fencepost.sim.trace.schema import SCHEMA, Problem, TraceError

_WORD = r"[^ ]+"
# A quoted field is what a client sent: it may hold quotes, escaped or not, so it ends at a quote and a space.
_QUOTED = r'(?:"(?:[^"]|"[^ ])*"|-)'
_NUMBER = r"(?:\d{1,12}|-)"
_TIME = (
    r"(?:0[1-9]|[12]\d|3[01])/(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)/(?:19[7-9]|20\d)\d:"
    r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d [+-]\d{4}"
)
_LINE = (
    rf"^{_WORD} (?P<bucket>{_WORD}) \[(?P<time>{_TIME})\] (?P<address>{_WORD}) (?P<requester>{_WORD}) "
    rf"(?P<id>{_WORD}) (?P<operation>{_WORD}) (?P<key>{_WORD}) {_QUOTED} (?P<status>\d{{3}}|-) "
    rf"(?P<error>{_WORD}) (?P<sent>{_WORD}) (?P<size>{_NUMBER}) (?P<total_ms>{_NUMBER})"
    rf"(?:[ \r]|$)(?:{_WORD} {_QUOTED} {_QUOTED} (?P<version>{_WORD}))?"
)
_KINDS = {
    "REST.PUT.OBJECT": "put",
    "REST.GET.OBJECT": "get",
    "REST.HEAD.OBJECT": "head",
    "REST.DELETE.OBJECT": "delete",
    "BATCH.DELETE.OBJECT": "delete",
    "S3.EXPIRE.OBJECT": "delete",
    "REST.COPY.OBJECT": "put",
    "REST.GET.BUCKET": "list",
    "REST.GET.BUCKETVERSIONS": "list-versions",
    "REST.POST.UPLOADS": "create-upload",
    "REST.PUT.PART": "upload-part",
    "REST.POST.UPLOAD": "complete-upload",
    "REST.DELETE.UPLOAD": "abort-upload",
    "REST.GET.UPLOADS": "list-uploads",
}
_OUTCOMES = {
    "-": "done",  # what the store does by itself, such as an expiration, has no status
    "200": "done",
    "204": "done",
    "206": "done",
    "304": "unchanged",
    "404": "missing",
    "409": "conflict",
    "412": "exists",
    "416": "past-end",
    "503": "throttled",
    "429": "throttled",
}
_BLOCK = 1 << 22


def read_access_log(files: Iterable[Path], report: Report) -> pa.Table:
    """All lines of all files, each as a request and its response, ordered by time."""
    problems: list[Problem] = []
    parts = [part for path in files for part in _file(path, problems.append)]
    for problem in problems:
        report(problem)
    if not parts:
        raise TraceError(
            "no line of an S3 server access log in the files named, whose lines begin with the owner, the "
            f"bucket and [the time]{'; ' if problems else ''}{'; '.join(map(str, problems[:1]))}"
        )
    answers = pa.concat_tables(parts).combine_chunks()
    taken = answers["total_ms"].to_numpy()
    answers = _set(answers.drop_columns(["total_ms"]), "op", np.arange(len(answers)))
    issued = _set(answers, "phase", pa.repeat("request", len(answers)))
    issued = _set(issued, "outcome", pa.repeat("", len(answers)))
    answers = _set(answers, "t_ns", answers["t_ns"].to_numpy() + taken * 1_000_000)
    table = pa.concat_tables([issued, answers])
    half = np.arange(len(table)) >= len(issued)
    # By time, a request before its answer, lines of one moment in the order of the files.
    table = table.take(pa.array(np.lexsort((table["op"].to_numpy(), half, table["t_ns"].to_numpy()))))
    return _set(table, "seq", np.arange(len(table)))


def _set(table: pa.Table, name: str, column: object) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.chunked_array([pa.array(column)]))


def _file(path: Path, report: Report) -> Iterator[pa.Table]:
    try:
        with opened(path) as file:
            yield from _blocks(path, file, report)
    except pa.ArrowInvalid as empty:
        if "Empty CSV" not in str(empty):
            report(Problem(str(path), f"cannot be read as lines: {empty}"))
    except DAMAGED as error:
        report(Problem(str(path), f"is cut off or damaged: {error}; everything before it was read"))
    except OSError as error:
        report(Problem(str(path), f"cannot be read: {error.strerror or error}"))


def _blocks(path: Path, file: object, report: Report) -> Iterator[pa.Table]:
    lines = pv.open_csv(
        file,
        read_options=pv.ReadOptions(column_names=["line"], block_size=_BLOCK, use_threads=False),
        parse_options=pv.ParseOptions(delimiter="\x01", quote_char=False, newlines_in_values=False),
        convert_options=pv.ConvertOptions(column_types={"line": pa.binary()}),
    )
    before = 0
    for batch in lines:
        found = pc.extract_regex(batch.column("line"), _LINE)
        good = found.is_valid()
        if not pc.all(good).as_py():
            bad = np.flatnonzero(~good.to_numpy(zero_copy_only=False))
            where = f"{path}, line {before + int(bad[0]) + 1}"
            more = f" (and {len(bad) - 1} more like it)" if len(bad) > 1 else ""
            report(Problem(where, f"is no line of an S3 server access log{more}", len(bad)))
            found = found.filter(good)
        before += len(batch)
        if len(found):
            yield _events(found)


def _events(found: pa.StructArray) -> pa.Table:
    def field(name: str) -> pa.Array:
        return _text(found.field(name))

    rows = len(found)
    status = field("status").dictionary_encode()
    size = field("size")
    columns = {
        name: pa.repeat(pa.scalar("" if kind == pa.string() else -1, kind), rows) for name, kind in _TYPES
    }
    columns |= {
        "run": field("bucket"),
        "seq": pa.repeat(pa.scalar(0, pa.int64()), rows),
        "t_ns": _time(field("time")),
        "process": pc.binary_join_element_wise(field("requester"), field("address"), "@"),
        "incarnation": pa.repeat(pa.scalar(0, pa.int64()), rows),
        "op": pa.array(np.arange(rows)),
        "phase": pa.repeat(pa.scalar("response"), rows),
        "kind": _mapped(field("operation").dictionary_encode(), lambda name: _KINDS.get(name, "other")),
        "key": _mapped(field("key").dictionary_encode(), _key),
        "version": _empty_for_dash(field("version")),
        "size": pc.if_else(pc.equal(size, "-"), "-1", size).cast(pa.int64()),
        "outcome": _mapped(status, lambda code: _OUTCOMES.get(code, "refused")),
        "note": _empty_for_dash(field("error")),
    }
    taken = field("total_ms")
    columns["total_ms"] = pc.if_else(pc.equal(taken, "-"), "0", taken).cast(pa.int64())
    names = [*SCHEMA.names, "total_ms"]
    return pa.table([columns[name] for name in names], names=names)


_TYPES = [(field.name, field.type) for field in SCHEMA]


def _text(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:  # a client may send any bytes; what the rules look at is always escaped
        return pa.array([value.decode("utf-8", "replace") for value in column.to_pylist()])


def _empty_for_dash(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, "-"), "", column)


def _mapped(column: pa.DictionaryArray, change: object) -> pa.Array:
    """`change` applied to each distinct value."""
    values = pa.array([change(value) for value in column.dictionary.to_pylist()], pa.string())  # type: ignore[operator]
    return values.take(column.indices)


def _key(logged: str) -> str:
    """The key, whose escapes are escaped once more in a log; `-` where a request has none."""
    return "" if logged == "-" else unquote(unquote(logged))


def _time(column: pa.Array) -> pa.Array:
    """`06/Feb/2026:00:00:38 +0000` in nanoseconds. The zone is always UTC."""
    stamp = pc.strptime(pc.utf8_slice_codeunits(column, 0, 20), "%d/%b/%Y:%H:%M:%S", "s", error_is_null=True)
    return pc.multiply(stamp.cast(pa.int64()).fill_null(0), 1_000_000_000)
