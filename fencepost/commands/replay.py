"""`fencepost replay TRACES`: whether what happened in production is something the model allows."""

import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.models import find_refinement
from fencepost.commands.output_files import json_option, write_json
from fencepost.commands.terminal import StatusLine, engine_option, finish, verbose_option
from fencepost.commands.values import FiniteNumber
from fencepost.reports.replay_text import replay_text
from fencepost.results import ReplayResult, to_json
from fencepost.sim.systems import SYSTEMS

if TYPE_CHECKING:
    from fencepost.sim.replay.continuity import Claims
    from fencepost.sim.replay.local import Outcome
    from fencepost.sim.trace import Problem

_EXAMPLE = next(iter(SYSTEMS))
EPILOG = f"""Continuity of every object is judged first, without a model: a stale read, a lost acknowledged
write, a wrong answer to a condition, a create over an object, a read of a deleted object or of another body.
It needs conditions, ETags and hashes in the trace; the report counts the requests that have them. A model
judges the protocol beside it, and --model may be left out.

Exit codes: 0 every object is continuous and every run is a behaviour of the model, 1 one is not, 2 the
request made no sense, 3 not decided: a run about which the trace has too little, or a file that cannot be
read. Examples: fencepost replay traces/;  fencepost replay traces/ --model {_EXAMPLE};  fencepost replay
logs/*.gz --from access-log --layout {_EXAMPLE}."""

SOURCES: dict[str, Callable[[Mapping[str, Any], Path], ReplayResult]] = {
    "traces": lambda options, folder: replay_traces(options, folder),
    "access-log": lambda options, _folder: replay_access_log(options),
    "access-json": lambda options, folder: replay_foreign(options, folder),
    "cloudtrail": lambda options, folder: replay_foreign(options, folder),
    "minio-audit": lambda options, folder: replay_foreign(options, folder),
    "otel": lambda options, folder: replay_foreign(options, folder),
}
"""The kinds of input, and the function that judges files of each. It takes the options of the command and a
folder for files; a kind that is another form of traces writes them there and calls `replay_traces`."""
_OPTIONS = {"settings": "set", "skew_s": "skew", "idle_s": "idle"}
"""The names of options that differ from their parameters."""
LOCATED_MAX = 20
"""Events whose places in the files are looked up, of each kind."""
SLOTS = 8
ROUND_S = 0.5
"""Seconds between two looks at a folder that grows, at least."""


@click.command("replay", short_help="Hold traces of real runs against a model.", epilog=EPILOG)
@click.argument("traces", nargs=-1, metavar="TRACES...")
@click.option("--model", metavar="MODEL", help="A model of --list, or path/to/file.py:Refinement.")
@click.option("--set", "settings", metavar="NAME=N", multiple=True, help="Set a size of the model.")
@click.option(
    "--from",
    "source",
    type=click.Choice(tuple(SOURCES)),
    default="traces",
    show_default=True,
    help="Kind of input.",
)
@click.option("--layout", metavar="LAYOUT", help="Keys of an access log: a system of --list, or a TOML file.")
@click.option(
    "--runs",
    metavar="BY",
    help="Unit that is judged: run, process, prefix:N, key:NAME, identity, or the groups of a pattern.",
)
@click.option(
    "--all-writers",
    is_flag=True,
    help="The trace has every write of its objects: an ETag that nothing wrote is a violation.",
)
@click.option("--starts-empty", is_flag=True, help="No object of a run existed before its first event.")
@click.option(
    "--promise",
    "promises",
    metavar="KIND=TARGET",
    multiple=True,
    help="Judge a ready promise, as `audit --promise` does: queue=jobs/.",
)
@engine_option("Where the runs are judged.")
@click.option("--master", metavar="URL", help="Spark cluster.  [default: all cores of this machine]")
@click.option(
    "--slots", type=click.IntRange(1, 16), metavar="N", help="Requests in flight at once.  [default: 8]"
)
@click.option(
    "--skew",
    "skew_s",
    type=FiniteNumber(0),
    metavar="SECONDS",
    help="Bound on the difference of clocks: what another order explains is undecided.",
)
@click.option("--coverage", is_flag=True, help="Explore the model, and show the share that was driven.")
@click.option("--gaps", is_flag=True, help="Show the model's way to every label that no run drove.")
@click.option("--explain-runs", is_flag=True, help="Show how keys group into runs, and what the map reads.")
@click.option(
    "--skeleton", metavar="MACHINE", help="Print a first map of these traces into path/to/file.py:Machine."
)
@click.option("--out", metavar="DIR", help="Write verdicts (Parquet) and the summary (JSON) there.")
@click.option(
    "--follow", is_flag=True, help="Judge what is appended too, until Ctrl-C; --out keeps what was read."
)
@click.option(
    "--idle",
    "idle_s",
    type=FiniteNumber(0),
    metavar="SECONDS",
    help="With --follow: end when nothing new came for so long.",
)
@verbose_option
@json_option
@click.option("--list", "listing", is_flag=True, help="List the models.")
def command(listing: bool, **options: Any) -> int:
    """Decide whether TRACES (files, or folders of them: Parquet, JSON lines, gzip; - is standard input) are
    of a store that loses and invents nothing and, run by run, are behaviours of a model; and where the first
    is not. With --from access-log, judge what S3 server access logs can show.
    """
    if listing:
        return _list()
    _refuse_contradictions(options)
    from fencepost.sim.spark import SparkAway
    from fencepost.sim.trace import TraceError

    if options["skeleton"]:
        return _print_skeleton(options)

    with _folder(options["out"]) as folder, _standard_input(options["traces"]) as options["traces"]:
        try:
            result = SOURCES[options["source"]](options, folder)
        except (TraceError, SparkAway) as error:
            raise BadRequest(str(error)) from error
        if options["out"]:
            from fencepost.sim.replay.tables import write_violations

            write_violations(result, folder / "violations.parquet")
            write_json(to_json(result), str(folder / "summary.json"))
    shown = {"verbose": options["verbose"], "gaps": options["gaps"]}
    text = replay_text(result, **shown, again=_again(result, options))
    return finish(result, text, options["json_file"])


