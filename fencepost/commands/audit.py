"""`fencepost audit SYSTEM`: drive the real code through every interleaving, crash and lost response."""

import contextlib
import json
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from fencepost import results
from fencepost.commands.audit_base import compare_with_base
from fencepost.commands.audit_mutants import audit_mutants, refuse_beside_mutants
from fencepost.commands.audit_plain import ROUNDS, Plain, audit_plainly, refuse_beside_store
from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.output_files import TARGET, json_option, write_file, write_result
from fencepost.commands.systems import (
    Audited,
    complete_system,
    find_system,
    read_parameters,
    read_shipped,
    shipped,
)
from fencepost.commands.terminal import StatusLine, verbose_option
from fencepost.commands.terminal import console as console_for
from fencepost.commands.user_files import neighbours, place
from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.events import Event
from fencepost.reports.audit_text import audit_text
from fencepost.reports.text import amount
from fencepost.sim.explore import AuditRequest, AuditResult, BadToken, Diverged
from fencepost.sim.explore.audit import audit_sizes
from fencepost.sim.explore.checkpoint import BadCheckpoint
from fencepost.sim.explore.reporting import run_audit, run_token
from fencepost.testing import FAULTS, STRATEGIES, Options, request_of

EPILOG = """Exit codes: 0 holds within the bound that is printed, 1 violated, 2 the request made no sense,
3 not decided: a limit was hit, schedules were only sampled, or the runs covered nothing. Examples:
fencepost audit counter;  fencepost audit counter --mutant read-modify-write;  fencepost audit
tests/test_mine.py:test_election --faults crash=2,late=1 --budget 60."""

LOOK_EVERY_S = 0.1


