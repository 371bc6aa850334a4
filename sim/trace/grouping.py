"""Which events belong together: the runs of a trace, each with a verdict of its own.

The tracer of production names a run as configured, often one for a whole service. The runs that the model
follows are smaller: one catalog, one batch. `grouped` names runs anew, by the key:

    grouped(table, "prefix:2")                      the first two segments of the key
    grouped(table, "agent=([^/]+)/boot=([^/]+)/")   what the groups of a pattern match, anywhere in the key
    grouped(table, "claims/(.+)|jobs/(.+)")         the same; of alternatives, the group that matches

Each distinct key is looked at once. An event whose key names no run (a listing above all runs, a note
without a key) belongs to none and is left out; the number of such events is returned, since no verdict
covers them.

`LinkedRuns` (see `properties.refinement.grouping`) take two passes over the trace. `learn_links` collects
which link belongs to which run, from events that name both; `named` then names the run of each event. The
memory is one pair a link.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.properties.refinement.grouping import LinkedRuns
from fencepost.properties.refinement.observation import Keys
from fencepost.sim.trace.schema import TraceError

Grouping = str | LinkedRuns
"""`run`, `process`, `prefix:N` or a pattern; or the runs that a refinement map declares."""
LINK = "link"
"""The column of links, of events that `halfway` returns."""


def grouped(table: pa.Table, by: Grouping) -> tuple[pa.Table, int]:
    """The table with runs named anew, and the number of events that belong to none."""
    if by == "run":
        return table, 0
    if isinstance(by, LinkedRuns):
        raise TraceError(f"grouping by {by.name} needs the links of the whole trace: see learn_links")
    if by == "process":
        names = (table[column].cast(pa.string()) for column in ("run", "process"))
        name = pc.binary_join_element_wise(*names, "/")
        return table.set_column(table.column_names.index("run"), "run", name), 0
    keys = table["key"].combine_chunks()
    if not pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_encode()
    found = pc.extract_regex(keys.dictionary, _pattern(by))
    return _in_runs(table, _joined(found).take(keys.indices))


def unnamed(table: pa.Table, by: Grouping) -> dict[str, int]:
    """The number of events that belong to no run, by what they are about.

    An event that only a link of another event places is counted as well: use this where some are left out.
    """
    keys = table["key"].combine_chunks()
    if isinstance(by, LinkedRuns):
        run, link = _runs_and_links(by, table)
        left = table.filter(pc.and_(run.is_null(), link.is_null()))
        why = "names no run"
    else:
        whole = keys if pa.types.is_dictionary(keys.type) else keys.dictionary_encode()
        named_run = pc.extract_regex(whole.dictionary, _pattern(by)).is_valid()
        left = table.filter(pc.invert(named_run.take(whole.indices)))
        why = "does not match"
    about = pc.extract_regex(left["key"].cast(pa.string()), r"\A(?P<folder>[^/]*/?)(?P<rest>(?s:.*))\z")
    folders = pc.struct_field(about, "folder")
    more = pc.not_equal(pc.struct_field(about, "rest"), "")
    shown = pc.binary_join_element_wise(folders, pc.if_else(more, "...", ""), "")
    text = pc.binary_join_element_wise(left["kind"].cast(pa.string()), shown, " of ")
    counted = pa.chunked_array([text.combine_chunks()]).value_counts()
    found: dict[str, int] = {}
    for one in counted.to_pylist():
        kind, _, key = one["values"].partition(" of ")
        name = f"{kind} of {key!r}, whose key {why}" if key else f"{kind} without a key"
        found[name] = found.get(name, 0) + one["counts"]
    return found


def find_grouping(by: str | None, declared: Grouping, keys: Sequence[Keys] = ()) -> Grouping:
    """The grouping that a user named, or else the one that the map declares; `keys` are those of the map."""
    if by is None or (isinstance(declared, LinkedRuns) and by == declared.name):
        by_name: Grouping = declared
    else:
        by_name = by
    if isinstance(by_name, str) and by_name.startswith("key:"):
        return _of_keys(by_name.removeprefix("key:"), keys)
    if isinstance(by_name, str) and by_name not in ("run", "process"):
        _pattern(by_name)
    return by_name


def _of_keys(value: str, keys: Sequence[Keys]) -> str:
    """The pattern by which the keys of a map name their run: by one of their values."""
    named = [one.pattern for one in keys if f"(?P<{value}>" in one.pattern]
    if not named:
        known = sorted({name for one in keys for name in re.compile(one.pattern).groupindex})
        raise TraceError(
            f"grouping 'key:{value}': no keys of the map have the value {value!r}; "
            f"{'they have ' + ', '.join(known) if known else 'key:NAME needs a model whose map has keys'}"
        )
    return "|".join(f"^(?:{_only(value, pattern)})$" for pattern in named)


def _only(value: str, pattern: str) -> str:
    """The pattern with one capturing group: this one, without its name."""
    pieces, at = [], 0
    for match in re.finditer(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?P<([^>]+)>|\((?!\?)", pattern):
        if match[0].startswith("("):
            pieces += [pattern[at : match.start()], "(" if match[1] == value else "(?:"]
            at = match.end()
    return "".join([*pieces, pattern[at:]])


def learn_links(linked: LinkedRuns, tables: Iterable[pa.Table]) -> dict[str, str]:
    """The run of each link, by the first event that names both."""
    known: dict[str, str] = {}
    for table in tables:
        run, link = _runs_and_links(linked, table)
        both = pc.and_(run.is_valid(), link.is_valid())
        pairs = pa.table({"link": link.filter(both), "run": run.filter(both)})
        found = pairs.group_by("link", use_threads=False).aggregate([("run", "first")])
        for name, one in zip(found["link"].to_pylist(), found["run_first"].to_pylist(), strict=True):
            known.setdefault(name, one)
    return known


def named(linked: LinkedRuns, table: pa.Table, known: Mapping[str, str]) -> tuple[pa.Table, int]:
    """The table with each event in its run, and the number of events that belong to none."""
    run, link = _runs_and_links(linked, table)
    whole = link.dictionary_encode()
    by_link = pa.array([known.get(name) for name in whole.dictionary.to_pylist()], pa.string())
    return _in_runs(table, pc.coalesce(run, by_link.take(whole.indices)))


def halfway(linked: LinkedRuns, table: pa.Table) -> tuple[pa.Table, int]:
    """The first half of both passes, for engines that join events with links. The run of each event is the
    one it names, or empty where it names only the link, which is in a column of its own; and the number of
    events that name neither.
    """
    run, link = _runs_and_links(linked, table)
    kept = pc.or_(run.is_valid(), link.is_valid())
    place = table.column_names.index("run")
    table = table.set_column(place, "run", run.fill_null("")).append_column(LINK, link.fill_null(""))
    return table.filter(kept), len(table) - (pc.sum(kept).as_py() or 0)


def _runs_and_links(linked: LinkedRuns, table: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The run and the link that each event names, null where it names none."""
    runs: list[pa.Array] = []
    links: list[pa.Array] = []
    for name in ("key", "trace_fields"):
        column = table[name].combine_chunks()
        whole = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = whole.dictionary.cast(pa.string())
        for pattern, group, found in ((linked.run, "run", runs), (linked.link, "link", links)):
            matched = pc.extract_regex(values, pattern)
            part = pc.if_else(matched.is_valid(), matched.field(group), pa.scalar(None, pa.string()))
            found.append(part.take(whole.indices))
    return pc.coalesce(*runs), pc.coalesce(*links)


