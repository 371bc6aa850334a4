"""`fencepost check MODEL`: explore every reachable state of a model and decide its properties."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.models import SHIPPED, complete_model, complete_without, find_machine
from fencepost.commands.output_files import json_option
from fencepost.commands.provenance import command_line
from fencepost.commands.terminal import StatusLine, console, engine_option, finish, verbose_option
from fencepost.commands.values import numbers
from fencepost.commands.watching import watch_option
from fencepost.model import Model, ModelError, Progress, check, least_memory, reachable_graph, walk
from fencepost.reports.check_text import check_text
from fencepost.reports.sizes import byte_size, parse_bytes
from fencepost.reports.text import amount
from fencepost.results import CheckResult, GraphState, PropertyResult, StateGraph

EPILOG = """Exit codes: 0 holds, 1 violated, 2 the request made no sense, 3 a bound was hit before all was
decided. Examples: fencepost check two-phase --set managers=5;  fencepost check two-phase --without
all-prepared;  fencepost check my_protocol.py:Ledger --explore."""
_MUCH = 1 << 25
"""Bytes of a search from which the memory of the whole process is printed beside its own."""
GRAPH_STATES = 60
"""A picture of more states than this cannot be read."""
SPARK_ONLY = ("master", "work")
LOCAL_ONLY = ("walks", "stepping", "memory", "resume")
WALKS_ONLY = ("steps", "seed")
SEARCH_ONLY = ("symmetry", "exact", "max_states", "no_deadlock", "resume")
NAMES = {
    "stepping": "--explore",
    "max_states": "--max-states",
    "no_deadlock": "--no-deadlock",
    "keep_going": "--keep-going",
}
COMPILED = {"numpy": False, "compiled": True}


@click.command("check", short_help="Explore every reachable state of a model.", epilog=EPILOG)
@click.argument("model_name", metavar="MODEL", required=False, shell_complete=complete_model)
@click.option("--set", "settings", metavar="NAME=N", multiple=True, help="Set a size of the model.")
@click.option(
    "--without",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_without,
    help="Switch a safeguard or an assumption off.",
)
@click.option("--symmetry", is_flag=True, help="Merge states that differ by interchangeable parts.")
@click.option("--exact", is_flag=True, help="Compare wide states in full instead of by a fingerprint.")
@click.option("--max-states", type=click.IntRange(1), metavar="N", help="Stop after N distinct states.")
@click.option("--memory", metavar="SIZE", help="Memory of the process, as 500M or 4G; the rest goes to disk.")
@click.option(
    "--resume", metavar="DIR", help="Record the search in DIR, or continue the one that is recorded there."
)
@click.option("--keep-going", is_flag=True, help="Find every violation, not only the nearest.")
@click.option("--no-deadlock", is_flag=True, help="Do not look for states where nothing can happen.")
@click.option("--walks", type=click.IntRange(1), metavar="N", help="Take N random walks instead of a search.")
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Steps per random walk.  [default: 100]")
@click.option("--seed", type=click.IntRange(0), help="Seed of the random walks.  [default: 0]")
@click.option("--strict", is_flag=True, help="Treat an action that never fires as a violation.")
@engine_option("How the search runs; local: by NumPy, then by C if that takes long.", *COMPILED)
@click.option("--master", metavar="URL", help="Spark cluster.  [default: all cores of this machine]")
@click.option("--work", metavar="DIR", help="Folder for Spark's levels, visible to all its workers.")
@watch_option
@click.option("--explore", "stepping", is_flag=True, help="Walk the model by hand in the terminal.")
@verbose_option
@json_option
@click.option("--list", "listing", is_flag=True, help="List the models.")
def command(listing: bool, **options: Any) -> int:
    """Explore every reachable state of MODEL and decide every property, with the shortest counterexample of
    each violation. MODEL is one of --list, or a machine of your own: path/to/file.py:Machine.
    """
    if listing:
        return _list()
    if options["model_name"] is None:
        raise BadRequest("name the model to check, as in: fencepost check two-phase; --list lists them")
    _refuse_contradictions(options)
    sizes = numbers(options["settings"], "NAME=N, as in --set managers=5")
    try:
        model = Model(find_machine(options["model_name"]), sizes, without=options["without"])
        if options["stepping"]:
            from fencepost.commands.check_by_hand import walk_by_hand

            return walk_by_hand(model)
        result, interrupted = _run(model, options, _memory(model, options))
    except ModelError as error:
        raise BadRequest(str(error)) from error
    again = command_line(without=("--json",), flags=("-v", "--verbose"))
    text = check_text(result, again, verbose=options["verbose"])
    if options["json_file"] and not interrupted:
        result = replace(result, graph=_graph(model, result))
    code = finish(result, text, options["json_file"], crop=False)
    if interrupted:
        raise KeyboardInterrupt
    return code


def _run(model: Model, options: dict[str, Any], limit: int | None) -> tuple[CheckResult, bool]:
    """The result, and whether Ctrl-C ended the search: how far it came is still worth knowing."""
    shared = {"memory": limit, "keep_going": options["keep_going"]}
    with _explorer(options) as explore, _Line() as line:
        try:
            if options["walks"] is not None:
                result = walk(
                    model,
                    walks=options["walks"],
                    steps=options["steps"] or 100,
                    seed=options["seed"] or 0,
                    progress=line.show,
                    **shared,
                )
            else:
                result = check(
                    model,
                    symmetry=options["symmetry"],
                    exact=options["exact"],
                    deadlock=not options["no_deadlock"],
                    max_states=options["max_states"],
                    spill=Path(tempfile.gettempdir()) if limit else None,
                    resume=Path(options["resume"]) if options["resume"] else None,
                    progress=line.show,
                    explore=explore,
                    compiled=COMPILED.get(options["engine"]),
                    **shared,
                )
        except KeyboardInterrupt:
            return _stopped(model, line.last, options), True
    if limit is not None or result.peak_bytes >= _MUCH:
        result = replace(
            result, notes=(*result.notes, f"the process held at most {byte_size(_resident_at_most())}")
        )
    return (_strict(model, result) if options["strict"] and not result.stopped_by else result), False


def _stopped(model: Model, at: Progress, options: dict[str, Any]) -> CheckResult:
    """Return the result of an interrupted search: its extent, with every property undecided.

    Without --keep-going a search ends at the first violation, so nothing was violated up to this depth.
    """
    reason = (
        "interrupted"
        if options["keep_going"]
        else f"interrupted; not violated up to depth {max(0, at.depth - 1)}"
    )
    properties = tuple(
        PropertyResult(
            row.name,
            row.kind.name,
            "undecided",
            doc=row.doc,
            reason=reason if row.kind.is_safe_so_far else "interrupted",
        )
        for row in model.properties
    )
    return CheckResult(
        model=model.name,
        parameters=dict(model.sizes),
        without=tuple(sorted(model.without)),
        verdict="undecided",
        distinct=at.distinct,
        generated=at.generated,
        depth=at.depth,
        seconds=at.seconds,
        peak_bytes=at.held_bytes,
        properties=properties,
        coverage={},
        stopped_by="an interruption",
        notes=("the same command continues it",) if options["resume"] else (),
    )


def _strict(model: Model, result: CheckResult) -> CheckResult:
    """The result under --strict: an action that never fired is a violated property of its own.

    An action in the machine's `fires_at` has to fire where the machine says that it does.
    """
    rows = tuple(
        PropertyResult(
            f"{action}-fires",
            "coverage",
            "violated",
            doc="Under --strict, every action must fire somewhere.",
            reason="no reachable state enables it",
        )
        for action, count in result.coverage.items()
        if count == 0 and model.must_fire(action)
    )
    return replace(result, verdict="violated", properties=result.properties + rows) if rows else result


def _graph(model: Model, result: CheckResult) -> StateGraph | None:
    """The whole state graph of a small model, for a picture of it."""
    if result.distinct > GRAPH_STATES:
        return None
    try:
        graph = reachable_graph(model, max_states=GRAPH_STATES).to_networkx()
    except ModelError:
        return None  # it was not explored to the end, and is not small after all
    return StateGraph(
        tuple(GraphState(text, graph.nodes[node]["initial"]) for node, text in graph.nodes(data="text")),
        tuple(graph.edges(data="label")),
    )


class _Line(StatusLine):
    """Depth, states and rate of the search."""

    last = Progress(0, 0, 0, 0, 0.0, 0)

    def show(self, at: Progress) -> None:
        self.last = at
        rate = at.distinct / at.seconds if at.seconds else 0
        self.show_text(
            f"depth {at.depth}, frontier {amount(at.frontier)}, distinct {amount(at.distinct)}, "
            f"generated {amount(at.generated)}, {amount(round(rate))}/s, {byte_size(at.held_bytes)}"
        )


def _memory(model: Model, options: dict[str, Any]) -> int | None:
    """Return the bytes that the search may use of --memory; raise BadRequest if they cannot suffice."""
    try:
        limit = parse_bytes(options["memory"]) if options["memory"] is not None else None
    except ValueError as error:
        raise BadRequest(f"--memory {error}") from None
    if limit is None or options["walks"] is not None:
        return limit
    own = _resident()
    smallest = own + least_memory(model)
    if limit < smallest:
        raise BadRequest(
            f"--memory {options['memory']} cannot be kept: the smallest limit for this model is "
            f"{-(-smallest // (1 << 20)) + 1}M, of which {own >> 20}M are Python and its libraries"
        )
    return limit - own


def _resident() -> int:
    """The bytes of memory that this process holds now; the most so far where the system gives no more."""
    return _status("VmRSS:") or _resident_at_most()


def _status(name: str) -> int | None:
    """A line of this process's status on Linux, in bytes."""
    with contextlib.suppress(OSError, IndexError):
        return int(Path("/proc/self/status").read_text().split(name)[1].split()[0]) << 10
    return None