def _again(result: ReplayResult, options: Mapping[str, Any]) -> str:
    """The command by which an audit follows what was recorded; empty where nothing was violated, or where an
    audit cannot follow it.
    """
    found = [(one.run, one.event) for one in result.violations if " note note " not in one.event]
    found += [(one.run, one.event) for one in result.promises if one.verdict == "violated"]
    if not found or options["source"] != "traces" or len(options["traces"]) != 1 or "-" in options["traces"]:
        return ""
    run, event = found[0]
    program = options["model"] if options["model"] in SYSTEMS else "FILE.py:FUNCTION"
    words = ["fencepost", "audit", program, "--like", options["traces"][0]]
    # The name of a run as recorded is that of a bucket; any other comes from its keys.
    if result.grouped_by not in ("run", "process") and run in event:
        words += ["--like-keys", re.escape(run)]
    return shlex.join(words)


def _refuse_contradictions(options: Mapping[str, Any]) -> None:
    if options["source"] == "access-log" or (options["source"] != "traces" and options["layout"]):
        _check_access_log(options)
    else:
        _check_traces(options)
    on_spark = options["engine"] == "spark"
    _check_follow(options)
    if options["master"] is not None and not on_spark:
        raise BadRequest("--master belongs to --engine spark")
    if (options["coverage"] or options["gaps"]) and (options["source"] == "access-log" or on_spark):
        raise BadRequest("--coverage and --gaps need traces and --engine local")
    if not options["traces"]:
        raise BadRequest(
            f"name the traces, as in: fencepost replay traces/ --model {_EXAMPLE}; --list lists models"
        )


def _check_follow(options: Mapping[str, Any]) -> None:
    if not options["follow"]:
        if options["idle_s"] is not None:
            raise BadRequest("--idle belongs to --follow")
        return
    if options["engine"] == "spark" or options["source"] != "traces":
        raise BadRequest("--follow needs traces and --engine local")
    for name in ("coverage", "gaps", "explain_runs", "promises"):
        if options[name]:
            raise BadRequest(f"--{name.replace('_', '-')} looks at a whole trace: leave out --follow")
    if "-" in options["traces"]:
        raise BadRequest("--follow reads files, not standard input")


def _check_traces(options: Mapping[str, Any]) -> None:
    if options["layout"] is not None:
        raise BadRequest("--layout belongs to logs: --from access-log, access-json, cloudtrail, ...")
    _checked_promises(options["promises"])
    if options["model"] is None:
        for name in ("settings", "slots", "skew_s", "coverage", "gaps"):
            if options[name]:
                raise BadRequest(
                    f"--{_OPTIONS.get(name, name)} needs a model, as in --model {_EXAMPLE}; known: "
                    f"{', '.join(SYSTEMS)}"
                )


