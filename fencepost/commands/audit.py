"""`fencepost audit SYSTEM`: drive the real code through every interleaving, crash and lost response.

Besides the search there are four modes. `--mutants` audits every known mistake and the system itself, one row
each: a safeguard that the code can do without protects nothing. Where a model of the same name has a
safeguard of the same name, its shortest counterexample is shown beside the code's, both counted in steps of
the protocol. `--flat` compares costs of two sizes, `--base` compares two revisions (`audit_base`), and
`--store` runs the program with threads on a real store. Such a run has no control over anything: it can show
that something breaks on this store with this timing, and never that nothing does, so its verdict is
`violated` or `undecided`.
"""

import contextlib
import functools
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from fencepost import results
from fencepost.commands import hash_seed
from fencepost.commands.changed_code import changed_code, find_repository
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.output_files import TARGET, json_option, write_file
from fencepost.commands.provenance import command_line
from fencepost.commands.rows import (
    MutantsResult,
    Row,
    audited_row,
    collect,
    model_row,
    unbroken,
    verdict_of,
)
from fencepost.commands.systems import (
    Audited,
    complete_mutant,
    complete_system,
    find_system,
    is_own,
    mutants_of,
    read_parameters,
    read_shipped,
    shipped,
)
from fencepost.commands.terminal import StatusLine, engine_option, finish, verbose_option
from fencepost.commands.terminal import console as console_for
from fencepost.commands.user_files import neighbours, place
from fencepost.commands.watching import watch_option
from fencepost.impl.store import open_store
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.events import Event
from fencepost.properties.promises import PROMISES, BadPromise, Promise, promised
from fencepost.reports.audit_text import LONG, audit_text, mutants_text
from fencepost.reports.command_lines import PRINTING, SEARCHING, with_token
from fencepost.reports.lcov import lcov
from fencepost.reports.text import amount, plural
from fencepost.sim.explore import AuditOutcome, AuditRequest, BadToken, Diverged
from fencepost.sim.explore.audit import SEARCHES, audit_sizes
from fencepost.sim.explore.checkpoint import BadCheckpoint
from fencepost.sim.explore.reporting import bind, run_audit, run_token
from fencepost.sim.explore.suspecting import with_suspicions
from fencepost.sim.mutation import Mutation
from fencepost.testing import ENOUGH, FAULTS, STRATEGIES, Options, request_of

EPILOG = """Exit codes: 0 holds within the bound that is printed, 1 violated, 2 the request made no sense,
3 not decided: a limit was hit, schedules were only sampled, or the runs covered nothing. Examples:
fencepost audit counter;  fencepost audit counter --mutant read-modify-write;  fencepost audit
tests/test_mine.py:test_election --faults crash=2,late=1 --budget 60."""

UPDATE_S = 0.1
"""Between two updates of the status line."""
LINE_S = 30.0
"""Between two lines of progress where there is no terminal."""
ROUNDS = 100
SAMPLED = ("pct", "random")
"""The strategies of --over-http."""
MUTANT_SECONDS, FIXED_SECONDS = 120.0, 600.0
"""A mistake is found in seconds; to prove that there is none takes all schedules."""
REFUSED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "--store": (
        "--store runs for real, as it happens to come, and {} is about runs under control; leave out either",
        (
            *("--strategy", "--faults", "--max-schedules", "--depth", "--max-steps", "--jobs", "--resume"),
            *("--wait-rounds", "--replay", "--base", "--trace", "--mutants", "--flat", "--enough"),
            *("--promises", "--promises-only"),
        ),
    ),
    "--replay": (
        "--replay runs one schedule, and {} is about a search; leave out either",
        ("--strategy", "--budget", "--max-schedules", "--depth", "--resume", "--jobs", "--enough"),
    ),
    "--over-http": (
        "--over-http samples schedules of real processes, and {} is about others; leave out either",
        (
            *("--store", "--rounds", "--jobs", "--resume", "--base", "--flat", "--wait-rounds"),
            *("--mutants", "--mutate", "--mutant", "--gaps", "--enough"),
        ),
    ),
    "--mutants": (
        "--mutants audits them all, and {} is about one; leave out either",
        ("--mutant", "--replay", "--resume", "--trace", "--base"),
    ),
    "--mutate": (
        "--mutate audits many programs, and {} is about one; leave out either",
        ("--mutant", "--mutants", "--replay", "--resume", "--trace", "--flat", "--store"),
    ),
    "--flat": (
        "--flat audits several sizes, and {} is about one; leave out either",
        ("--mutants", "--resume", "--trace"),
    ),
    "--engine": (
        "--engine spark explores many schedules at once, and {} is not about that; leave out either",
        ("--store", "--replay", "--base", "--flat", "--jobs", "--depth"),
    ),
    "--like": (
        "--like follows a trace, and {} is about other searches; leave out either",
        (
            *("--strategy", "--depth", "--jobs", "--resume", "--replay", "--base", "--flat"),
            *("--mutants", "--mutate", "--store"),
        ),
    ),
    "--base": (
        "--base compares two searches, and {} is about one run; leave out either",
        ("--replay", "--resume", "--trace"),
    ),
}
"""Options that exclude each other, with the reason."""
UNLIKE_MUTATE = ("mutant", "flat", "over_http", "like")
"""Options of a comparison that --mutate does not take."""


