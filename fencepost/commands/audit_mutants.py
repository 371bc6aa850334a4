"""`fencepost audit SYSTEM --mutants`: is every safeguard needed in the code? Each mutant is audited in turn.

Every known mistake of the system must be found, and the fixed program, which comes last, must hold; else
the other rows would show nothing. Where a model of the same name can leave out a step of the same name, its
shortest counterexample stands beside the code's, both counted in steps of the protocol
(`sim.explore.counterexample`), and a
counterexample of more than half as many again is called long.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console

from fencepost.commands.audited_row import audited_row
from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest
from fencepost.commands.models import SHIPPED, find_machine
from fencepost.commands.output_files import write_result
from fencepost.commands.systems import find_system, mutants_of, read_parameters
from fencepost.commands.zoo import collect, verdict_of
from fencepost.reports.audit_text import LONG, mutants_text
from fencepost.results import MutantsResult, Row, from_json
from fencepost.testing import Options, request_of

MUTANT_SECONDS, FIXED_SECONDS = 120.0, 600.0
"""What breaks is found in seconds; that nothing does takes all schedules."""


def audit_mutants(
    name: str,
    settings: tuple[str, ...],
    processes: int | None,
    said: Options,
    console: Console,
    json_file: str | None,
    jobs: int = 1,
    *,
    verbose: bool = False,
) -> int:
    """Audit every mutant of the system, and the system; one row each."""
    found = _rows(name, settings, processes, said, jobs)
    rows, complete = collect(found, lambda row: f"{row.safeguard or row.system}: {row.verdict}")
    result = MutantsResult(system=name, rows=rows, verdict=verdict_of(rows, complete=complete))
    console.print(mutants_text(result, verbose=verbose))
    if json_file:
        write_result(result, json_file)
    return VERDICT_EXITS[result.verdict]


def _rows(
    name: str, settings: tuple[str, ...], processes: int | None, said: Options, jobs: int
) -> Iterator[Row]:
    for mutant in [*mutants_of(name), None]:
        yield mutant_row(name, mutant, settings, processes, said, jobs)


def mutant_row(
    name: str,
    mutant: str | None,
    settings: tuple[str, ...],
    processes: int | None,
    said: Options,
    jobs: int,
) -> Row:
    system = find_system(name, mutant)
    arguments = read_parameters(system, settings, processes)
    options = Options(seconds=MUTANT_SECONDS if mutant else FIXED_SECONDS).under(system.options).under(said)
    request = request_of(system.function, options, arguments, name, jobs=jobs)
    row, worst = audited_row(mutant or "", request)
    model = _counterexample_of_model(name, mutant) if mutant and worst else None
    times = worst["moves"] / model["length"] if model and worst else None
    more = {
        "system": name,
        "moves": worst.get("moves", 0),
        "model": model,
        "times": round(times, 2) if times is not None else None,
        "long": times is not None and times > LONG,
        "parameters": dict(request.parameters),
    }
    return from_json(Row, row | more)


def _counterexample_of_model(name: str, safeguard: str) -> dict[str, Any] | None:
    """The shortest counterexample of the model of this name without this safeguard; None when there is
    none."""
    if name not in SHIPPED:
        return None
    from fencepost.model import Model, check

    machine = find_machine(name)
    if safeguard not in machine.safeguards:
        return None
    found = check(Model(machine, machine.shown_at.get(safeguard), without=(safeguard,))).as_json()
    broken = [row for row in found["properties"] if row["verdict"] == "violated"]
    nearest = min(broken, key=lambda row: len(row["trace"]), default=None)
    if nearest is None or len(nearest["trace"]) < 2:
        return None
    return {"model": name, "property": nearest["name"], "length": len(nearest["trace"]) - 1}


def refuse_beside_mutants(alone: Mapping[str, object]) -> None:
    """Options that are about one search or one run."""
    for option, value in alone.items():
        if value is not None:
            raise BadRequest(f"--mutants audits them all, and {option} is about one; leave out either")
