"""Traces of the real publish library under the adversary, as many as wanted, each with names of its own.

A few hundred runs are really driven, with crashes, lost replies and rivals. Then their columns are
repeated, and in each copy every plan, process and run gets a name that no other copy has: to a reader they
are all different.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.publish.trace_fields import trace_fields
from fencepost.impl.store.events import Event
from fencepost.properties.refinement import Automaton, Refinement
from fencepost.properties.refinement.symbols import SymbolReader
from fencepost.sim.explore import Random, Setting
from fencepost.sim.replay.parts import in_order
from fencepost.sim.systems.publish.scenarios import program
from fencepost.sim.trace import table_of, write_parquet
from fencepost.sim.trace.columns import events as columns
from fencepost.sim.trace.schema import SCHEMA
from fencepost.sim.world import Budget, World
from fencepost.sim.world.trace import events

SCENARIOS = ("skew", "rivals", "takeover", "heir", "two-tables", "cleaner")
_NAMED = ("run", "process", "key", "trace_fields")


@dataclass(frozen=True)
class Source:
    """A library whose runs are driven: its program, what its bodies tell, and how its names are renamed."""

    program: Callable[..., Any]
    trace_fields: Callable[[str, bytes], str]
    names: tuple[tuple[str, str], ...]
    """Patterns of names, with their replacements; `MARK` is the six digits of a copy."""
    conflicts: int = 1
    """The number of requests of a run that may be answered 409."""


PUBLISH = Source(program, trace_fields, ((r"\b([0-9A-HJKMNP-TV-Z]{26})\b", r"\1MARK"),))


class Kept(Random):
    """Random runs, whose events are kept."""

    def __init__(self, setting: Setting, name: str, trace_fields: Callable[[str, bytes], str]) -> None:
        super().__init__(setting)
        self.name = name
        self.trace_fields = trace_fields
        self.runs: list[list[Event]] = []

    def _after(self, world: World, ended: bool) -> None:
        super()._after(world, ended)
        if ended:
            world.show_bodies(self.trace_fields)
            run = f"{self.name}-{len(self.runs):04d}"
            # Notes for the properties of the scenarios are in no trace of production.
            own = (e for e in events(world, run) if e.process != "setup" and e.kind != "note")
            self.runs.append([replace(event, seq=seq) for seq, event in enumerate(own)])


def driven(count: int, scenarios: tuple[str, ...] = SCENARIOS, source: Source = PUBLISH) -> list[list[Event]]:
    """So many runs, evenly from the scenarios. The same every time."""
    runs: list[list[Event]] = []
    for number, scenario in enumerate(scenarios):
        wanted = count // len(scenarios) + (number < count % len(scenarios))
        budget = Budget(crash=1, reply_lost=1, request_lost=1, late=1, conflict=source.conflicts)
        program = partial(source.program, scenario=scenario)
        search = Kept(Setting(program, budget, seed=number), scenario, source.trace_fields)
        search.explore(lambda done, wanted=wanted: done.schedules >= wanted)
        assert not search.failures, search.failures
        runs += search.runs
    return runs


def distinct(runs: list[list[Event]], refinement: Refinement) -> int:
    """Return the number of runs that differ for the model: no two read alike, whatever their names."""
    reader = SymbolReader(Automaton(refinement), Lock())
    found = reader.read(columns(in_order(table_of(event for run in runs for event in run))))
    spans = zip(found.starts.tolist(), found.lengths.tolist(), strict=True)
    return len({found.symbols[start : start + length].tobytes() for start, length in spans})


def copies(table: pa.Table, count: int, first: int = 0, source: Source = PUBLISH) -> Iterator[pa.Table]:
    """The table so many times, with names of its own in each copy, runs in the order of their names."""
    whole = {
        name: table[name].combine_chunks().dictionary_encode() for name in SCHEMA.names if name in _NAMED
    }
    plain = {name: table[name].combine_chunks() for name in SCHEMA.names if name not in _NAMED}
    plain = {
        name: column.dictionary_encode() if column.type == pa.string() else column
        for name, column in plain.items()
    }
    for number in range(first, first + count):
        mark = f"{number:06d}"
        columns: dict[str, Any] = dict(plain)
        for name, column in whole.items():
            columns[name] = pa.DictionaryArray.from_arrays(
                column.indices, _renamed(column.dictionary, name, mark, source)
            )
        yield pa.table([columns[name] for name in SCHEMA.names], names=SCHEMA.names)


def _renamed(values: pa.Array, name: str, mark: str, source: Source) -> pa.Array:
    if name == "run":
        return pc.binary_join_element_wise(mark, values, "-")
    if name == "process":
        return pc.binary_join_element_wise(values, mark, "-")
    for pattern, instead in source.names:
        values = pc.replace_substring_regex(values, pattern, instead.replace("MARK", mark))
    return values


Spoiled = dict[int, dict[int, list[Event]]]
"""By number of the copy, and of the run in it: the run that takes its place."""


def write(
    path: Path, events_wanted: int, base: list[list[Event]], spoiled: Spoiled, source: Source = PUBLISH
) -> tuple[int, int]:
    """A file of so many events; `spoiled` runs take the places of others."""
    table = table_of(event for run in base for event in run)
    count = -(-events_wanted // len(table))

    def tables() -> Iterator[pa.Table]:
        for number, copy in enumerate(copies(table, count, 0, source)):
            if number in spoiled:
                others = (spoiled[number].get(at, run) for at, run in enumerate(base))
                copy = next(copies(table_of(event for run in others for event in run), 1, number, source))
            yield copy

    return write_parquet(path, tables()), count * len(base)


def random_choice(seed: int) -> Any:
    """A stream of chance that is the same every time."""
    return SeededEnvironment(seed).stream("bench")
