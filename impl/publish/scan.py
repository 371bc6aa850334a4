"""One version of a table as Arrow batches, without a Python object for each row.

A version is a sequence of runs. A row of a run is visible if no later run holds its key. So every run of rows
can be read by itself: it is a `Piece`, the fragment of the run and the later runs that hide some of its rows.
A task of a cluster reads one piece; `Scan.batches` reads all of them, and each fragment once.

One fragment and the keys of the runs after it are in memory, not the table. Runs count like digits (see
`tables`), so the later runs are small beside a large one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.impl.context import Context
from fencepost.impl.publish.cache import Run, check_fragment
from fencepost.impl.publish.documents import Version
from fencepost.impl.publish.errors import Invalid, StaleView
from fencepost.impl.publish.schema import Columns, Schema, arrow_schema, read_batches
from fencepost.impl.store.requests import Get, Outcome


@dataclass(frozen=True, slots=True)
class Piece:
    """The visible rows of one run."""

    schema: Schema
    columns: Columns
    """The columns to return, in this order."""
    run: Run
    later: tuple[Run, ...]

    def batches(self, context: Context) -> Iterator[Any]:
        """Read the visible rows as Arrow batches."""
        body = _body(context, self.run)
        later = [_keys(self.schema, run, _body(context, run)) for run in self.later]
        yield from self.visible(body, _keys(self.schema, self.run, body), later)

    def visible(self, body: bytes, own: Any, later: Sequence[Any]) -> Iterator[Any]:
        """The rows of the fragment `body`, whose keys are `own`, that no array of `later` holds."""
        import pyarrow as pa
        import pyarrow.compute as pc

        hides = pa.chunked_array(later, own.type)
        shown = pc.invert(pc.is_in(own, value_set=hides)) if len(hides) else None
        at = 0
        for batch in read_batches(body, self.run["path"], self.columns):
            rows = batch if shown is None else batch.filter(shown.slice(at, batch.num_rows))
            at += batch.num_rows
            if rows.num_rows:
                yield rows


class Scan:
    """The rows of one table at one version, in no particular order."""

    def __init__(self, context: Context, version: Version, columns: Sequence[str] | None = None) -> None:
        self._context = context
        self._table = Schema(version.columns, version.key, version.edges)
        kinds = dict(version.columns)
        names = list(kinds) if columns is None else list(columns)
        for name in names:
            if name not in kinds:
                raise Invalid(f"table {version.table} has no column {name!r}; it has {', '.join(kinds)}")
        if len(set(names)) != len(names) or not names:
            raise Invalid(f"table {version.table}: name one or more columns, each once, not {names}")
        self.columns: Columns = tuple((name, kinds[name]) for name in names)
        self.pieces: Sequence[Piece] = [
            Piece(self._table, self.columns, run, version.runs[at + 1 :])
            for at, run in enumerate(version.runs)
            if run["holds"] == "rows"
        ]
        self._runs = version.runs

    @property
    def schema(self) -> Any:
        """The Arrow schema of the batches."""
        return arrow_schema(self.columns)

    def batches(self) -> Iterator[Any]:
        """Read all visible rows as Arrow batches, the newest run first."""
        pieces = list(self.pieces)
        later: list[Any] = []
        for run in reversed(self._runs):
            body = _body(self._context, run)
            own = _keys(self._table, run, body)
            if run["holds"] == "rows":
                yield from pieces.pop().visible(body, own, later)
            later.append(own)

    def reader(self) -> Any:
        """All visible rows as an Arrow RecordBatchReader, which reads while it is consumed."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def arrow(self) -> Any:
        """All visible rows as an Arrow table."""
        return self.reader().read_all()

    def dataset(self) -> Any:
        """All visible rows as an Arrow dataset in memory, which can be filtered and scanned many times."""
        import pyarrow.dataset as ds

        return ds.dataset(self.arrow())


def _keys(schema: Schema, run: Run, body: bytes) -> Any:
    """Return the keys that a run holds, as one Arrow array."""
    import pyarrow as pa

    column = (schema.key, dict(schema.columns)[schema.key])
    kind = arrow_schema([column]).field(0).type
    if "path" not in run:
        return pa.array(run["keys"], kind)
    found = [batch.column(0) for batch in read_batches(body, run["path"], [column])]
    return pa.chunked_array(found, kind).combine_chunks()


def _body(context: Context, run: Run) -> bytes:
    """Read the fragment of a run and check it; a run of few keys has none."""
    if "path" not in run:
        return b""
    reply = context.read(Get(run["path"]))
    if reply.outcome is Outcome.MISSING:
        raise StaleView(f"{run['path']} is missing: the snapshot was cleaned up, open a newer one")
    body: bytes = reply.body
    check_fragment(run, body)
    return body