@click.command("audit", short_help="Drive real code through every interleaving and fault.", epilog=EPILOG)
@click.argument("system", metavar="SYSTEM", nargs=-1, shell_complete=complete_system)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Set a program's parameter.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Short for --set processes=N.")
@click.option(
    "--mutant",
    metavar="NAME",
    shell_complete=complete_mutant,
    help="Audit a system of --list with one of its known mistakes.",
)
@click.option("--mutants", is_flag=True, help="Audit every known mistake, and the system: one row each.")
@click.option("--mutate", is_flag=True, help="Leave out each protective step of your code in turn.")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="How to explore.  [default: portfolio]")
@click.option(
    "--faults",
    multiple=True,
    metavar="KIND=N,...",
    help="Faults of one run, at most.  [default: crash=1,reply_lost=1,request_lost=1,pause=1]",
)
@click.option(
    "--promise",
    "promises",
    multiple=True,
    metavar="KIND=TARGET",
    help="Judge a ready property, as queue=jobs/ or lock=state.lock; --promises lists them.",
)
@click.option("--promises-only", is_flag=True, help="Judge the promises, and not the program's properties.")
@click.option("--promises", "listing_promises", is_flag=True, help="List the kinds of promises.")
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Seed of choices and identifiers.  [default: 0]"
)
@click.option(
    "--budget", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Limit of processor time."
)
@click.option("--enough", type=click.Choice(ENOUGH), help="What must hold for a pass.  [default: all]")
@click.option("--max-schedules", type=click.IntRange(1), metavar="N", help="Limit of runs.")
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="Steps per run.  [default: 400]")
@click.option(
    "--wait-rounds",
    type=click.IntRange(1),
    metavar="N",
    help="Rounds of a loop that waits, before it is held back.  [default: 5]",
)
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Depth of pct's bugs.  [default: 3]")
@click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", help="Operating-system processes.")
@engine_option("Where schedules are explored.")
@click.option("--master", metavar="URL", help="Spark cluster.  [default: all cores of this machine]")
@click.option(
    "--py-files",
    multiple=True,
    metavar="FILE,...",
    help="Modules, folders and zip files that executors need besides the program's folder.",
)
@click.option(
    "--resume", type=TARGET, metavar="FILE", help="Save the search here when it is stopped, and continue it."
)
@click.option("--replay", metavar="TOKEN", help="Run the one schedule that a failure printed.")
@click.option("--like", metavar="TRACE", help="Follow what a trace recorded, and then explore around it.")
@click.option("--like-keys", metavar="PATTERN", help="Only requests of --like about these keys.")
@click.option("--over-http", is_flag=True, help="Audit real processes, in any language, on a local endpoint.")
@click.option("--store", metavar="URL", help="Run for real, with threads on this store: proves nothing.")
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Rounds of --store.  [default: 100]")
@watch_option
@click.option(
    "--base", metavar="REV", help="Compare with the code at this git revision; of --mutate, changed lines."
)
@click.option("--markdown", type=TARGET, metavar="FILE", help="Write what --base finds worse; - is stdout.")
@click.option("--flat", metavar="NAME=A,B", help="Find what costs more with parameter NAME=B than with A.")
@click.option("--trace", type=TARGET, metavar="FILE", help="Write the failing run's events as JSON lines.")
@click.option(
    "--coverage",
    type=TARGET,
    metavar="FILE",
    help="Write the executed lines, and the outcomes of each request line as branches, as lcov.",
)
@json_option
@verbose_option
@click.option("--gaps", is_flag=True, help="Show the model's way to every label that no run drove.")
@click.option("--quiet", is_flag=True, help="Print the counterexample and the verdict only.")
@click.option("--list", "listing", is_flag=True, help="List the systems.")
def command(system: tuple[str, ...], listing: bool, listing_promises: bool, **options: Any) -> int:
    """Run the real code of SYSTEM in every order, with every fault that the budget allows, and show the
    shortest counterexample of what breaks. SYSTEM is one of --list, or a program of your own:
    path/to/file.py:function, a function of world (with or without @fencepost.audit).

    --mutate leaves out, one at a time, each condition of a write, each look after a write, each `+ 1` and
    each guard of a retry in your modules, swaps deletes, and lists what is not noticed. It writes no file. A
    property that no mutant breaks is listed too: it may be a tautology.

    Faults: crash, reply_lost (applied), request_lost (not applied), late (landing), conflict (409), throttled
    (503), duplicated (by the SDK), skew (of a clock), pause, notification_delayed, restart, power_loss (in
    programs with a file system). `none` sets all to 0.

    With --over-http each process is a real one, of any language: world.spawn(function) runs in an interpreter
    of its own, world.spawn_command([...]) starts a program. Schedules are sampled.

    With --engine spark the executors of a cluster share the search, or take the audits of --mutants and
    --mutate, or the samples of --over-http. The verdict and the counterexample are those of --jobs.

    With --base several programs can be named: those that the change touches come first. A tenth of --budget
    goes into leaving out protective steps on changed lines: it lists those that no property notices.

    With --store the same program runs for real instead, N rounds of threads below a prefix of its own that is
    removed afterwards: it breaks, or nothing is decided.
    """
    if listing:
        return _list()
    if listing_promises:
        return _list_promises()
    if not system:
        raise BadRequest("name the system to audit, as in: fencepost audit counter; --list lists them")
    options["system"] = system[0]
    if len(system) > 1 and (options["base"] is None or options["mutate"]):
        raise BadRequest(f"{' and '.join(system)}: only --base compares several programs; name one")
    _refuse_contradictions(options)
    json_file, verbose = options["json_file"], options["verbose"]
    console = console_for(stderr=json_file == "-")
    if options["base"] is not None and not options["mutate"]:
        from fencepost.commands.audit_base import compare_with_base  # with the reports of code hosts

        return compare_with_base(
            system,
            options["base"],
            json_file,
            markdown_file=options["markdown"],
            seconds=options["budget"],
            mutating=not any(options[name] for name in UNLIKE_MUTATE),
        )
    if options["mutants"] or options["mutate"]:
        with _elsewhere(options) as session:
            mutants = _mutants(options, session) if options["mutants"] else _mutate(options, session)
        return finish(mutants, mutants_text(mutants, verbose=verbose), json_file)
    if options["mutant"] and is_own(options["system"]):
        from fencepost.commands.audit_mutate import find_mutant

        program = find_mutant(options["system"], options["mutant"])
    else:
        program = find_system(options["system"], options["mutant"])
    if hash_seed.is_recording():
        hash_seed.write_records(_request(program, options, options["settings"]))
        return Exit.HOLDS
    with _user_errors(program), _output_to_stderr(wanted=json_file == "-"):
        if options["over_http"]:
            result = _over_http(program, options)
        else:
            result = _real(program, options, console) if options["store"] else _search(program, options)
    again = ""
    if result.violations and result.real is None:
        again = command_line(without=SEARCHING, flags=PRINTING)
        again = with_token(again, result.violations[0].token)
    elif options["resume"] and result.verdict == "undecided":
        again = command_line(without=("--json",), flags=PRINTING)
    if options["coverage"]:
        write_file(Path(options["coverage"]), lcov(result.coverage, result.system).encode(), "--coverage")
    quiet, gaps = options["quiet"], options["gaps"]
    text = audit_text(result, again, verbose=verbose, gaps=gaps, quiet=quiet)
    return finish(result, text, json_file, passes=result.passes)


