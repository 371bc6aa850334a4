"""Which runs a version is made of, and how they stay few however long the history is.

A commit adds what it changes as a run behind those of the version before. Whoever meets the table for the
first time reads them all, and their list stands in every version document and sidecar; so were there one for
every commit ever made, each commit would be dearer than the one before, and opening slower every day.

Therefore a writer takes the last small runs into its own, as soon as there are `FAN_IN` of a size with it:
they count like digits, eight of one size are one of the next. After n commits there are some 7 · log8(n), and
each row was written anew some log8(n) times, until its run is as large as `ROWS_MAX` or `BYTES_MAX` says:
larger ones stay for compaction. It costs no request: a commit that writes rows has a fragment to write, and
what the runs held is remembered; a commit that only deletes takes in runs of keys alone.

It changes no content, and nobody has to know of it. What a run adds and removes is the difference between two
sets of rows: here those before the first run that is taken in, and those after the last. The plan spells the
outcome out, so whoever executes it writes the same bytes.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.impl.publish import fragments, keys
from fencepost.impl.publish.documents import digest
from fencepost.impl.publish.kept import BYTES_MAX, ROWS_MAX, Contents, Layer, last_layers
from fencepost.impl.publish.schema import Row
from fencepost.impl.publish.sheets import Sheet
from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import Put

FAN_IN = 8
"""Runs of a size that become one. Fewer: fewer runs to read. More: rows are written anew less often."""
KEYS_INLINE_MAX = 1000
"""Deleted keys that stand in the version document itself: our own limit on its size."""

Run = Mapping[str, Any]


def written(sheet: Sheet, plan_id: str) -> tuple[Contents, list[Put]]:
    """What `sheet` holds, as runs, and the fragment to write: at most one, so a table costs two requests."""
    base = None if sheet.fresh else sheet.base
    if base is None:
        return _made(sheet, plan_id, (), (), dict.fromkeys(sheet.layer))
    for taken in (taken_in(_sizes(sheet, base), len(sheet.layer)), 0):
        before = _before(sheet, base, taken)
        gone = sum(1 for key, was in before.items() if was is not None and sheet.get(key) is None)
        if gone <= KEYS_INLINE_MAX or not taken:
            break
    if gone > KEYS_INLINE_MAX and any(row is not None for row in sheet.layer.values()):
        return _made(sheet, plan_id, (), (), dict.fromkeys(sheet.keyed()))
    runs, tail = base.runs[: len(base.runs) - taken], base.tail[: len(base.tail) - taken]
    return _made(sheet, plan_id, runs, tail, before)


def taken_in(sizes: Sequence[tuple[int, int]], rows: int) -> int:
    """How many of the last runs, of these rows and bytes, are taken in by a new one with so many rows."""
    taken = size = 0
    while rows:
        more = _alike(sizes[: len(sizes) - taken], rows)
        rows, size = rows + sum(run[0] for run in more), size + sum(run[1] for run in more)
        if len(more) < FAN_IN - 1 or rows > ROWS_MAX or size > BYTES_MAX:
            break
        taken += len(more)
    return taken


def _alike(sizes: Sequence[tuple[int, int]], rows: int) -> list[tuple[int, int]]:
    """The last runs that have no more digits, to the base `FAN_IN`, than a run with so many rows."""
    limit = FAN_IN
    while limit <= rows:
        limit *= FAN_IN
    return list(itertools.takewhile(lambda run: run[0] < limit, reversed(sizes)))


def _sizes(sheet: Sheet, base: Contents) -> list[tuple[int, int]]:
    """Of the runs that can be taken in: by a commit that writes no fragment only those that have none."""
    sizes = [(len(layer.before), layer.bytes) for layer in base.tail]
    if any(row is not None for row in sheet.layer.values()):
        return sizes
    inline = sum(1 for _ in itertools.takewhile(lambda run: "path" not in run, reversed(base.runs)))
    return sizes[max(0, len(sizes) - inline) :]


def _before(sheet: Sheet, base: Contents, taken: int) -> dict[Any, Row | None]:
    """For every key that the new run may touch, the row that was there before the first that it takes in."""
    before: dict[Any, Row | None] = {}
    for layer in base.tail[len(base.tail) - taken :]:
        for key, was in layer.before.items():
            before.setdefault(key, was)
    for key in sheet.layer:
        before.setdefault(key, base.rows.get(key))
    return before


def _made(
    sheet: Sheet, plan_id: str, runs: Sequence[Run], tail: Sequence[Layer], before: Mapping[Any, Row | None]
) -> tuple[Contents, list[Put]]:
    """What is between the rows `before`, which `runs` give, and those of `sheet`, as runs behind them."""
    schema = sheet.there()
    gone = [key for key, was in before.items() if was is not None and sheet.get(key) is None]
    rows = [row for key in before if (row := sheet.get(key)) is not None]
    made: list[tuple[Run, Layer]] = []
    puts = []
    if len(gone) > KEYS_INLINE_MAX:
        key_column = (schema.key, dict(schema.columns)[schema.key])
        body = fragments.encode_rows((key_column,), [{schema.key: key} for key in gone])
        puts.append(_put(sheet.table, plan_id, "keys", body))
        made.append((_run(puts[-1], "keys", len(gone)), _layer(gone, before, body)))
    elif gone:
        made.append(({"holds": "keys", "keys": gone}, _layer(gone, before, b"")))
    if rows:
        body = fragments.encode_rows(schema.columns, rows)
        puts.append(_put(sheet.table, plan_id, "rows", body))
        made.append((_run(puts[-1], "rows", len(rows)), _layer([r[schema.key] for r in rows], before, body)))
    layers = last_layers([*tail, *(layer for _, layer in made)])
    return Contents(schema, (*runs, *(run for run, _ in made)), sheet.keyed(), layers), puts


def _layer(touched: Iterable[Any], before: Mapping[Any, Row | None], body: bytes) -> Layer:
    return Layer({key: before[key] for key in touched}, len(body))


def _put(table: str, plan_id: str, part: str, body: bytes) -> Put:
    return Put(keys.fragment(table, plan_id, part), body, ABSENT, fragments.CONTENT_TYPE)


def _run(put: Put, holds: str, rows: int) -> Run:
    return {"holds": holds, "path": put.key, "rows": rows, "digest": digest(put.body)[:32]}
