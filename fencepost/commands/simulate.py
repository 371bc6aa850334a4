"""`fencepost simulate SCENARIO`: capacity what-ifs in simulated time."""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.output_files import json_option, write_json
from fencepost.commands.provenance import command_line, provenance
from fencepost.commands.simulate_program import is_program, simulate_file
from fencepost.commands.terminal import StatusLine, engine_option, verbose_option
from fencepost.commands.terminal import console as console_for
from fencepost.reports.simulate_text import simulate_text
from fencepost.results import SimulateResult, to_json
from fencepost.sim.scenarios import BadScenario, Order, RunFailed, load, perform, shipped
from fencepost.sim.scenarios.outcome import prepare, write_out

EPILOG = """Exit codes: 0 holds, 1 a check is outside its tolerance or a run broke an objective, 2 the request
made no sense, 3 stopped before all runs were finished. The same scenario and seed give the same bytes.
Examples: fencepost simulate cap-tail; fencepost simulate rfc-013-capped; fencepost simulate mine.toml --sweep
writers=1,4,16 --out out/mine."""

OUTPUT_OPTIONS = ("--jobs", "--engine", "--master", "--out", "--json")
OF_PROGRAMS = (
    *("settings", "processes", "clients", "operations", "think", "latency", "profile", "in-flight"),
    *("client-cpu", "client-cores", "base"),
)
"""Options of programs, which scenarios have as keys."""
OUTPUT_FLAGS = ("--no-traces", "--no-plots", "-v", "--verbose")
"""Options that do not change the result: they are no part of the command that makes it again."""


def complete_scenario(_: object, __: object, incomplete: str) -> list[CompletionItem]:
    """For the shell: the shipped scenarios whose names begin so, else files."""
    names = [CompletionItem(name) for name in shipped() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


@click.command("simulate", short_help="Capacity what-ifs in simulated time.", epilog=EPILOG)
@click.argument("scenario", metavar="SCENARIO", required=False, shell_complete=complete_scenario)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a program's parameter.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Short for --set processes=N.")
@click.option("--clients", type=click.IntRange(1), metavar="N", help="Clients.  [the program's processes]")
@click.option("--operations", type=click.IntRange(1), metavar="N", help="Calls of each client.  [100]")
@click.option("--think", metavar="TIME", help="Time between two calls.  [0 ms]")
@click.option(
    "--latency", multiple=True, metavar="[KIND=]DELAY", help="Latency of requests, or its P50/P99.  [20 ms]"
)
@click.option("--profile", metavar="FILE", help="Latencies that `fencepost probe --profile` measured.")
@click.option("--in-flight", type=click.IntRange(1), metavar="N", help="Requests the store serves at once.")
@click.option("--client-cpu", metavar="TIME", help="Work of the clients' machine on a request.  [0 ms]")
@click.option("--client-cores", type=click.IntRange(1), metavar="N", help="Its cores.  [one a client]")
@click.option("--base", metavar="REV", help="Compare with the code at this git revision.")
@click.option("--sweep", multiple=True, metavar="KEY=A,B,...", help="Sweep a key, or set other values.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Seed of the runs.  [the scenario's]")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Parallel processes.  [one a core]")
@engine_option("Where the runs are simulated.")
@click.option("--master", metavar="URL", help="Spark cluster.  [local[*]]")
@click.option("--out", metavar="DIR", help="Write results, traces and plots there.")
@click.option("--no-traces", is_flag=True, help="Write no traces, which take most of the time and space.")
@click.option("--no-plots", is_flag=True, help="Write no plots.")
@verbose_option
@json_option
@click.option("--list", "listing", is_flag=True, help="List the scenarios that are shipped.")
def command(scenario: str | None, out: str | None, json_file: str | None, **options: Any) -> int:
    """Run SCENARIO in simulated time: the code as it ships, or a write path that is only described, on a
    store with the latency, the limits and the faults you choose. SCENARIO is one of --list, or a TOML file of
    yours.

    It may also be the program of an audit, path/to/file.py:function: its processes are clients that repeat
    their functions, on our store or on boto3, and contend as they would. --sweep then takes --clients and the
    other options of programs, and the program's parameters.
    """
    if options["listing"]:
        return _list()
    if scenario is None:
        raise BadRequest(
            "name the scenario, as in: fencepost simulate cap-tail; --list lists those that are shipped"
        )
    _refuse_contradictions(out, options)
    if is_program(scenario):
        if out or options["engine"] == "spark":
            raise BadRequest("--out and --engine spark are about scenarios; a program has --json")
        return finish_program(simulate_file(scenario, options), json_file, verbose=options["verbose"])
    for option in OF_PROGRAMS:
        if options[option.replace("-", "_")] not in (None, ()):
            name = {"settings": "set"}.get(option, option)
            raise BadRequest(f"--{name} is for a program, path/to/file.py:function; a scenario has --sweep")
    traces, plots = not options["no_traces"], not options["no_plots"]
    with _refusing(out):
        loaded = load(scenario)
        folder = prepare(Path(out), traces=traces, plots=plots) if out else None
        order = Order(
            loaded,
            sweeps=options["sweep"],
            seed=options["seed"],
            jobs=options["jobs"],
            folder=folder,
            traces=traces,
        )
        with StatusLine() as line:
            found = _perform(order, options, lambda done, total: line.show_text(f"{done} of {total} runs"))
    console = console_for(stderr=json_file == "-", wrapped=True)
    console.print(simulate_text(found, verbose=options["verbose"]), crop=False)
    made = provenance(command_line(without=OUTPUT_OPTIONS, flags=OUTPUT_FLAGS))
    result = {"provenance": to_json(made), **to_json(found)}
    if folder is not None:
        figures = _figures(result) if plots else {}
        with _refusing(out):
            written = write_out(folder, result, figures)
        console.print(f"written: {', '.join(written)}", soft_wrap=True)
    if json_file:
        write_json(result, json_file)
    return VERDICT_EXITS[found.verdict]


def finish_program(found: SimulateResult, json_file: str | None, *, verbose: bool) -> int:
    """Print the runs of a program, and write them."""
    console = console_for(stderr=json_file == "-", wrapped=True)
    console.print(simulate_text(found, verbose=verbose), crop=False)
    if json_file:
        made = provenance(command_line(without=OUTPUT_OPTIONS, flags=OUTPUT_FLAGS))
        write_json({"provenance": to_json(made), **to_json(found)}, json_file)
    return VERDICT_EXITS[found.verdict]


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


def _perform(order: Order, options: Mapping[str, Any], show: Callable[[int, int], object]) -> SimulateResult:
    if options["engine"] == "spark":
        from fencepost.sim.scenarios.running import perform_on_spark

        return perform_on_spark(order, options["master"], show)
    return perform(order, show)


def _refuse_contradictions(out: str | None, options: Mapping[str, Any]) -> None:
    on_spark = options["engine"] == "spark"
    if options["master"] is not None and not on_spark:
        raise BadRequest("--master belongs to --engine spark; give both, or neither")
    if options["jobs"] is not None and on_spark:
        raise BadRequest(
            "--jobs is for --engine local; Spark has its own number of tasks, as in --master local[4]"
        )
    if out is None and (options["no_traces"] or options["no_plots"]):
        raise BadRequest("--no-traces and --no-plots are about --out DIR; give it, or leave them out")


def _figures(result: dict[str, Any]) -> dict[str, bytes]:
    from fencepost.reports.simulation_plots import figures  # only here: it loads matplotlib

    return figures(result)


def _list() -> int:
    for name in shipped():
        sys.stdout.write(f"{name:24}  {load(name).title}\n")
    return Exit.HOLDS
