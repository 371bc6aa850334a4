"""Traces as columns: the event table, its files, the tracer of production, access logs, runs and order.

To write:     TracedStore, Rotating (while a program runs), write_parquet, write_json_lines.
To read:      discover, batches, read_access_log, Problem, TraceError.
In between:   SCHEMA, table_of, events_of; grouped (runs), ordered (clocks).
"""

from fencepost.sim.trace.access_log import read_access_log
from fencepost.sim.trace.grouping import grouped
from fencepost.sim.trace.ordering import ordered
from fencepost.sim.trace.reading import batches, discover
from fencepost.sim.trace.schema import SCHEMA, Problem, TraceError, events_of, table_of
from fencepost.sim.trace.tracer import Rotating, TracedStore
from fencepost.sim.trace.writing import write_json_lines, write_parquet