def _in_runs(table: pa.Table, runs: pa.Array) -> tuple[pa.Table, int]:
    """The table with these runs, without the events whose run is null, and the number of those."""
    kept = runs.is_valid()
    left_out = len(table) - (pc.sum(kept).as_py() or 0)
    table = table.set_column(table.column_names.index("run"), "run", runs)
    return (table.filter(kept) if left_out else table), left_out


def _pattern(by: str) -> str:
    if by.startswith("prefix:"):
        depth = by.removeprefix("prefix:")
        if not re.fullmatch("[0-9]{1,3}", depth) or int(depth) < 1:
            raise TraceError(f"grouping {by!r}: prefix:N takes the first N segments of a key, N of 1 to 999")
        return rf"^(?P<g0>[^/]+(?:/[^/]+){{{int(depth) - 1}}})(?:/|$)"
    try:
        groups = re.compile(by).groups
    except re.error as error:
        raise TraceError(f"grouping {by!r} is no pattern: {error}") from error
    if not groups:
        raise TraceError(
            f"grouping {by!r}: use run, process, prefix:N, or a pattern with groups in parentheses, "
            "whose text names the run"
        )
    named = _named(by)
    try:
        pc.extract_regex(pa.array([""]), named)
    except pa.ArrowInvalid as error:
        why = " ".join(str(error).split())
        raise TraceError(f"grouping {by!r} is no pattern of RE2, which has no look-around: {why}") from error
    return named


def _named(by: str) -> str:
    """The pattern with every capturing group named, as the column engine requires."""
    pieces, count, at = [], 0, 0
    for match in re.finditer(r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?P<[^>]+>|\((?!\?)", by):
        if match[0].startswith("("):
            pieces += [by[at : match.start()], f"(?P<g{count}>"]
            at, count = match.end(), count + 1
    return "".join([*pieces, by[at:]])


def _joined(found: pa.StructArray) -> pa.Array:
    """The texts of the groups that matched something: of alternatives, one."""
    name, *parts = [found.field(number) for number in range(found.type.num_fields)]
    for part in parts:
        both = pc.and_(pc.not_equal(name, ""), pc.not_equal(part, ""))
        name = pc.binary_join_element_wise(name, part, pc.if_else(both, "/", ""))
    return pc.if_else(found.is_valid(), name, pa.scalar(None, pa.string()))
