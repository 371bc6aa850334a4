"""`fencepost replay TRACES`: whether what happened in production is something the model allows."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.output_files import json_option, write_json
from fencepost.commands.refinements import find_refinement
from fencepost.commands.terminal import console as console_for
from fencepost.commands.terminal import verbose_option
from fencepost.results import ReplayResult, from_json, to_json
from fencepost.sim.systems import SYSTEMS

_EXAMPLE = next(iter(SYSTEMS))
EPILOG = f"""Exit codes: 0 every run is a behaviour of the model, 1 one is not, 2 the request made no sense,
3 not decided: a run that the trace does not tell enough of, or a file that cannot be read. Examples:
fencepost replay traces/ --model {_EXAMPLE};  fencepost replay logs/*.gz --from access-log --layout
{_EXAMPLE}."""

SOURCES = ("traces", "access-log")


@click.command("replay", short_help="Hold traces of real runs against a model.", epilog=EPILOG)
@click.argument("traces", nargs=-1, metavar="TRACES...")
@click.option(
    "--model", "model_name", metavar="MODEL", help="A model of --list, or path/to/file.py:Refinement."
)
@click.option("--set", "settings", metavar="NAME=N", multiple=True, help="Give a size of the model a value.")
@click.option("--from", "source", type=click.Choice(SOURCES), default="traces", show_default=True)
@click.option(
    "--layout", "layout_name", metavar="LAYOUT", help="Of an access log: a system of --list, or a TOML file."
)
@click.option(
    "--runs",
    "by",
    metavar="BY",
    default=None,
    help="Judged by itself: each run, process, prefix:N, identity, or what the groups of a pattern catch.",
)
@click.option("--engine", type=click.Choice(["local", "spark"]), default="local", show_default=True)
@click.option("--master", metavar="URL", help="Of the Spark cluster.  [default: all cores of this machine]")
@click.option(
    "--slots", type=click.IntRange(1, 16), default=8, show_default=True, help="Requests in flight at once."
)
@click.option(
    "--coverage", is_flag=True, help="Tell which share of the model's transitions was driven (explores it)."
)
@click.option("--gaps", is_flag=True, help="Show the model's way to every label that no run drove.")
@click.option("--out", metavar="DIR", help="Write verdicts (Parquet) and the summary (JSON) there.")
@verbose_option
@json_option
@click.option("--list", "listing", is_flag=True, help="List the models.")
def command(
    traces: tuple[str, ...],
    model_name: str | None,
    settings: tuple[str, ...],
    source: str,
    layout_name: str | None,
    by: str | None,
    engine: str,
    master: str | None,
    slots: int,
    coverage: bool,
    gaps: bool,
    out: str | None,
    verbose: bool,
    json_file: str | None,
    listing: bool,
) -> int:
    """Decide, run by run, whether TRACES (files, or folders of them: Parquet, JSON lines, gzip) are
    behaviours of the model, and where the first is not. With --from access-log, what S3 server access logs
    can show.
    """
    if listing:
        return _list()
    _refuse_contradictions(source, model_name, layout_name, settings, by, engine, master)
    if (coverage or gaps) and (source == "access-log" or engine == "spark"):
        raise BadRequest("--coverage and --gaps need traces and --engine local")
    if not traces:
        raise BadRequest(
            f"name the traces, as in: fencepost replay traces/ --model {_EXAMPLE}; --list lists models"
        )
    from fencepost.sim.spark import SparkAway
    from fencepost.sim.trace import TraceError

    with _folder(out) as folder:
        try:
            if source == "access-log":
                found = _access_log(traces, layout_name or "")
            else:
                refinement = find_refinement(model_name or "", settings)
                locally = partial(_locally, driven=coverage or gaps)
                replay = partial(_on_spark, master or "") if engine == "spark" else locally
                found = _replayed(traces, refinement, model_name or "", by, engine, slots, folder, replay)
        except (TraceError, SparkAway) as error:
            raise BadRequest(str(error)) from error
        result = _typed(found)
        if out:
            write_json(to_json(result), str(folder / "summary.json"))
    from fencepost.reports.replay_text import replay_text

    console_for(stderr=json_file == "-").print(replay_text(result, verbose=verbose, gaps=gaps))
    if json_file:
        write_json(to_json(result), json_file)
    return VERDICT_EXITS[result.verdict]


def _typed(found: dict[str, Any]) -> ReplayResult:
    covered = found.get("coverage")
    result: ReplayResult = from_json(
        ReplayResult, {**found, "undecided_runs": found["untold"], "coverage": covered or None}
    )
    return result


def _refuse_contradictions(
    source: str,
    model: str | None,
    layout: str | None,
    settings: tuple[str, ...],
    by: str | None,
    engine: str,
    master: str | None,
) -> None:
    if source == "access-log":
        if model is not None or settings or by is not None:
            raise BadRequest(
                "an access log tells too little for a model: leave out --model, --set and --runs, "
                "and give --layout"
            )
        if layout is None:
            raise BadRequest(
                f"--from access-log needs --layout: {', '.join(SYSTEMS)}, or a TOML file of your own"
            )
        if engine == "spark":
            raise BadRequest("--from access-log runs on --engine local only")
    elif layout is not None:
        raise BadRequest("--layout belongs to --from access-log")
    elif model is None:
        raise BadRequest(f"name the model, as in --model {_EXAMPLE}; known: {', '.join(SYSTEMS)}")
    if master is not None and engine != "spark":
        raise BadRequest("--master belongs to --engine spark")


@contextmanager
def _folder(out: str | None) -> Iterator[Path]:
    """Where files go: the folder that was named, or one for as long as this takes."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="fencepost-replay-") as name:
            yield Path(name)
        return
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"cannot make the folder {out}: {error.strerror}; give --out another") from error
    yield Path(out)


def _access_log(traces: tuple[str, ...], layout_name: str) -> dict[str, Any]:
    from fencepost.sim.replay.access_rules import layout, violations
    from fencepost.sim.replay.arrow import events
    from fencepost.sim.replay.parts import in_order
    from fencepost.sim.replay.statistics import statistics
    from fencepost.sim.trace import Problem, discover, read_access_log

    promised = layout(layout_name)
    problems: list[Problem] = []
    begun = perf_counter()
    table = read_access_log(discover(traces), problems.append)
    found = violations(table, promised)
    table = in_order(table)
    counted = statistics(events(table), table).as_json()
    seconds = perf_counter() - begun
    violated = [one for one in found if one.verdict == "violated"]
    undecided = len(found) - len(violated) or len(problems)
    return {
        "model": layout_name,
        "engine": "local",
        "source": "access-log",
        "verdict": "violated" if violated else "undecided" if undecided else "holds",
        "runs": len(table["run"].unique()),
        "events": len(table) // 2,
        "accepted": 0,
        "rejected": len(violated),
        "undecided": len(found) - len(violated),
        "seconds": seconds,
        "events_per_second": round(len(table) / 2 / max(seconds, 1e-9)),
        "violations": [one.as_json() for one in violated],
        "untold": [one.as_json() for one in found if one.verdict != "violated"],
        "problems": [str(problem) for problem in problems],
        "statistics": counted,
    }


def _replayed(
    traces: tuple[str, ...],
    refinement: partial[Any],
    model: str,
    by: str | None,
    engine: str,
    slots: int,
    folder: Path,
    replay: Callable[..., tuple[Any, float]],
) -> dict[str, Any]:
    from fencepost.sim.trace import discover
    from fencepost.sim.trace.grouping import find_grouping

    files = discover(traces)
    grouping = find_grouping(by, getattr(refinement.func, "runs", "run"))
    begun = perf_counter()
    outcome, started = replay(files, refinement, grouping, slots, folder)
    seconds = perf_counter() - begun - started
    return {
        "model": model,
        "engine": engine,
        "source": "traces",
        "grouped_by": getattr(grouping, "name", grouping),
        "started_seconds": started,
    } | (outcome.as_json(seconds))


def _locally(
    files: list[Path],
    refinement: Callable[[], Any],
    by: Any,
    slots: int,
    folder: Path,
    *,
    driven: bool = False,
) -> tuple[Any, float]:
    from fencepost.properties.refinement import Automaton
    from fencepost.sim.replay.coverage import DrivenTransitions
    from fencepost.sim.replay.judging import Judge
    from fencepost.sim.replay.local import Outcome, replay
    from fencepost.sim.replay.parts import plan
    from fencepost.sim.trace import Problem

    problems: list[Problem] = []
    show = _progress()
    with tempfile.TemporaryDirectory(prefix="fencepost-parts-", dir=folder) as parts:
        found = plan(files, by, Path(parts), problems.append)

        def told(at: Outcome) -> None:
            show(f"{at.events:,} of {found.events:,} events, {at.runs:,} runs, {at.rejected:,} rejected")

        judge = Judge(Automaton(refinement(), slots=slots), whole=by == "run")
        if driven:
            judge.driven = DrivenTransitions(judge.automaton, _modelled(judge.automaton.refinement))
        outcome = replay(judge, found.parts, verdicts=folder / "verdicts.parquet", progress=told)
    show("")
    outcome.problems = problems + outcome.problems
    outcome.left_out += found.left_out
    return outcome, 0.0


def _modelled(refinement: Any) -> Any:
    """The map by which transitions are counted."""
    found = refinement.modelled()
    if found is None:
        raise BadRequest(
            "--coverage needs a model whose states are its own: this map is eager or forgets fields; let its "
            "modelled() answer a map that does not"
        )
    return found


def _on_spark(
    master: str, files: list[Path], refinement: Callable[[], Any], by: Any, slots: int, folder: Path
) -> tuple[Any, float]:
    from fencepost.sim.replay.spark import Recipe, replay
    from fencepost.sim.spark import start

    begun = perf_counter()
    with start(master, name="fencepost replay") as session:
        started = perf_counter() - begun
        recipe = Recipe(refinement, slots, counted=True, whole=by == "run", token=f"{by} {begun}")
        return replay(session, recipe, files, by, folder / "verdicts.parquet"), started


def _progress() -> Callable[[str], None]:
    """A line that is written over, on a terminal; nothing elsewhere."""
    if not sys.stderr.isatty():
        return lambda _: None

    def show(text: str) -> None:
        click.echo(f"\r\x1b[2K{text}", err=True, nl=False)

    return show


def _list() -> int:
    for name, system in SYSTEMS.items():
        click.echo(f"{name}  {system.run_is}")
    return Exit.HOLDS
