"""`fencepost simulate SCENARIO`: capacity what-ifs in simulated time."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.output_files import json_option, write_json
from fencepost.commands.provenance import command_line, provenance
from fencepost.commands.terminal import console as console_for
from fencepost.commands.terminal import verbose_option
from fencepost.reports.simulate_text import simulate_text
from fencepost.results import SimulateResult, from_json, to_json
from fencepost.sim.scenarios import BadScenario, Order, RunFailed, load, perform, shipped
from fencepost.sim.scenarios.outcome import prepare, write_out

EPILOG = """Exit codes: 0 holds, 1 a check is outside its tolerance or an objective is broken (in a sweep: by
every run), 2 the request made no sense, 3 stopped before all runs were finished. The same scenario and seed
give the same bytes. Examples: fencepost simulate cap-tail;  fencepost simulate rfc-013-capped;  fencepost
simulate mine.toml --sweep writers=1,4,16 --out out/mine."""

ENGINES = ("local", "spark")
OUTPUT_OPTIONS = ("--jobs", "--engine", "--master", "--out", "--json")
OUTPUT_FLAGS = ("--no-traces", "--no-plots", "-v", "--verbose")
"""Options that do not change the result: they are no part of the command that makes it again."""


@click.command("simulate", short_help="Capacity what-ifs in simulated time.", epilog=EPILOG)
@click.argument("scenario_name", metavar="SCENARIO", required=False)
@click.option(
    "--sweep", "sweeps", metavar="KEY=A,B,...", multiple=True, help="Sweep a key, or put other values in."
)
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Of everything that is drawn.  [the scenario's]"
)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes at once.  [one a core]")
@click.option(
    "--engine", type=click.Choice(ENGINES), default="local", show_default=True, help="Who runs the runs."
)
@click.option("--master", metavar="URL", help="Of the Spark cluster.  [local[*]]")
@click.option("--out", metavar="DIR", help="Write results, traces and plots there.")
@click.option("--no-traces", is_flag=True, help="No traces in DIR: they take most of its time and room.")
@click.option("--no-plots", is_flag=True, help="No plots in DIR.")
@verbose_option
@json_option
@click.option("--list", "listing", is_flag=True, help="List the scenarios that are shipped.")
def command(
    scenario_name: str | None,
    sweeps: tuple[str, ...],
    seed: int | None,
    jobs: int | None,
    engine: str,
    master: str | None,
    out: str | None,
    no_traces: bool,
    no_plots: bool,
    verbose: bool,
    json_file: str | None,
    listing: bool,
) -> int:
    """Run SCENARIO in simulated time: the code as it ships, or a write path that is only described, on a
    store with the latency, the limits and the faults you choose. SCENARIO is one of --list, or a TOML file of
    yours.
    """
    if listing:
        return _list()
    if scenario_name is None:
        raise BadRequest(
            "name the scenario, as in: fencepost simulate cap-tail; --list lists those that are shipped"
        )
    _refuse_contradictions(engine, master, jobs, out, no_traces=no_traces, no_plots=no_plots)
    with _refusing(out):
        scenario = load(scenario_name)
        folder = prepare(Path(out), traces=not no_traces, plots=not no_plots) if out else None
        order = Order(scenario, sweeps=sweeps, seed=seed, jobs=jobs, folder=folder, traces=not no_traces)
        with _Bar() as bar:
            found = _perform(order, engine, master, bar)
    console = console_for(stderr=json_file == "-", wrapped=True)
    outcome: SimulateResult = from_json(SimulateResult, found)
    console.print(simulate_text(outcome, verbose=verbose), crop=False)
    made = provenance(command_line(without=OUTPUT_OPTIONS, flags=OUTPUT_FLAGS))
    result = to_json(replace(outcome, provenance=made))
    if folder is not None:
        plots = {} if no_plots else _figures(result)
        with _refusing(out):
            written = write_out(folder, result, plots)
        console.print(f"written: {', '.join(written)}", markup=False, soft_wrap=True)
    if json_file:
        write_json(result, json_file)
    return VERDICT_EXITS[outcome.verdict]


@contextlib.contextmanager
def _refusing(out: str | None) -> Iterator[None]:
    """Reports errors of the scenario, or of the folder of its results, as one line."""
    try:
        yield
    except (BadScenario, RunFailed) as error:
        raise BadRequest(str(error)) from None
    except OSError as error:
        if out is None:
            raise  # nothing is written then: a bug of ours
        raise BadRequest(f"cannot write to {out}: {error.strerror}; give --out another folder") from error


def _perform(order: Order, engine: str, master: str | None, bar: "_Bar") -> dict[str, Any]:
    if engine == "spark":
        from fencepost.sim.scenarios.running import perform_on_spark

        return perform_on_spark(order, master, bar.show)
    return perform(order, bar.show)


def _refuse_contradictions(
    engine: str, master: str | None, jobs: int | None, out: str | None, *, no_traces: bool, no_plots: bool
) -> None:
    if master is not None and engine != "spark":
        raise BadRequest("--master belongs to --engine spark; give both, or neither")
    if jobs is not None and engine == "spark":
        raise BadRequest(
            "--jobs is for --engine local; Spark has its own number of tasks, as in --master local[4]"
        )
    if out is None and (no_traces or no_plots):
        raise BadRequest("--no-traces and --no-plots are about --out DIR; give it, or leave them out")


def _figures(result: dict[str, Any]) -> dict[str, bytes]:
    from fencepost.reports.simulation_plots import figures  # only here: it loads matplotlib

    return figures(result)


def _list() -> int:
    for name in shipped():
        sys.stdout.write(f"{name:24}  {load(name).title}\n")
    return Exit.HOLDS


class _Bar:
    """Runs done of all, on a terminal only."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)