def _refuse_contradictions(options: Mapping[str, Any]) -> None:
    given = {
        f"--{name.replace('_', '-')}"
        for name, value in options.items()
        if value not in (None, False, ()) and (name, value) not in (("jobs", 1), ("engine", "local"))
    }
    if options["replay"] is not None and not options["replay"].strip():
        raise BadRequest("--replay is given an empty token; paste the one that a failure printed")
    for option, (message, others) in REFUSED.items():
        for other in others if option in given else ():
            if other in given:
                raise BadRequest(message.format(other))
    if "--markdown" in given and ("--base" not in given or "--mutate" in given):
        raise BadRequest("--markdown writes what --base finds worse; give --base REV with it")
    if options["markdown"] == options["json_file"] == "-":
        raise BadRequest("--markdown - and --json - would mix on standard output; give one of them a file")
    if "--rounds" in given and "--store" not in given:
        raise BadRequest("--rounds counts the rounds of a real run; give --store with it, or leave it out")
    strategy = options["strategy"] or ("pct" if options["over_http"] else "portfolio")
    if options["over_http"] and strategy not in SAMPLED:
        raise BadRequest(f"--over-http samples: its strategies are {' and '.join(SAMPLED)}, not {strategy}")
    for option in ("--resume", "--jobs"):
        if option in given and strategy not in SEARCHES:
            raise BadRequest(f"{option} is for the exhaustive strategy, not for {strategy}; leave out either")
    if "--enough" in given and (strategy != "portfolio" or "--resume" in given):
        raise BadRequest("--enough names a stage of the portfolio; leave --strategy and --resume out")
    for option in ("--master", "--py-files"):
        if option in given and "--engine" not in given:
            raise BadRequest(f"{option} belongs to --engine spark")
    if "--engine" in given and strategy not in SEARCHES and not options["over_http"]:
        raise BadRequest(f"--engine spark shares the exhaustive strategy, not {strategy}; leave out either")
    if "--like-keys" in given and "--like" not in given:
        raise BadRequest("--like-keys names keys of a trace; give --like TRACE with it, or leave it out")
    if "--depth" in given and strategy != "pct":
        raise BadRequest("--depth is the depth of pct; give --strategy pct with it")


