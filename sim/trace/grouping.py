"""Which events belong together: the runs that are judged, each by itself.

The tracer of production names a run as it was told to, often one for a whole service. What can be judged by
itself is smaller: one catalog, one identity. `grouped` names runs anew, by the key:

    grouped(table, "prefix:2")                      the first two segments of the key
    grouped(table, "agent=([^/]+)/boot=([^/]+)/")   what the groups of a pattern catch, anywhere in the key

The key is looked at once for each distinct one. An event whose key says nothing (a listing above all runs,
a note without a key) belongs to no run and is left out; how many is answered, since what was left out was
not judged.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.sim.trace.schema import TraceError

IDENTITY = "identity"
"""Of the ingest protocol: by its keys, trace fields, and the hashes of blobs, see `sim.replay.identities`."""


def grouped(table: pa.Table, by: str) -> tuple[pa.Table, int]:
    """The table with runs named anew, and the number of events that belong to none."""
    if by == "run":
        return table, 0
    if by == IDENTITY:
        raise TraceError("grouping by identity needs the whole trace first; see sim.replay.identities")
    if by == "process":
        name = pc.binary_join_element_wise(_text(table["run"]), _text(table["process"]), "/")
        return table.set_column(table.column_names.index("run"), "run", name), 0
    keys = table["key"].combine_chunks()
    if not pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_encode()
    found = pc.extract_regex(keys.dictionary, _pattern(by))
    names = _joined(found).take(keys.indices)
    kept = names.is_valid()
    left_out = len(table) - (pc.sum(kept).as_py() or 0)
    table = table.set_column(table.column_names.index("run"), "run", names)
    return (table.filter(kept) if left_out else table), left_out


def check_grouping(by: str) -> None:
    """Raise `TraceError` when `by` is no way of grouping."""
    if by not in ("run", "process", IDENTITY):
        _pattern(by)


def _pattern(by: str) -> str:
    if by.startswith("prefix:"):
        depth = by.removeprefix("prefix:")
        if not depth.isdigit() or int(depth) < 1:
            raise TraceError(f"grouping {by!r}: prefix:N takes the first N segments of a key, N at least 1")
        return rf"^(?P<g0>[^/]+(?:/[^/]+){{{int(depth) - 1}}})(?:/|$)"
    try:
        groups = re.compile(by).groups
    except re.error as wrong:
        raise TraceError(f"grouping {by!r} is no pattern: {wrong}") from wrong
    if not groups:
        raise TraceError(
            f"grouping {by!r}: say run, process, prefix:N, or a pattern with groups in parentheses, "
            "whose text names the run"
        )
    return _named(by)


def _named(by: str) -> str:
    """The pattern with every capturing group named, as the column engine wants them."""
    pieces, count, at = [], 0, 0
    for match in re.finditer(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?P<[^>]+>|\((?!\?)", by):
        if match[0].startswith("("):
            pieces += [by[at : match.start()], f"(?P<g{count}>"]
            at, count = match.end(), count + 1
    return "".join([*pieces, by[at:]])


def _joined(found: pa.StructArray) -> pa.Array:
    parts = [found.field(number) for number in range(found.type.num_fields)]
    name = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
    return pc.if_else(found.is_valid(), name, pa.scalar(None, pa.string()))


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string())
