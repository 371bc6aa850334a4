"""Runs of the ingest protocol: each identity by itself, though keys of blobs only tell a hash.

Two passes. The first learns from keys and trace fields that name both which identity a hash belongs to;
the second names each event's run by its identity, told or learnt. `properties.ingest.grouping` does the same
event by
event. A hash is taken from the key, or else from the trace fields; the memory is one pair a batch.
"""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.properties.ingest.refinement import IDENTITY

SHA = "sha"
"""The column of hashes, of events that are halfway."""
_SHA = r"(?:^|[/ =])(?P<sha>[0-9a-f]{64})(?:[~./ ]|$)"


def learnt(tables: Iterable[pa.Table]) -> dict[str, str]:
    """Which identity a hash belongs to, by the events that name both. The first that says so counts."""
    known: dict[str, str] = {}
    for table in tables:
        identity, sha = _told(table)
        both = pc.and_(identity.is_valid(), sha.is_valid())
        pairs = pa.table({"sha": sha.filter(both), "identity": identity.filter(both)})
        found = pairs.group_by("sha", use_threads=False).aggregate([("identity", "first")])
        for name, one in zip(found["sha"].to_pylist(), found["identity_first"].to_pylist(), strict=True):
            known.setdefault(name, one)
    return known


def named(table: pa.Table, known: Mapping[str, str]) -> tuple[pa.Table, int]:
    """The table with each event in its identity's run, and how many events are about none."""
    identity, sha = _told(table)
    whole = sha.dictionary_encode()
    by_hash = pa.array([known.get(name) for name in whole.dictionary.to_pylist()], pa.string())
    runs = pc.coalesce(identity, by_hash.take(whole.indices))
    kept = runs.is_valid()
    left_out = len(table) - (pc.sum(kept).as_py() or 0)
    return table.set_column(table.column_names.index("run"), "run", runs).filter(kept), left_out


def halfway(table: pa.Table) -> tuple[pa.Table, int]:
    """The first half of both passes, for who joins events with what others tell. Each event's run is its
    identity where it tells one, and empty where it only tells the hash, which stands in a column of its own;
    and how many events tell neither.
    """
    identity, sha = _told(table)
    kept = pc.or_(identity.is_valid(), sha.is_valid())
    run = table.column_names.index("run")
    table = table.set_column(run, "run", identity.fill_null("")).append_column(SHA, sha.fill_null(""))
    return table.filter(kept), len(table) - (pc.sum(kept).as_py() or 0)


def _told(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The identity and the hash that each event names, null where it names none."""
    identities, hashes = [], []
    for name in ("key", "trace_fields"):
        column = table[name].combine_chunks()
        whole = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = whole.dictionary.cast(pa.string())
        for pattern, group, found in ((IDENTITY, "identity", identities), (_SHA, "sha", hashes)):
            caught = pc.extract_regex(values, pattern)
            part = pc.if_else(caught.is_valid(), caught.field(group), pa.scalar(None, pa.string()))
            found.append(part.take(whole.indices))
    return pc.coalesce(*identities), pc.coalesce(*hashes)