def _resident_at_most() -> int:
    if (most := _status("VmHWM:")) is not None:
        return most  # `getrusage` has also what the process held that started this one
    import resource  # not on every system

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def _refuse_contradictions(options: dict[str, Any]) -> None:
    def given(*names: str) -> list[str]:
        return [NAMES.get(name, f"--{name}") for name in names if options[name] not in (None, False)]

    walks = options["walks"] is not None
    for option in given(*WALKS_ONLY) if not walks else ():
        raise BadRequest(f"{option} belongs to random walks; give --walks N with it")
    for option in given(*SEARCH_ONLY) if walks else ():
        raise BadRequest(f"{option} belongs to the full exploration; leave out either it or --walks")
    if options["stepping"] and (options["json_file"] or walks):
        raise BadRequest("--explore is for a person at a terminal; leave out --json and --walks")
    for option in given(*SEARCH_ONLY, "memory", "keep_going", "strict") if options["stepping"] else ():
        raise BadRequest(f"{option} belongs to the full exploration; leave out either it or --explore")
    for option in given(*SPARK_ONLY) if options["engine"] != "spark" else ():
        raise BadRequest(f"{option} belongs to --engine spark")
    for option in given(*LOCAL_ONLY) if options["engine"] == "spark" else ():
        raise BadRequest(f"{option} does not run on --engine spark")
    for option in given("walks", "stepping") if options["engine"] == "compiled" else ():
        raise BadRequest(f"{option} does not run on --engine compiled, which is for the full exploration")


