"""`holdfast check MODEL`: explore every reachable state of a model and decide its properties."""

import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import click
from rich.console import Console
from rich.progress import Progress as ProgressLine
from rich.progress import SpinnerColumn, TextColumn

from holdfast.commands.ending import VERDICT_EXITS, BadRequest, Exit
from holdfast.commands.engines import explorer, refuse_contradictions
from holdfast.commands.models import SHIPPED, complete_model, find_machine
from holdfast.commands.provenance import write_result
from holdfast.commands.terminal import console as console_for
from holdfast.model import Model, ModelError, Progress, check, reachable_graph, walk
from holdfast.reports.check_text import check_text, verdict_line
from holdfast.reports.quantities import amount, byte_size, parse_bytes

EPILOG = """Exit codes: 0 holds, 1 violated, 2 the request made no sense, 3 a bound was hit before all was
decided. Examples: holdfast check two-phase --set managers=5;  holdfast check two-phase --without
all-prepared;  holdfast check my_protocol.py:Ledger --explore."""


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
@click.option("--json", "json_file", metavar="FILE", help="Write the result as JSON; - is standard output.")
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
    """Explore every reachable state of MODEL and decide every property, with the shortest story of each
    violation. MODEL is one of --list, or a machine of your own: path/to/file.py:Machine.
    """
    if listing:
        return _list()
    if model_name is None:
        raise BadRequest("name the model to check, as in: holdfast check two-phase; --list lists them")
    _refuse_contradictions(
        {"--walks": walks, "--steps": steps, "--seed": seed},
        {"--symmetry": symmetry, "--max-states": max_states},
        {"--explore": stepping, "--json": json_file},
    )
    refuse_contradictions(engine, master, work, {"--walks": walks, "--explore": stepping, "--memory": memory})
    limit = _memory(memory)
    try:
        model = Model(find_machine(model_name), _sizes(settings), without=without)
        if stepping:
            from holdfast.commands.stepper import walk_by_hand

            return walk_by_hand(model)
        console = console_for(stderr=json_file == "-")
        with (
            explorer(engine, master, work) as explore,
            _Line(console) as line,
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
    except ModelError as wrong:
        raise BadRequest(str(wrong)) from wrong
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
        found = _strictly(found)
    console.print(check_text(found))
    console.print(verdict_line(found, again))
    if json_file:
        write_result({**found, **_drawn(model, result.distinct)}, json_file)
    return VERDICT_EXITS[found["verdict"]]


@contextlib.contextmanager
def _told_when_stopped(
    model: Model, line: "_Line", console: Console, json_file: str | None, keep_going: bool
) -> Iterator[None]:
    """Ctrl-C ends a search; how far it had come is still worth knowing."""
    try:
        yield
    except KeyboardInterrupt:
        found = _stopped_result(model, line.last, keep_going)
        line.__exit__()
        console.print(check_text(found))
        if json_file:
            write_result(found, json_file)
        raise


def _stopped_result(model: Model, at: Progress, keep_going: bool) -> dict[str, Any]:
    """What is known of an exploration that was stopped: its extent, and that nothing was violated there,
    for the search ends at the first violation, unless it is to keep going."""
    reason = "interrupted" if keep_going else f"interrupted; not violated up to depth {max(0, at.depth - 1)}"
    return {
        "model": model.name,
        "parameters": dict(model.sizes),
        "without": sorted(model.without),
        "verdict": "undecided",
        "distinct": at.distinct,
        "generated": at.generated,
        "depth": at.depth,
        "seconds": at.seconds,
        "peak_bytes": at.held_bytes,
        "properties": [
            {
                "name": wanted.name,
                "kind": wanted.kind,
                "verdict": "undecided",
                "trace": [],
                "doc": wanted.doc,
                "reason": reason if wanted.kind in ("invariant", "step") else "interrupted",
            }
            for wanted in model.properties
        ],
        "coverage": {},
        "stopped_by": "an interruption",
        "notes": [],
    }


DRAWN_STATES = 60
"""More than this, and a picture of the states is a ball of wool."""


def _drawn(model: Model, distinct: int) -> dict[str, Any]:
    """The whole state graph of a small model, for a picture of it."""
    if distinct > DRAWN_STATES:
        return {}
    try:
        graph = reachable_graph(model, max_states=DRAWN_STATES).to_networkx()
    except ModelError:
        return {}  # it was not explored to the end, and is not small after all
    return {
        "graph": {
            "states": [
                {"text": text, "initial": graph.nodes[node]["initial"]}
                for node, text in graph.nodes(data="text")
            ],
            "steps": [[source, target, label] for source, target, label in graph.edges(data="label")],
        }
    }


def _memory(text: str | None) -> int | None:
    try:
        return parse_bytes(text) if text is not None else None
    except ValueError as wrong:
        raise BadRequest(f"--memory {wrong}") from None


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


def _sizes(settings: tuple[str, ...]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise BadRequest(f"--set {setting} must read SIZE=N, as in --set managers=5")
        if name in sizes:
            raise BadRequest(f"--set gives {name} twice")
        try:
            sizes[name] = int(value)
        except ValueError:
            raise BadRequest(f"--set {setting}: {value!r} is not a whole number") from None
    return sizes


def _strictly(found: dict[str, Any]) -> dict[str, Any]:
    """The result under --strict: an action that never fired is a violated property of its own."""
    never = [action for action, count in found["coverage"].items() if count == 0]
    rows = [
        {
            "name": f"{action}-fires",
            "kind": "coverage",
            "verdict": "violated",
            "trace": [],
            "doc": "Under --strict, every action must fire somewhere.",
            "reason": "no reachable state enables it",
        }
        for action in never
    ]
    return {**found, "verdict": "violated", "properties": [*found["properties"], *rows]}


def _again(
    name: str,
    lists: Mapping[str, tuple[str, ...]],
    values: Mapping[str, object],
    flags: Mapping[str, bool],
) -> str:
    """The command that shows the same again."""
    words = ["holdfast", "check", name]
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


class _Line:
    """One line that says how far the search has come, on a terminal only."""

    def __init__(self, console: Console) -> None:
        self._line = ProgressLine(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not (console.is_terminal and sys.stderr.isatty()),
        )
        self._task = self._line.add_task("exploring")
        self.last = Progress(0, 0, 0, 0, 0.0, 0)

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._line.stop()

    def show(self, at: Progress) -> None:
        self.last = at
        rate = at.distinct / at.seconds if at.seconds else 0
        self._line.update(
            self._task,
            description=f"depth {at.depth}, frontier {amount(at.frontier)}, distinct {amount(at.distinct)}, "
            f"generated {amount(at.generated)}, {amount(round(rate))}/s, {byte_size(at.held_bytes)}",
        )