@click.command("audit", short_help="Drive real code through every interleaving and fault.", epilog=EPILOG)
@click.argument("system_name", metavar="SYSTEM", required=False, shell_complete=complete_system)
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="Give the program a parameter.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="The same as --set processes=N.")
@click.option("--mutant", metavar="NAME", help="Audit a system of --list with one of its known mistakes.")
@click.option("--mutants", is_flag=True, help="Audit all known mistakes, and the system: one row each.")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="How to explore.  [default: exhaustive]")
@click.option(
    "--faults",
    multiple=True,
    metavar="KIND=N,...",
    help="Faults of one run, at most.  [default: crash=1,reply_lost=1,request_lost=1,pause=1]",
)
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of choices and identifiers.  [default: 0]")
@click.option("--budget", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time, at most.")
@click.option("--max-schedules", type=click.IntRange(1), metavar="N", help="Runs, at most.")
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="Of one run.  [default: 400]")
@click.option("--depth", type=click.IntRange(1), metavar="D", help="Of the bugs pct looks for.  [default: 3]")
@click.option("--jobs", type=click.IntRange(1), default=1, metavar="N", help="Operating-system processes.")
@click.option(
    "--resume",
    type=TARGET,
    metavar="FILE",
    help="Put the search down here when stopped, and take it up again.",
)
@click.option("--replay", "token", metavar="TOKEN", help="Run the one schedule that a failure printed.")
@click.option(
    "--store", "store_url", metavar="URL", help="Run for real, with threads on this store: proves nothing."
)
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Of --store, at most.  [default: 100]")
@click.option("--base", metavar="REV", help="Compare with the code at this git revision.")
@click.option("--flat", metavar="NAME=A,B", help="Find what costs more with parameter NAME=B than with A.")
@click.option(
    "--trace", type=TARGET, metavar="FILE", help="Write the events of the failing run as JSON lines."
)
@json_option
@verbose_option
@click.option("--gaps", is_flag=True, help="Show the model's way to every label that no run drove.")
@click.option("--quiet", is_flag=True, help="Print the counterexample and the verdict only.")
@click.option("--list", "listing", is_flag=True, help="List the systems and end.")
def command(
    system_name: str | None,
    settings: tuple[str, ...],
    processes: int | None,
    mutant: str | None,
    mutants: bool,
    strategy: str | None,
    faults: tuple[str, ...],
    seed: int | None,
    budget: float | None,
    max_schedules: int | None,
    max_steps: int | None,
    depth: int | None,
    jobs: int,
    resume: str | None,
    token: str | None,
    store_url: str | None,
    rounds: int | None,
    base: str | None,
    flat: str | None,
    trace: str | None,
    json_file: str | None,
    verbose: bool,
    gaps: bool,
    quiet: bool,
    listing: bool,
) -> int:
    """Run the real code of SYSTEM in every order, with every fault that the budget allows, and show the
    shortest counterexample of what breaks. SYSTEM is one of --list, or a program of your own:
    path/to/file.py:function, a function of world (with or without @fencepost.audit).

    Faults: crash, reply_lost (applied), request_lost (not applied), late (landing), conflict (409), throttled
    (503), duplicated (by the SDK), skew (of a clock), pause, notification_delayed, restart. `none` sets all
    to 0.

    With --store the same program runs for real instead, N rounds of threads below a prefix of its own that is
    removed afterwards: it breaks, or nothing is decided.
    """
    if listing:
        return _list()
    if system_name is None:
        raise BadRequest("name the system to audit, as in: fencepost audit counter; --list lists them")
    if token is not None and not token.strip():
        raise BadRequest("--replay is given an empty token; paste the one that a failure printed")
    if store_url is not None:
        if flat is not None:
            raise BadRequest(
                "--flat is about runs under control, and --store runs for real; leave out either"
            )
        refuse_beside_store(
            {"--strategy": strategy, "--faults": faults or None, "--max-schedules": max_schedules,
             "--depth": depth, "--max-steps": max_steps, "--jobs": jobs if jobs > 1 else None,
             "--resume": resume, "--replay": token, "--base": base, "--trace": trace,
             "--mutants": mutants or None}
        )  # fmt: skip
        wanted = Plain(rounds or ROUNDS, budget, seed=seed or 0)
        system = find_system(system_name, mutant)
        arguments = read_parameters(system, settings, processes)
        console = console_for(stderr=json_file == "-")
        with _blamed(system), _prints_aside(aside=json_file == "-"):
            return audit_plainly(
                system, arguments, store_url, wanted, console, json_file, verbose=verbose, quiet=quiet
            )
    if rounds is not None:
        raise BadRequest("--rounds counts the rounds of a real run; give --store with it, or leave it out")
    searching = {"--strategy": strategy, "--budget": budget, "--max-schedules": max_schedules}
    _refuse_contradictions(
        {**searching, "--depth": depth, "--resume": resume, "--jobs": jobs if jobs > 1 else None}, token
    )
    if mutants:
        refuse_beside_mutants(
            {"--mutant": mutant, "--replay": token, "--resume": resume, "--trace": trace, "--base": base}
        )
    name, sizes = ("", []) if flat is None else _read_flat(flat)
    if flat is not None:
        _refuse_beside_flat({"--mutants": mutants or None, "--resume": resume, "--trace": trace})
    given = {"--processes": processes, "--mutant": mutant, "--seed": seed, "--flat": flat}
    if base is not None:
        again = _Command(
            system_name,
            {"--set": settings, "--faults": faults},
            given,
            {**searching, "--depth": depth, "--max-steps": max_steps, "--jobs": jobs if jobs > 1 else None},
        )
        _refuse_beside_base({"--replay": token, "--resume": resume, "--trace": trace})
        return compare_with_base(system_name, again.options, base, json_file, again.replaying)
    said = Options(
        faults=read_faults(faults),
        strategy=strategy,
        seed=seed,
        seconds=budget,
        schedules=max_schedules,
        steps_max=max_steps,
        depth=depth,
    )
    if mutants:
        console = console_for(stderr=json_file == "-")
        return audit_mutants(
            system_name, settings, processes, said, console, json_file, jobs, verbose=verbose
        )
    system = find_system(system_name, mutant)
    sized = [(*settings, f"{name}={value}") for value in sizes] or [settings]
    every = [_wanted(system, read_parameters(system, one, processes), said, jobs, resume) for one in sized]
    wanted = every[0]
    console = console_for(stderr=json_file == "-")

    def search(one: AuditRequest) -> AuditResult:
        return _searched(one) if token is None else run_token(one, token)

    with _blamed(system), _prints_aside(aside=json_file == "-"):
        if flat is None:
            found = search(wanted)
        else:
            found = audit_sizes(name, every, lambda one: _searched(one), search)
        if trace:
            # Without a failing run, the run in which nothing goes wrong.
            _write_trace(found.events or run_token(wanted, "default").events, trace)
    again = _Command(
        system_name,
        {"--set": settings, "--faults": faults},
        given,
        {**searching, "--depth": depth, "--max-steps": max_steps},
    )
    result: results.AuditResult = results.from_json(results.AuditResult, found.to_json())
    repeat_command = ""
    if result.violations:
        repeat_command = again.replaying(result.violations[0].token)
    elif resume and result.verdict == "undecided":
        repeat_command = again.resuming(resume)
    console.print(audit_text(result, repeat_command, verbose=verbose, gaps=gaps, quiet=quiet))
    if json_file:
        write_result(result, json_file)
    return VERDICT_EXITS[result.verdict]


def _wanted(
    system: Audited, arguments: Mapping[str, Any], said: Options, jobs: int, resume: str | None
) -> AuditRequest:
    if system.options.processes is not None:
        said = replace(said, processes=arguments.get("processes"))
    options = system.options.under(said)
    return request_of(system.function, options, arguments, system.name, jobs=jobs, checkpoint=resume)