def read_faults(texts: Sequence[str]) -> dict[str, int]:
    """`crash=1,late=0` as numbers by kind. `none` sets every kind to 0; kinds not named keep their number."""
    faults: dict[str, int] = {}
    named: set[str] = set()
    for part in (part.strip() for text in texts for part in text.split(",")):
        if part == "none":
            if faults:
                raise BadRequest("--faults: none comes first, as in none,pause=1")
            faults = {name: 0 for name in FAULTS if name != "restart"}
            continue
        name, equals, count = (word.strip() for word in part.partition("="))
        if name not in FAULTS:
            raise BadRequest(f"--faults: no fault is called {name!r}; known: {', '.join(FAULTS)}, or none")
        if not equals or not count.isdecimal():
            raise BadRequest(f"--faults {part}: give a whole number, as in {name}=1")
        if name in named:
            raise BadRequest(f"--faults gives {name} twice")
        named.add(name)
        faults[name] = int(count)
    return faults


def _options(options: Mapping[str, Any]) -> Options:
    return Options(
        faults=read_faults(options["faults"]),
        strategy=options["strategy"],
        seed=options["seed"],
        seconds=options["budget"],
        schedules=options["max_schedules"],
        steps_max=options["max_steps"],
        wait_rounds=options["wait_rounds"],
        depth=options["depth"],
        enough=options["enough"],
        promises=tuple(one.name for one in read_promises(options["promises"])) or None,
        promises_only=options["promises_only"] or None,
    )