@contextlib.contextmanager
def _explorer(options: dict[str, Any]) -> Iterator[Callable[..., Any] | None]:
    """The search engine for `check`; None for its own. Spark is imported only on request."""
    if options["engine"] != "spark":
        yield None
        return
    from fencepost.sim.spark import SparkAway, SparkEngine, start

    work = options["work"]
    if work is not None and not Path(work).is_dir():
        raise BadRequest(f"--work {work} is no folder; give one that the driver and all workers see")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="fencepost-levels-", dir=work) as folder,
            start(options["master"] or "", name="fencepost check") as session,
        ):
            yield SparkEngine(session, Path(folder))
    except SparkAway as error:
        raise BadRequest(str(error)) from error


def _list() -> int:
    page = console(stderr=False)
    for name in SHIPPED:
        machine = find_machine(name)
        summary = (machine.__doc__ or "").strip().split("\n")[0]
        page.print(Text.assemble((name, "bold"), f"  {summary}"))
        sizes = ", ".join(f"{size}={value}" for size, value in Model(machine).sizes.items())
        page.print(f"  sizes: {sizes or 'none'}")
        for what in ("safeguards", "assumptions"):
            for switch, doc in getattr(machine, what).items():
                page.print(f"  {what[:-1]} {switch}: {doc}")
    return Exit.HOLDS
