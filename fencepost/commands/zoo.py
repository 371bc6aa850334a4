"""`fencepost zoo`: is every safeguard needed? Each is switched off in turn, and some property must break.

The first row of a model has everything on and must hold; otherwise the other rows would show nothing. A
safeguard that can be removed without a violation is dead weight or a hole in the properties: both are
findings, and the exit code is 1. An assumption that nothing needs is good news, and only reported.

With --properties the question is the reverse: which change of the model breaks each property? A property that
nothing breaks may be a tautology.

With --programs the entries are programs with failures that really happened: each broken program must be
found, and each fixed one proven.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.models import SHIPPED, complete_model, find_machine
from fencepost.commands.output_files import json_option
from fencepost.commands.rows import Row, ZooResult, audited_row, collect, model_row, property_rows, verdict_of
from fencepost.commands.terminal import engine_option, finish, verbose_option
from fencepost.commands.user_files import is_file_name, split
from fencepost.reports.check_text import row_text, zoo_text

EPILOG = """Exit codes: 0 everything is needed (and every fixed program is proven), 1 a safeguard can be
switched off without a violation, nothing breaks a property, or a row is unexpected, 2 the request made no
sense, 3 a limit was hit first.
Examples: fencepost zoo;  fencepost zoo two-phase;  fencepost zoo --properties two-phase;  fencepost zoo
--programs."""

PROGRAMS = "fencepost.examples.zoo"
PROGRAM_SECONDS = 60.0


@click.command("zoo", short_help="Every safeguard off, one at a time: what breaks.", epilog=EPILOG)
@click.argument("name", metavar="[MODEL]", required=False, shell_complete=complete_model)
@click.option("--programs", is_flag=True, help="Audit programs with failures that really happened.")
@click.option("--properties", is_flag=True, help="Find for each property a change that breaks it.")
@click.option("--no-assumptions", is_flag=True, help="Leave out assumptions about the environment.")
@click.option("--max-states", type=click.IntRange(1), metavar="N", help="State limit of each model.")
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Time limit of each program, or of each model's properties.  [default: 60; of properties, none]",
)
@engine_option("Where the rows are made.")
@click.option("--master", metavar="URL", help="Spark cluster.  [default: all cores of this machine]")
@verbose_option
@json_option
@click.option("--list", "listing", is_flag=True, help="List models and programs.")
def command(
    name: str | None,
    programs: bool,
    properties: bool,
    no_assumptions: bool,
    max_states: int | None,
    budget: float | None,
    engine: str,
    master: str | None,
    verbose: bool,
    json_file: str | None,
    listing: bool,
) -> int:
    """Switch every safeguard of MODEL (or of every model) off, one at a time, and show the property that
    breaks and the length of its shortest counterexample. Assumptions follow, in the same way. MODEL is one of
    `fencepost check --list`, or a machine of your own: path/to/file.py:Machine.

    With --properties, show for every property the change that breaks it: a safeguard or an assumption off, an
    action that never happens, a guard or an effect left out. A property that nothing breaks proves nothing.
    """
    if listing:
        return _list()
    if master is not None and engine != "spark":
        raise BadRequest("--master belongs to --engine spark")
    if programs and (no_assumptions or max_states is not None):
        raise BadRequest("--no-assumptions and --max-states are about models; leave out them or --programs")
    if properties and (programs or no_assumptions):
        raise BadRequest(
            "--properties tries every change of a model; leave out --programs and --no-assumptions"
        )
    if not programs and not properties and budget is not None:
        raise BadRequest(
            "--budget is the time of each program, or of each model's properties; give --programs or "
            "--properties with it, or leave it out"
        )
    if name is not None and engine == "spark" and is_file_name(name):
        path, machine = split(name)
        name = f"{Path(path).resolve()}:{machine}"  # executors have another working directory
    if name is not None and not programs:
        find_machine(name)  # an unknown name is refused before the status line appears
    if programs:
        found = program_rows(name, budget or PROGRAM_SECONDS)
    elif properties:
        found = properties_rows(name, budget, max_states)
    else:
        found = model_rows(name, max_states, assumptions=not no_assumptions)
    with _made(found, {"name": name, "engine": engine, "master": master}) as made:
        rows, complete = collect(made, lambda row: row_text(row).plain.strip().partition("\n")[0])
    result = ZooResult(rows=rows, verdict=verdict_of(rows, complete=complete))
    return finish(result, zoo_text(result, verbose=verbose), json_file)


Rows = Callable[[], tuple[Row, ...]]
"""Makes some rows, here or on an executor."""


def model_rows(name: str | None, max_states: int | None, *, assumptions: bool) -> Iterator[Rows]:
    """A row for each model as it is, and one for everything that can be switched off."""
    for model in SHIPPED if name is None else (name,):
        machine = find_machine(model)
        yield partial(_model_row, model, "", "model", max_states)
        for safeguard in machine.safeguards:
            yield partial(_model_row, model, safeguard, "safeguard", max_states)
        for assumption in machine.assumptions if assumptions else ():
            yield partial(_model_row, model, assumption, "assumption", max_states)


def _model_row(model: str, without: str, kind: str, max_states: int | None) -> tuple[Row, ...]:
    return (model_row(model, without, kind, max_states),)


def properties_rows(name: str | None, seconds: float | None, max_states: int | None) -> Iterator[Rows]:
    """A row for each property of each model."""
    for model in SHIPPED if name is None else (name,):
        yield partial(_property_rows, model, seconds, max_states)


def _property_rows(model: str, seconds: float | None, max_states: int | None) -> tuple[Row, ...]:
    return tuple(property_rows(model, seconds, max_states))


def program_rows(name: str | None, seconds: float) -> Iterator[Rows]:
    """A row for every broken and every fixed program of the zoo, on both interfaces."""
    from fencepost.commands.systems import read_shipped, shipped

    modules = shipped(PROGRAMS)
    if name is not None and name not in modules:
        raise BadRequest(f"the zoo holds no program {name!r}; it holds: {', '.join(modules) or 'none'}")
    for stem in modules if name is None else (name,):
        for system, found in read_shipped(stem, modules[stem]).items():
            for mutant in found.mutants:
                yield partial(_program_row, stem, system, mutant, seconds)
            if found.program is not None:
                yield partial(_program_row, stem, system, "", seconds)


def _program_row(stem: str, system: str, mutant: str, seconds: float) -> tuple[Row, ...]:
    from fencepost.commands.systems import read_shipped, shipped
    from fencepost.testing import Options, request_of, unwrapped

    found = read_shipped(stem, shipped(PROGRAMS)[stem])[system]
    program = found.mutants[mutant] if mutant else found.program
    function, options = unwrapped(program)
    row, _ = audited_row(mutant, request_of(function, options.under(Options(seconds=seconds)), {}, system))
    return (replace(row, model=system),)


@contextlib.contextmanager
def _made(found: Iterator[Rows], options: Mapping[str, Any]) -> Iterator[Iterator[Row]]:
    """The rows, made here or on the executors of a cluster, in their order."""
    if options["engine"] != "spark":
        yield (row for rows in found for row in rows())
        return
    from fencepost.commands.cluster import ZooRows, cluster
    from fencepost.sim.spark.code import code_of
    from fencepost.sim.spark.jobs import each

    name = options["name"] or ""
    with cluster(options) as session:
        code = code_of(Path(split(name)[0]) if is_file_name(name) else None)
        sent = session.sparkContext.broadcast(code)
        yield (row for rows in each(session, found, lambda rows: ZooRows(sent, rows)) for row in rows)


def _list() -> int:
    from fencepost.commands.systems import read_shipped, shipped

    for name in SHIPPED:
        machine = find_machine(name)
        switches = ", ".join([*machine.safeguards, *machine.assumptions])
        say(f"model {name}: {switches or 'nothing to switch off'}")
    for stem, module in shipped(PROGRAMS).items():
        for name, found in read_shipped(stem, module).items():
            say(f"program {name}: {found.doc}")
    return Exit.HOLDS
