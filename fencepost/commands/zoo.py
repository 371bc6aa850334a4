"""`fencepost zoo`: is every safeguard needed? Off they go, one at a time, and something must break each time.

The first row of a model has everything on and must hold; else the others would show nothing. A safeguard
that can be removed without anything breaking is dead weight or a hole in the properties: both are findings,
and the exit code is 1. An assumption that nothing needs is good news, and only told.

With --programs the entries are programs with failures that really happened: what is broken must be found,
what is fixed must be proven.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
from rich.console import Console

from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.models import SHIPPED, complete_model, find_machine
from fencepost.commands.output_files import TARGET, write_result
from fencepost.model import Machine, Model, ModelError, check
from fencepost.reports.zoo_text import row_text, total_text

EPILOG = """Exit codes: 0 everything is needed (and every fixed program is proven), 1 a safeguard can be
taken off without anything breaking, or a model or program is not as it should be, 2 the request made no
sense, 3 a limit was hit first. Examples: fencepost zoo;  fencepost zoo two-phase;  fencepost zoo
--programs."""

PROGRAMS = "fencepost.examples.zoo"
PROGRAM_SECONDS = 60.0
PLAIN_WIDTH = 160

Row = dict[str, Any]


@click.command("zoo", short_help="Every safeguard off, one at a time: what breaks.", epilog=EPILOG)
@click.argument("name", metavar="[MODEL]", required=False, shell_complete=complete_model)
@click.option("--programs", is_flag=True, help="Failures that really happened, as programs: audit them all.")
@click.option("--no-assumptions", is_flag=True, help="Leave out what is asked of the world.")
@click.option("--max-states", type=click.IntRange(1), metavar="N", help="Of each model, at most.")
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Of each program.  [default: 60]",
)
@click.option(
    "--json", "json_file", type=TARGET, metavar="FILE", help="Write the rows as JSON; - is standard output."
)
@click.option("--list", "listing", is_flag=True, help="List models and programs and end.")
def command(
    name: str | None,
    programs: bool,
    no_assumptions: bool,
    max_states: int | None,
    budget: float | None,
    json_file: str | None,
    listing: bool,
) -> int:
    """Take every safeguard off MODEL (or off every model), one at a time, and show the property that breaks
    and the length of its shortest counterexample. Assumptions follow, in the same way. MODEL is one of
    `fencepost
    check --list`, or a machine of your own: path/to/file.py:Machine.
    """
    if listing:
        return _list()
    if programs and (no_assumptions or max_states is not None):
        raise BadRequest("--no-assumptions and --max-states are about models; leave out them or --programs")
    if not programs and budget is not None:
        raise BadRequest("--budget is the time of each program; give --programs with it, or leave it out")
    console = Console(file=sys.stderr if json_file == "-" else sys.stdout, soft_wrap=True, highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    found = (
        program_rows(name, budget or PROGRAM_SECONDS)
        if programs
        else model_rows(name, max_states, assumptions=not no_assumptions)
    )
    rows: list[Row] = []
    interrupted = False
    try:
        for row in found:
            rows.append(row)
            console.print(row_text(row))
    except KeyboardInterrupt:
        interrupted = True
    verdict = verdict_of(rows, complete=not interrupted)
    result = {"rows": rows, "verdict": verdict}
    console.print(total_text(result))
    if json_file:
        write_result(result, json_file)
    return VERDICT_EXITS[verdict]


def verdict_of(rows: list[Row], *, complete: bool = True) -> str:
    """Whether every row is as it should be, and none is missing."""
    if any(row["wrong"] for row in rows):
        return "violated"
    return "holds" if complete and all(row["verdict"] != "undecided" for row in rows) else "undecided"


def model_rows(name: str | None, max_states: int | None, *, assumptions: bool) -> Iterator[Row]:
    """A row for each model as it is, and one for everything that can be switched off."""
    for model in SHIPPED if name is None else (name,):
        machine = find_machine(model)
        yield _model_row(model, machine, "", "", max_states)
        for safeguard in machine.safeguards:
            yield _model_row(model, machine, safeguard, "safeguard", max_states)
        for assumption in machine.assumptions if assumptions else ():
            yield _model_row(model, machine, assumption, "assumption", max_states)


def _model_row(name: str, machine: type[Machine], without: str, kind: str, max_states: int | None) -> Row:
    try:
        model = Model(machine, machine.shown_at.get(without), without=(without,) if without else ())
        result = check(model, max_states=max_states).as_json()
    except ModelError as error:
        raise BadRequest(f"{name}: {error}") from error
    broken = [row for row in result["properties"] if row["verdict"] == "violated"]
    nearest = min(broken, key=lambda row: len(row["trace"]), default=None)
    verdict = result["verdict"]
    return {
        "model": name,
        "safeguard": without,
        "property": nearest["name"] if nearest else "",
        "length": max(0, len(nearest["trace"]) - 1) if nearest else 0,
        "seconds": result["seconds"],
        "found": nearest is not None,
        "kind": kind or "model",
        "verdict": verdict,
        # Undecided is neither right nor wrong; nobody is to blame for an assumption that is not needed.
        "wrong": verdict == ("holds" if kind == "safeguard" else "violated") and kind != "assumption",
    }


def program_rows(name: str | None, seconds: float) -> Iterator[Row]:
    """A row for every broken and every fixed program of the zoo, on both interfaces."""
    from fencepost.commands.systems import read_shipped, shipped

    modules = shipped(PROGRAMS)
    if name is not None and name not in modules:
        raise BadRequest(f"the zoo holds no program {name!r}; it holds: {', '.join(modules) or 'none'}")
    for stem in modules if name is None else (name,):
        for system, found in read_shipped(stem, modules[stem]).items():
            for mutant, program in found.mutants.items():
                yield _program_row(system, mutant, program, seconds)
            if found.program is not None:
                yield _program_row(system, "", found.program, seconds)


def _program_row(system: str, mutant: str, program: Callable[..., Any], seconds: float) -> Row:
    from fencepost.commands.audited_row import audited_row
    from fencepost.testing import Options, request_of, unwrapped

    function, options = unwrapped(program)
    row, _ = audited_row(mutant, request_of(function, options.under(Options(seconds=seconds)), {}, system))
    return {"model": system, **row}


def _list() -> int:
    from fencepost.commands.systems import read_shipped, shipped

    for name in SHIPPED:
        machine = find_machine(name)
        click.echo(
            f"model {name}: {', '.join([*machine.safeguards, *machine.assumptions]) or 'nothing to take off'}"
        )
    for stem, module in shipped(PROGRAMS).items():
        for name, found in read_shipped(stem, module).items():
            click.echo(f"program {name}: {found.doc}")
    return Exit.HOLDS