def _check_access_log(options: Mapping[str, Any]) -> None:
    if options["model"] is not None or options["settings"] or options["runs"] is not None:
        raise BadRequest(
            "a layout is judged without a model: leave out --model, --set and --runs, or --layout"
        )
    if options["layout"] is None:
        known = ", ".join(SYSTEMS)
        raise BadRequest(f"--from access-log needs --layout: {known}, or a TOML file of your own")
    if options["engine"] == "spark":
        raise BadRequest(f"--from {options['source']} runs on --engine local only")
    if options["promises"]:
        raise BadRequest("--promise is for traces; a layout has promises of its own")
    if options["slots"] is not None:
        raise BadRequest("--slots is for traces; an access log has whole requests")
    if options["all_writers"] or options["starts_empty"]:
        raise BadRequest("--all-writers and --starts-empty are for traces; an access log has no ETags")


@contextmanager
def _standard_input(traces: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The traces with `-`, standard input, as a file: a trace is read more than once."""
    if "-" not in traces:
        yield traces
        return
    with tempfile.NamedTemporaryFile(prefix="fencepost-replay-") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        yield tuple(file.name if trace == "-" else trace for trace in traces)


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


def replay_foreign(options: Mapping[str, Any], folder: Path) -> ReplayResult:
    """Judge logs of others: by the promises of a layout, or as the traces that they can be."""
    from fencepost.sim.replay.access_rules import layout
    from fencepost.sim.trace import Problem, discover, write_parquet
    from fencepost.sim.trace.foreign import read_foreign

    problems: list[Problem] = []
    promised = layout(options["layout"]) if options["layout"] else None
    table = read_foreign(discover(options["traces"]), options["source"], problems.append)
    if promised is not None:
        return judge_by_layout(options, promised, table, problems)
    file = folder / f"{options['source']}.parquet"
    write_parquet(file, table)
    result = replay_traces({**options, "traces": (str(file),)}, folder)
    texts = tuple(str(problem) for problem in problems)
    open_ = result.verdict == "holds" and bool(texts)
    return replace(
        result,
        verdict="undecided" if open_ else result.verdict,
        problems=(*result.problems, *texts),
        damaged_lines=result.damaged_lines + sum(problem.lines for problem in problems),
    )


def replay_access_log(options: Mapping[str, Any]) -> ReplayResult:
    """Judge S3 server access logs by the promises of a layout."""
    from fencepost.sim.replay.access_rules import layout
    from fencepost.sim.trace import Problem, discover, read_access_log

    problems: list[Problem] = []
    promised = layout(options["layout"])
    table = read_access_log(discover(options["traces"]), problems.append)
    return judge_by_layout(options, promised, table, problems)


def judge_by_layout(
    options: Mapping[str, Any], promised: Any, table: Any, problems: "list[Problem]"
) -> ReplayResult:
    """Judge whole requests by the promises of a layout."""
    from fencepost.sim.replay.access_rules import NOT_JUDGED, violations
    from fencepost.sim.replay.parts import in_order
    from fencepost.sim.replay.statistics import statistics
    from fencepost.sim.trace.columns import events

    begun = perf_counter()
    found = violations(table, promised)
    table = in_order(table)
    counted = statistics(events(table), table).as_json()
    seconds = perf_counter() - begun
    violated, undecided = (
        tuple(one.listed() for one in found if (one.verdict == "violated") is expected)
        for expected in (True, False)
    )
    return ReplayResult(
        model=options["layout"],
        engine="local",
        source="access-log",
        verdict="violated" if violated else "undecided" if undecided or problems else "holds",
        runs=len(table["run"].unique()),
        events=len(table) // 2,
        accepted=0,
        rejected=len(violated),
        undecided=len(undecided),
        seconds=seconds,
        events_per_second=round(len(table) / 2 / max(seconds, 1e-9)),
        violations=violated,
        undecided_runs=undecided,
        problems=tuple(str(problem) for problem in problems),
        damaged_lines=sum(problem.lines for problem in problems),
        statistics=counted,
        not_judged=NOT_JUDGED,
    )


def replay_traces(options: Mapping[str, Any], folder: Path) -> ReplayResult:
    """Judge traces by continuity, and by the observed machine of a model; verdicts go to `folder`."""
    from fencepost.sim.trace import discover
    from fencepost.sim.trace.grouping import find_grouping

    model = options["model"]
    refinement = None if model is None else find_refinement(model, options["settings"])
    files = [] if options["follow"] else discover(options["traces"])
    declared = refinement and refinement.func
    explained: Mapping[str, Any] = {}
    grouping = find_grouping(options["runs"], getattr(declared, "runs", "run"), getattr(declared, "keys", ()))
    if options["explain_runs"]:
        explained = _explain(files, grouping, None if refinement is None else refinement())
    replay = _on_spark if options["engine"] == "spark" else _following if options["follow"] else _locally
    begun = perf_counter()
    outcome, started = replay(options, files, refinement, grouping, folder)
    seconds = perf_counter() - begun - started
    result = outcome.result(
        model or "",
        options["engine"],
        seconds,
        grouped_by=str(getattr(grouping, "name", grouping)),
        started_seconds=started,
    )
    result = replace(_judged_by(result), explained_runs=explained)
    if options["promises"]:
        result = _with_promises(result, files, options["promises"])
    if options["follow"]:
        files = [place for place in discover(options["traces"]) if place.exists()] if result.runs else []
    return _located(result, files, as_recorded=grouping == "run")


def _with_promises(result: ReplayResult, files: list[Path], promises: "tuple[str, ...]") -> ReplayResult:
    """The result with the verdicts on promises, which are judged run by run as recorded."""
    from fencepost.sim.replay.promised import judge_promises

    found = judge_promises(files, promises, lambda _: None)
    verdicts = {one.verdict for one in found}
    verdict = result.verdict
    if "violated" in verdicts:
        verdict = "violated"
    elif "undecided" in verdicts and verdict == "holds":
        verdict = "undecided"
    return replace(result, promises=tuple(found), verdict=verdict)


def _checked_promises(promises: "tuple[str, ...]") -> None:
    from fencepost.properties.promises import BadPromise, promised

    try:
        promised(promises)
    except BadPromise as error:
        raise BadRequest(f"--promise {error}") from error


def _judged_by(result: ReplayResult) -> ReplayResult:
    """Add the machine that judges the runs of a system, and the properties of the model that it states."""
    system = SYSTEMS.get(result.model)
    if system is None or not system.observed:
        return result
    stated, others = system.judged_properties()
    judge = f"{result.model}-observed"
    return replace(result, judged_by=judge, properties=tuple(stated), properties_not_judged=tuple(others))


def _located(result: ReplayResult, files: list[Path], *, as_recorded: bool) -> ReplayResult:
    """The result with the places of the events that it lists first."""
    from fencepost.sim.replay.places import located

    rows = (*result.violations[:LOCATED_MAX], *result.undecided_runs[:LOCATED_MAX])
    count = min(len(result.violations), LOCATED_MAX)
    found = located(rows, files, as_recorded=as_recorded)
    continuous = result.continuity
    if continuous is not None:
        first = located(continuous.findings[:LOCATED_MAX], files, as_recorded=as_recorded)
        continuous = replace(continuous, findings=(*first, *continuous.findings[LOCATED_MAX:]))
    return replace(
        result,
        continuity=continuous,
        violations=(*found[:count], *result.violations[count:]),
        undecided_runs=(*found[count:], *result.undecided_runs[LOCATED_MAX:]),
    )


def _locally(
    options: Mapping[str, Any], files: list[Path], refinement: Any, by: Any, folder: Path
) -> "tuple[Outcome, float]":
    from fencepost.properties.refinement import Automaton
    from fencepost.sim.replay.coverage import DrivenTransitions
    from fencepost.sim.replay.judging import Judge, NoModel
    from fencepost.sim.replay.local import Outcome, replay
    from fencepost.sim.replay.parts import plan
    from fencepost.sim.trace import Problem

    problems: list[Problem] = []
    with tempfile.TemporaryDirectory(prefix="fencepost-parts-", dir=folder) as parts, StatusLine() as line:
        found = plan(files, by, Path(parts), problems.append)

        def show(at: Outcome) -> None:
            runs = f"{at.runs:,} runs, {at.rejected:,} rejected"
            line.show_text(f"{at.events:,} of {found.events:,} events, {runs}")

        judge: Judge | NoModel = NoModel(whole=by == "run")
        if refinement is not None:
            judge = Judge(Automaton(refinement(), slots=options["slots"] or SLOTS), whole=by == "run")
            if options["coverage"] or options["gaps"]:
                judge.driven = DrivenTransitions(judge.automaton, _covering(judge.automaton.refinement))
        file = folder / "verdicts.parquet"
        outcome = replay(
            judge,
            found.parts,
            claims=_claims(options),
            skew_ns=_skew_ns(options),
            clocks=found.clocks,
            verdicts=file,
            progress=show,
        )
    outcome.problems = problems + outcome.problems
    outcome.left_out += found.left_out
    outcome.left_out_by.update(found.left_out_by)
    return outcome, 0.0


def _following(
    options: Mapping[str, Any], files: list[Path], refinement: Any, by: Any, folder: Path
) -> "tuple[Outcome, float]":
    """Judge what is there and what is appended, until Ctrl-C or until nothing came for `--idle`."""
    from fencepost.impl.environment import SystemEnvironment
    from fencepost.properties.refinement import Automaton
    from fencepost.sim.replay.growing import Growing
    from fencepost.sim.replay.judging import Judge, NoModel
    from fencepost.sim.replay.local import Outcome, replay

    del files  # they grow
    judge: Judge | NoModel = NoModel(whole=by == "run")
    if refinement is not None:
        judge = Judge(Automaton(refinement(), slots=options["slots"] or SLOTS), whole=by == "run")
    claims, skew_ns = _claims(options), _skew_ns(options)
    growing = Growing([Path(place) for place in options["traces"]], by, folder / "follow")

    def judged(part: Any, verdicts: Path) -> Outcome:
        return replay(
            judge,
            [part],
            claims=claims,
            skew_ns=skew_ns,
            clocks=growing.clocks,
            verdicts=verdicts,
            workers=1,
        )

    def sums() -> Outcome:
        empty = Outcome(not_judged=judge.not_judged, claims=claims, has_model=refinement is not None)
        outcome = growing.judge(judged, empty)
        growing.write_verdicts(folder / "verdicts.parquet")
        return outcome

    wait, since, shown = SystemEnvironment().sleep, perf_counter(), 0
    outcome = sums()
    with StatusLine() as line:
        try:
            while True:
                begun = perf_counter()
                if growing.read():
                    outcome, since = sums(), perf_counter()
                    for row in outcome.not_accepted[shown:]:
                        where = f"run {row['run']}  event {row['seq']}"
                        say(f"{row['verdict'].upper()}  {where}: {row['reason']}", err=True)
                    shown = len(outcome.not_accepted)
                runs = f"{outcome.runs:,} runs, {outcome.rejected:,} rejected"
                line.show_text(f"{outcome.events:,} events, {runs}; waiting for more")
                if options["idle_s"] is not None and perf_counter() - since >= options["idle_s"]:
                    break
                # Judging costs as much as there is, so that rounds become rare when they are long.
                wait(max(ROUND_S, perf_counter() - begun))
        except KeyboardInterrupt:
            outcome = sums()  # and the parts whose judgement was cut off
    return outcome, 0.0


def _claims(options: Mapping[str, Any]) -> "Claims":
    from fencepost.sim.replay.continuity import Claims

    return Claims(all_writers=options["all_writers"], starts_empty=options["starts_empty"])


def _covering(refinement: Any) -> Any:
    """The map by which transitions are counted."""
    found = refinement.covering()
    if found is None:
        raise BadRequest(
            "--coverage needs a model whose states are its own: this map is eager or forgets fields; let its "
            "covering() return a map that does not"
        )
    return found


def _skew_ns(options: Mapping[str, Any]) -> int | None:
    return None if options["skew_s"] is None else round(options["skew_s"] * 1e9)


def _on_spark(
    options: Mapping[str, Any], files: list[Path], refinement: Any, by: Any, folder: Path
) -> "tuple[Outcome, float]":
    from fencepost.sim.replay.spark import Recipe, replay
    from fencepost.sim.spark import start

    begun = perf_counter()
    with start(options["master"] or "", name="fencepost replay") as session:
        started = perf_counter() - begun
        recipe = Recipe(
            refinement,
            options["slots"] or SLOTS,
            counted=True,
            whole=by == "run",
            token=f"{by} {begun}",
            claims=_claims(options),
            skew_ns=_skew_ns(options),
        )
        return replay(session, recipe, files, by, folder / "verdicts.parquet"), started


def _explain(files: list[Path], grouping: Any, refinement: Any) -> Mapping[str, Any]:
    from fencepost.sim.replay.run_explanation import explain_runs

    found = explain_runs(files, grouping, refinement, lambda _: None)  # judging names the problems
    return {**found.as_json(), "text": list(found.lines())}


def _print_skeleton(options: Mapping[str, Any]) -> int:
    from fencepost.commands.models import find_machine
    from fencepost.sim.replay.skeleton import skeleton
    from fencepost.sim.trace import Problem, TraceError, discover

    if options["model"] is not None or options["source"] != "traces":
        raise BadRequest("--skeleton writes a map of traces: leave out --model and --from")
    problems: list[Problem] = []
    try:
        files = discover(options["traces"])
        text = skeleton(files, options["skeleton"], find_machine(options["skeleton"]), problems.append)
    except TraceError as error:
        raise BadRequest(str(error)) from error
    for problem in problems:
        say(f"NOT READ  {problem}", err=True)
    say(text)
    return Exit.UNDECIDED if problems else Exit.HOLDS


def _list() -> int:
    for name, system in SYSTEMS.items():
        say(f"{name}  {system.run_is}")
    return Exit.HOLDS