def read_promises(texts: Sequence[str]) -> list[Promise]:
    """The promises of the command line."""
    try:
        return promised(texts)
    except BadPromise as error:
        raise BadRequest(f"--promise: {error}") from error


def _named(options: Mapping[str, Any]) -> AuditRequest:
    """The request of the program that is named, as it is loaded now."""
    return _request(find_system(options["system"]), options, options["settings"])


def _search(system: Audited, options: Mapping[str, Any]) -> results.AuditResult:
    """Explore, or run the one schedule of a token; with --flat, one size after another."""
    name, sizes = ("", []) if options["flat"] is None else _read_flat(options["flat"])
    sized = [(*options["settings"], f"{name}={value}") for value in sizes] or [options["settings"]]
    requests = [_request(system, options, settings) for settings in sized]
    if options["engine"] == "spark":
        with _elsewhere(options) as session:
            return _search_elsewhere(system, options, session)
    if options["like"]:
        steps = _recorded_steps(options["like"], options["like_keys"] or "")
        requests = [replace(request, strategy="like", like=steps) for request in requests]
    token = options["replay"]

    explore = functools.partial(_explore, quiet=options["quiet"])

    def search(request: AuditRequest) -> AuditOutcome:
        if token is not None:
            return run_token(request, token)
        found = explore(request)
        return found if system.path is None else with_suspicions(request, found)

    whole = system.path is not None and token is None and not name
    with hash_seed.OtherSeed(wanted=whole) as other:
        found = audit_sizes(name, requests, explore, search) if name else search(requests[0])
        decided = found.counterexamples or found.error_at is not None or found.verdict == "error"
        seeds = () if decided else other.compare(system.name, requests[0])
    if options["trace"]:
        # Without a failing run, the run without any fault.
        _write_trace(found.events or run_token(requests[0], "default").events, options["trace"])
    return replace(found.result(), hash_seeds=seeds)


def _search_elsewhere(system: Audited, options: Mapping[str, Any], session: Any) -> results.AuditResult:
    """Explore on the executors of a cluster."""
    from fencepost.commands.cluster import executors, subject_of

    request = _request(system, options, options["settings"])
    with hash_seed.OtherSeed(wanted=system.path is not None) as other:
        # The records are made by a process of this machine while executors explore.
        subject = subject_of(session, options["system"], options, system.path)
        request = replace(request, pool=executors(session, subject))
        found = _explore(request)
        found = found if system.path is None else with_suspicions(request, found)
        decided = found.counterexamples or found.error_at is not None or found.verdict == "error"
        seeds = () if decided else other.compare(system.name, request)
    if options["trace"]:
        _write_trace(found.events or run_token(request, "default").events, options["trace"])
    return replace(found.result(), hash_seeds=seeds)


def request_of_options(system: Audited, options: Mapping[str, Any]) -> AuditRequest:
    """Return the request of a command, made again on an executor."""
    return _request(system, {**options, "jobs": 1, "resume": None}, options["settings"])


@contextlib.contextmanager
def _elsewhere(options: Mapping[str, Any]) -> Iterator[Any]:
    """A Spark session with --engine spark, else None. Spark is imported only on request."""
    if options["engine"] != "spark":
        yield None
        return
    from fencepost.commands.cluster import cluster

    with cluster(options) as session:
        yield session


def _recorded_steps(trace: str, keys: str) -> tuple[Any, ...]:
    """The requests of a trace that an audit follows."""
    from fencepost.sim.explore.recorded import NoSteps, read_apart

    try:
        steps, problems = read_apart(trace, keys)
    except NoSteps as error:
        raise BadRequest(f"--like {trace}: {error}") from error
    for problem in problems:
        say(f"NOT READ  {problem}", err=True)
    return tuple(steps)