def _refuse_contradictions(searching: Mapping[str, object], token: str | None) -> None:
    for name, value in searching.items():
        if value is not None and token is not None:
            raise BadRequest(f"--replay runs one schedule, and {name} is about a search; leave out either")
    strategy = searching["--strategy"] or "exhaustive"
    for name in ("--resume", "--jobs"):
        if searching[name] is not None and strategy != "exhaustive":
            raise BadRequest(f"{name} is for the exhaustive strategy, not for {strategy}; leave out either")
    if searching["--resume"] is not None and searching["--jobs"] is not None:
        raise BadRequest("--resume keeps the search of one process; leave out either it or --jobs")
    if searching["--depth"] is not None and strategy != "pct":
        raise BadRequest("--depth is the depth of pct; give --strategy pct with it")


def _read_flat(text: str) -> tuple[str, list[str]]:
    """`depth=1,20` as a name and its values, as they are written."""
    name, _, values = text.partition("=")
    found = values.split(",")
    if not name or len(found) < 2 or not all(found):
        raise BadRequest(f"--flat {text} must read NAME=A,B, as in --flat depth=1,20")
    return name, found


def _refuse_beside_flat(alone: Mapping[str, object]) -> None:
    for option, value in alone.items():
        if value is not None:
            raise BadRequest(f"--flat audits several sizes, and {option} is about one; leave out either")


def _refuse_beside_base(alone: Mapping[str, object]) -> None:
    for name, value in alone.items():
        if value is not None:
            raise BadRequest(f"--base compares two searches, and {name} is about one run; leave out either")


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


@contextlib.contextmanager
def _blamed(system: Audited) -> Iterator[None]:
    """Errors of the program's own set-up, and of what it was given, as one line each."""
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
def _prints_aside(*, aside: bool) -> Iterator[None]:
    """What the program prints goes elsewhere when standard output is to hold the result alone."""
    with contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext():
        yield


def _searched(request: AuditRequest) -> AuditResult:
    with _Line() as line:
        found = run_audit(request, line.show)
    if found.interrupted and not found.counterexamples:
        return replace(found, findings=("interrupted: this is what was found so far", *found.findings))
    return found


def _write_trace(events: Sequence[Event], target: str) -> None:
    """Write events as JSON lines, the whole file or nothing."""
    text = "".join(json.dumps(asdict(event), separators=(",", ":")) + "\n" for event in events)
    write_file(Path(target), text.encode(), "--trace")


class _Command:
    """The command that was given, as far as it is needed to see a failure again or to go on."""

    def __init__(
        self,
        name: str,
        lists: Mapping[str, tuple[str, ...]],
        values: Mapping[str, object],
        searching: Mapping[str, object],
    ) -> None:
        self._words = ["fencepost", "audit", name]
        for option, given in lists.items():
            for value in given:
                self._words += [option, value]
        self._words += _given(values)
        self._searching = _given(searching)

    @property
    def options(self) -> list[str]:
        return [*self._words[3:], *self._searching]

    def replaying(self, token: str) -> str:
        return shlex.join([*self._words, "--replay", token])

    def resuming(self, file: str) -> str:
        return shlex.join([*self._words, *self._searching, "--resume", file])


def _given(values: Mapping[str, object]) -> list[str]:
    return [
        word
        for option, value in values.items()
        if value is not None
        for word in (option, f"{value:g}" if isinstance(value, float) else str(value))
    ]


def _list() -> int:
    console = console_for(stderr=False)
    for stem, module_name in shipped().items():
        for name, found in read_shipped(stem, module_name).items():
            console.print(f"[bold]{name}[/]  {found.doc}")
            for parameter in find_system(name).parameters.values() if found.program else ():
                console.print(f"  parameter {parameter.name}={parameter.default}")
            for mutant in found.mutants:
                console.print(f"  mutant {mutant}")
    return Exit.HOLDS


class _Line(StatusLine):
    def __init__(self) -> None:
        super().__init__()
        self._started = self._shown = time.perf_counter()

    def show(self, search: Any) -> None:
        now = time.perf_counter()
        if self.hidden or now - self._shown < LOOK_EVERY_S:
            return
        self._shown = now
        self.show_text(progress_text(search, now - self._started))


def progress_text(search: Any, seconds: float) -> str:
    """How far a search has come: runs, how fast, and by estimate how many are left."""
    runs = search.runs if hasattr(search, "runs") else search.schedules
    left = search.still_to_run() if hasattr(search, "still_to_run") else None
    rate = runs / seconds if seconds > 0 else 0.0
    said = f"{amount(runs)} runs, {amount(round(rate))}/s, {seconds:.0f} s"
    if left is None:
        return said
    ahead = f", about {left / rate:,.0f} s" if rate else ""
    return f"{said}; by estimate {amount(left)} left{ahead}"
