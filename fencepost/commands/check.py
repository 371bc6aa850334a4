"""`fencepost check MODEL`: explore every reachable state of a model and decide its properties."""

import contextlib
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import Console

from fencepost.commands.check_line import Line
from fencepost.commands.check_result import drawn, stopped_result, strictly
from fencepost.commands.engines import explorer, refuse_contradictions
from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.models import SHIPPED, complete_model, find_machine
from fencepost.commands.output_files import TARGET, write_result
from fencepost.commands.set_option import numbers
from fencepost.commands.terminal import console as console_for
from fencepost.model import Model, ModelError, check, walk
from fencepost.reports.check_text import check_text, verdict_line
from fencepost.reports.quantities import parse_bytes

EPILOG = """Exit codes: 0 holds, 1 violated, 2 the request made no sense, 3 a bound was hit before all was
decided. Examples: fencepost check two-phase --set managers=5;  fencepost check two-phase --without
all-prepared;  fencepost check my_protocol.py:Ledger --explore."""


@click.command("check", short_help="Explore every reachable state of a model.", epilog=EPILOG)
@click.argument("model_name", metavar="MODEL", required=False, shell_complete=complete_model)
@click.option("--set", "settings", metavar="SIZE=N", multiple=True, help="Give a size of the model a value.")
@click.option("--without", metavar="NAME", multiple=True, help="Switch a safeguard or an assumption off.")
@click.option("--symmetry", is_flag=True, help="Take states for one that differ by interchangeable parts.")
@click.option("--max-states", type=click.IntRange(1), metavar="N", help="Stop after N distinct states.")
@click.option(
    "--memory", metavar="SIZE", help="Memory to use at most, as 500M or 4G; what is over goes to disk."
)
@click.option("--keep-going", is_flag=True, help="Look for every violation, not only the nearest.")
@click.option(
    "--walks", type=click.IntRange(1), metavar="N", help="N random walks, where a space is too large."
)
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Of each random walk.  [default: 100]")
@click.option("--seed", type=click.IntRange(0), help="Of the random walks.  [default: 0]")
@click.option("--strict", is_flag=True, help="An action that never fired is a violation.")
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True)
@click.option("--master", metavar="URL", help="Of the Spark cluster.  [default: all cores of this machine]")
@click.option("--work", metavar="DIR", help="Where Spark keeps levels: a folder that all its workers see.")
@click.option("--explore", "stepping", is_flag=True, help="Walk the model by hand in the terminal.")
@click.option(
    "--json", "json_file", type=TARGET, metavar="FILE", help="Write the result as JSON; - is standard output."
)
@click.option("--list", "listing", is_flag=True, help="List the models and end.")
def command(
    model_name: str | None,
    settings: tuple[str, ...],
    without: tuple[str, ...],
    symmetry: bool,
    max_states: int | None,
    memory: str | None,
    keep_going: bool,
    walks: int | None,
    steps: int | None,
    seed: int | None,
    strict: bool,
    engine: str,
    master: str | None,
    work: str | None,
    stepping: bool,
    json_file: str | None,
    listing: bool,
) -> int:
    """Explore every reachable state of MODEL and decide every property, with the shortest counterexample of
    each
    violation. MODEL is one of --list, or a machine of your own: path/to/file.py:Machine.
    """
    if listing:
        return _list()
    if model_name is None:
        raise BadRequest("name the model to check, as in: fencepost check two-phase; --list lists them")
    _refuse_contradictions(
        {"--walks": walks, "--steps": steps, "--seed": seed},
        {"--symmetry": symmetry, "--max-states": max_states},
        {"--explore": stepping, "--json": json_file},
    )
    refuse_contradictions(engine, master, work, {"--walks": walks, "--explore": stepping, "--memory": memory})
    limit = _memory(memory)
    try:
        model = Model(
            find_machine(model_name), numbers(settings, "SIZE=N, as in --set managers=5"), without=without
        )
        if stepping:
            from fencepost.commands.stepper import walk_by_hand

            return walk_by_hand(model)
        console = console_for(stderr=json_file == "-")
        with (
            explorer(engine, master, work) as explore,
            Line(console) as line,
            _told_when_stopped(model, line, console, json_file, keep_going),
        ):
            if walks is not None:
                result = walk(
                    model,
                    walks=walks,
                    steps=steps or 100,
                    seed=seed or 0,
                    memory=limit,
                    keep_going=keep_going,
                    progress=line.show,
                )
            else:
                result = check(
                    model,
                    symmetry=symmetry,
                    max_states=max_states,
                    memory=limit,
                    keep_going=keep_going,
                    spill=Path(tempfile.gettempdir()) if limit else None,
                    progress=line.show,
                    explore=explore,
                )
    except ModelError as error:
        raise BadRequest(str(error)) from error
    again = _again(
        model_name,
        {"--set": settings, "--without": without},
        {
            "--walks": walks,
            "--steps": steps,
            "--seed": seed,
            "--max-states": max_states,
            "--memory": memory,
            "--engine": engine if engine != "local" else None,
            "--master": master,
            "--work": work,
        },
        {"--symmetry": symmetry, "--keep-going": keep_going, "--strict": strict},
    )
    found = result.as_json()
    if strict and result.never_fired and not result.stopped_by:
        found = strictly(found)
    console.print(check_text(found))
    console.print(verdict_line(found, again))
    if json_file:
        write_result({**found, **drawn(model, result.distinct)}, json_file)
    return VERDICT_EXITS[found["verdict"]]