def _over_http(system: Audited, options: Mapping[str, Any]) -> results.AuditResult:
    """Sample schedules of real processes, or run the one of a token."""
    from fencepost.sim.over_http.search import UNCONTROLLED, follow_over_http, run_over_http

    for kind in UNCONTROLLED:
        if read_faults(options["faults"]).get(kind):
            raise BadRequest(f"--faults {kind}: --over-http does not control clocks, messages or disks")
    request = _request(system, options, options["settings"])
    request = replace(request, strategy=options["strategy"] or "pct")
    if options["like"]:
        request = replace(
            request, strategy="like", like=_recorded_steps(options["like"], options["like_keys"] or "")
        )
    if options["engine"] == "spark":
        return _samples_elsewhere(system, request, options)
    if options["replay"] is not None:
        found = follow_over_http(request, options["replay"])
    else:
        with _Line() as line:
            found = run_over_http(request, line.show)
    if options["trace"]:
        _write_trace(found.events, options["trace"])
    return found.result()


def _samples_elsewhere(
    system: Audited, request: AuditRequest, options: Mapping[str, Any]
) -> results.AuditResult:
    """Sample on the executors of a cluster: each draws its schedules by a seed of its own."""
    from fencepost.commands.cluster import Samples, subject_of
    from fencepost.sim.spark.jobs import each

    started = time.perf_counter()
    with _elsewhere(options) as session, _Line() as line:
        subject = subject_of(session, options["system"], options, system.path)
        count = max(2, session.sparkContext.defaultParallelism)
        share = None if request.schedules is None else -(-request.schedules // count)
        found: list[results.AuditResult] = []
        jobs = [Samples(subject, request.seed + number, share) for number in range(count)]
        for result in each(session, jobs, lambda job: job):
            found.append(result)
            line.show_text(f"{sum(one.schedules for one in found):,} schedules")
            if result.violations or result.verdict == "error":
                break
    return sampled_by_seeds(found, time.perf_counter() - started)


def sampled_by_seeds(found: Sequence[results.AuditResult], seconds: float) -> results.AuditResult:
    """Return the samples of several seeds as one result: the first that fails, or the sum of all."""
    last = found[-1]
    schedules = sum(one.schedules for one in found)
    findings = tuple(dict.fromkeys(finding for one in found for finding in one.findings))
    if last.violations or last.verdict == "error":
        if last.seed != found[0].seed:
            findings = (f"drawn with --seed {last.seed}, which the token needs", *last.findings)
        return replace(last, schedules=schedules, seconds=seconds, findings=findings)
    bound = f"{schedules} schedules sampled with {len(found)} seeds, which proves nothing about others"
    return replace(
        last, seed=found[0].seed, bound=bound, schedules=schedules, seconds=seconds, findings=findings
    )


def _request(system: Audited, options: Mapping[str, Any], settings: tuple[str, ...]) -> AuditRequest:
    arguments = read_parameters(system, settings, options["processes"])
    chosen = _options(options)
    if system.options.processes is not None:
        chosen = replace(chosen, processes=arguments.get("processes"))
    return request_of(
        system.function,
        system.options.under(chosen),
        arguments,
        system.name,
        jobs=options["jobs"],
        checkpoint=options["resume"],
        by_line=bool(options["coverage"] or options["json_file"] or options["verbose"]),
        lines_run=bool(options["coverage"]),
    )


def _explore(request: AuditRequest, *, quiet: bool = False) -> AuditOutcome:
    with _Line(quiet=quiet) as line:
        found = run_audit(request, line.show)
    if found.interrupted and not found.counterexamples:
        return replace(found, findings=("interrupted: this is what was found so far", *found.findings))
    return found


def _read_flat(text: str) -> tuple[str, list[str]]:
    """`depth=1,20` as a name and its values, as they are written."""
    name, _, values = text.partition("=")
    found = values.split(",")
    if not name or len(found) < 2 or not all(found):
        raise BadRequest(f"--flat {text} must read NAME=A,B, as in --flat depth=1,20")
    return name, found


def _mutants(options: Mapping[str, Any], session: Any) -> MutantsResult:
    """Every mutant of the system, and the system; one row each."""
    name = options["system"]
    mutants = [*mutants_of(name), None]
    if session is None:
        found: Iterator[Row] = (mutant_row_of(name, mutant, options) for mutant in mutants)
    else:
        from fencepost.commands.cluster import MutantRow, subject_of
        from fencepost.sim.spark.jobs import each

        subject = subject_of(session, name, options, None)
        found = each(session, mutants, lambda mutant: MutantRow(subject, mutant))
    rows, complete = collect(found, lambda row: f"{row.safeguard or row.system}: {row.verdict}")
    verdict = verdict_of(rows, complete=complete)
    return MutantsResult(system=name, rows=rows, verdict=verdict, unbroken=unbroken(rows, complete=complete))


def mutant_row_of(name: str, mutant: str | None, options: Mapping[str, Any]) -> Row:
    """The audit of one mutant with the options of the command."""
    jobs = options["jobs"] if options["engine"] == "local" else 1
    return mutant_row(name, mutant, options["settings"], options["processes"], _options(options), jobs)


def _mutate(options: Mapping[str, Any], session: Any) -> MutantsResult:
    """Every mutation of the user's modules, or of changed lines, and the program; one row each."""
    from fencepost.commands.audit_mutate import mutate

    def elsewhere(found: list[Mutation], path: Path, seconds: float) -> Iterator[Row]:
        from fencepost.commands.cluster import MutationRow, subject_of
        from fencepost.sim.spark.jobs import each

        name = options["system"]
        subject = subject_of(session, name, {**options, "system": name}, path)
        deadline = time.perf_counter() + seconds

        def job(one: Mutation) -> MutationRow:
            return MutationRow(subject, one.name, name, deadline - time.perf_counter())

        return each(session, found, job)

    run = elsewhere if session is not None else None
    changed = None
    if options["base"] is not None:
        changed = changed_code(find_repository(options["system"], options["base"]))
    return mutate(options["system"], lambda: _named(options), options["budget"], run, changed)


def mutant_row(
    name: str,
    mutant: str | None,
    settings: tuple[str, ...] = (),
    processes: int | None = None,
    chosen: Options | None = None,
    jobs: int = 1,
) -> Row:
    """The audit of one mutant, beside the model's shortest counterexample without the same safeguard."""
    from fencepost.commands.models import find_machine, models_of  # see `rows`

    system = find_system(name, mutant)
    arguments = read_parameters(system, settings, processes)
    usual = Options(seconds=MUTANT_SECONDS if mutant else FIXED_SECONDS)
    options = usual.under(system.options).under(chosen or Options())
    request = request_of(system.function, options, arguments, name, jobs=jobs)
    row, worst = audited_row(mutant or "", request, others=True)
    row = replace(row, system=name, parameters=dict(request.parameters))
    models = [model for model in models_of(name) if mutant in find_machine(model).safeguards]
    if not mutant or worst is None or not models:
        return row
    model = model_row(models[0], mutant, "safeguard")
    if not model.length:
        return row
    times = row.moves / model.length
    shortest = {"model": models[0], "property": model.property, "length": model.length}
    return replace(row, model=shortest, times=round(times, 2), long=times > LONG)


def _real(system: Audited, options: Mapping[str, Any], console: Console) -> results.AuditResult:
    """Rounds of threads on a real store."""
    from fencepost.sim.real import NotForReal, Plain, run_rounds  # with all of the probe

    arguments = read_parameters(system, options["settings"], options["processes"])
    wanted = Plain(options["rounds"] or ROUNDS, options["budget"], seed=options["seed"] or 0)
    with open_store(options["store"]) as store:
        if not options["quiet"]:
            console.print(
                f"Runs {system.name} for real on {store.url}, {wanted.rounds} rounds, writing only below "
                "fencepost-audit/ and removing it afterwards."
            )
        try:
            found = run_rounds(bind(system.function, system.name, arguments), store, wanted)
        except NotForReal as error:
            raise BadRequest(f"{system.name}: {error}") from error
        violations: tuple[results.Violation, ...] = ()
        if found.violation is not None:
            violations = (results.Violation(*found.violation, tuple(found.counterexample)),)
        outcomes, steps = (dict(sorted(counts.items())) for counts in (found.outcomes, found.steps))
        return results.AuditResult(
            system=system.name,
            strategy="plain",
            parameters=dict(arguments),
            verdict="violated" if violations else "undecided",
            bound=_real_bound(found),
            schedules=found.rounds,
            seconds=found.seconds,
            violations=violations,
            findings=tuple(found.findings),
            coverage=results.AuditCoverage(outcomes, {}, steps),
            seed=wanted.seed,
            real=results.RealRun(
                store=store.url,
                threads=found.processes,
                requests=found.requests,
                at_once=found.at_once,
                looks=found.looks,
                unconfirmed=found.unconfirmed,
                prefix=found.prefix,
                left=tuple(found.left),
            ),
        )


def _real_bound(found: Any) -> str:
    if found.violation is not None:
        return f"it broke for real, in round {found.rounds}"
    if not found.rounds:
        return "no round came to its end"
    rounds = plural(found.rounds, "real round")
    return f"nothing broke in {rounds}, which proves nothing: orders that did not happen were not tried"


@contextlib.contextmanager
def _user_errors(system: Audited) -> Iterator[None]:
    """Reports errors of the program's own set-up, and of what it was given, as one line each."""
    with neighbours(system.path) if system.path is not None else contextlib.nullcontext():
        try:
            yield
        except BadToken as error:
            raise BadRequest(f"--replay: {error}") from error
        except BadCheckpoint as error:
            raise BadRequest(f"--resume: {error}") from error
        except Diverged as error:
            raise BadRequest(f"{system.name} does not repeat itself: {error}") from error
        except (BadRequest, StoreError):
            raise
        except Exception as error:
            if system.path is None or place(error, system.path) == str(system.path):
                raise  # it did not come through the user's file: a bug of ours
            raise BadRequest(
                f"{place(error, system.path)}: the program cannot set the world up: "
                f"{type(error).__name__}: {error}"
            ) from error


@contextlib.contextmanager
def _output_to_stderr(*, wanted: bool) -> Iterator[None]:
    """Redirects what the program prints when standard output is to hold the result alone."""
    with contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext():
        yield


def _write_trace(events: Sequence[Event], target: str) -> None:
    text = "".join(json.dumps(asdict(event), separators=(",", ":")) + "\n" for event in events)
    write_file(Path(target), text.encode(), "--trace")


def _list() -> int:
    console = console_for(stderr=False)
    for stem, module_name in shipped().items():
        for name, found in read_shipped(stem, module_name).items():
            console.print(Text.assemble((name, "bold"), f"  {found.doc}"))
            for parameter in find_system(name).parameters.values() if found.program else ():
                console.print(f"  parameter {parameter.name}={parameter.default}")
            for mutant in found.mutants:
                console.print(f"  mutant {mutant}")
    return Exit.HOLDS


def _list_promises() -> int:
    console = console_for(stderr=False)
    for name, made in PROMISES.items():
        target = "=TOPIC" if made.topic_target else "=TARGET" if made.needs_target else "[=TARGET]"
        console.print(Text.assemble((f"{name}{target}", "bold"), f"  {made.meaning}"))
        for option, meaning in made.options.items():
            console.print(f"  ,{option}=  {meaning}", highlight=False)
    return Exit.HOLDS


class _Line(StatusLine):
    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__()
        self._quiet = quiet
        self._started = self._shown = time.perf_counter()

    def show(self, search: Any) -> None:
        now = time.perf_counter()
        if now - self._shown < (LINE_S if self.hidden else UPDATE_S) or (self.hidden and self._quiet):
            return
        self._shown = now
        text = progress_text(search, now - self._started)
        if self.hidden:
            say(f"fencepost: {text}", err=True)
        else:
            self.show_text(text)


def progress_text(search: Any, seconds: float) -> str:
    """Describe the progress of a search. The runs that are left are unknown: branches appear during it."""
    runs = search.runs if hasattr(search, "runs") else search.schedules
    rate = runs / seconds if seconds > 0 else 0.0
    stages = search.progress() if hasattr(search, "progress") else ""
    return f"{amount(runs)} runs, {amount(round(rate))}/s, {seconds:.0f} s" + (
        f"; {stages}" if stages else ""
    )