@contextlib.contextmanager
def _told_when_stopped(
    model: Model, line: Line, console: Console, json_file: str | None, keep_going: bool
) -> Iterator[None]:
    """Ctrl-C ends a search; how far it had come is still worth knowing."""
    try:
        yield
    except KeyboardInterrupt:
        found = stopped_result(model, line.last, keep_going)
        line.__exit__()
        console.print(check_text(found))
        if json_file:
            write_result(found, json_file)
        raise


def _memory(text: str | None) -> int | None:
    try:
        return parse_bytes(text) if text is not None else None
    except ValueError as error:
        raise BadRequest(f"--memory {error}") from None


def _refuse_contradictions(
    walking: Mapping[str, object], exploring: Mapping[str, object], ending: Mapping[str, object]
) -> None:
    walks = walking["--walks"] is not None
    for name, value in walking.items():
        if value is not None and not walks:
            raise BadRequest(f"{name} belongs to random walks; give --walks N with it")
    for name, value in exploring.items():
        if value and walks:
            raise BadRequest(f"{name} belongs to the full exploration; leave out either it or --walks")
    if ending["--explore"] and (ending["--json"] or walks):
        raise BadRequest("--explore is for a person at a terminal; leave out --json and --walks")


def _again(
    name: str,
    lists: Mapping[str, tuple[str, ...]],
    values: Mapping[str, object],
    flags: Mapping[str, bool],
) -> str:
    """The command that shows the same again."""
    words = ["fencepost", "check", name]
    for option, given in lists.items():
        for value in given:
            words += [option, value]
    for option, value in values.items():
        words += [option, str(value)] if value is not None else []
    words += [option for option, given in flags.items() if given]
    return shlex.join(words)


def _list() -> int:
    console = console_for(stderr=False)
    for name in SHIPPED:
        machine = find_machine(name)
        summary = (machine.__doc__ or "").strip().split("\n")[0]
        console.print(f"[bold]{name}[/]  {summary}")
        model = Model(machine)
        console.print(
            f"  sizes: {', '.join(f'{size}={value}' for size, value in model.sizes.items()) or 'none'}"
        )
        for what in ("safeguards", "assumptions"):
            for switch, doc in getattr(machine, what).items():
                console.print(f"  {what[:-1]} {switch}: {doc}")
    return Exit.HOLDS
