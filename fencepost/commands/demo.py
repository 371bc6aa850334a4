"""`fencepost demo`: the tour. Runs the other commands as a user would, and reports what they found.

Everything happens on this machine: no service, no Java, no network. A stop whose library is not installed is
left out, and named. The output of a stop is shortened; the whole is in a file beside its result.
"""

import contextlib
import importlib
import importlib.util
import io
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.output_files import TARGET
from fencepost.sim.systems import SYSTEMS

FOLDER = "fencepost-demo"
HEAD, TAIL = 2, 1
"""Lines that are shown of the output of most stops: the first and the last ones."""

EPILOG = """Exit codes: 0 every stop ended as it should, 1 one did not, 2 the request made no sense,
3 interrupted. Example: fencepost demo --out /tmp/tour."""


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: an explanation, the command, and the exit code that is expected."""

    text: str
    words: Sequence[str]
    expected: Exit
    needs: str = ""
    """A library without which this stop is left out."""
    broken: bool = False
    """True for a program that is wrong by itself: its output is shown whole, and the report counts it."""


def stops(folder: Path) -> list[Stop]:
    """The tour, with `folder` to write results in."""

    trace = str(folder / "trace.jsonl")
    shown = next(system for system in SYSTEMS.values() if system.demo_scenario)

    program = folder / "sold.py"
    program.write_text(resources.files("fencepost.examples").joinpath("sold.py").read_text())

    def result(name: str) -> list[str]:
        return ["--json", str(folder / f"{name}.json")]

    return [
        Stop(
            "Ordinary boto3 code: two buyers each add one to a number that If-Match protects.",
            ["audit", f"{program}:two_sales", *result("1-boto3")],
            Exit.VIOLATED,
            broken=True,
        ),
        Stop(
            "A model of a protocol that makes many tables visible in one commit. Every state is explored.",
            ["check", shown.name, *result("2-model")],
            Exit.HOLDS,
        ),
        Stop(
            "Every protective step has a name. Without this one, the shortest way to lose a write is:",
            ["check", shown.name, "--without", shown.demo_mutant, *result("3-model-without")],
            Exit.VIOLATED,
        ),
        Stop(
            "The library itself, without the same step: running it in every order finds the same loss.",
            ["audit", shown.name, "--mutant", shown.demo_mutant, *result("4-code-without")],
            Exit.VIOLATED,
            needs="pyarrow",
        ),
        Stop(
            "As it ships it holds, with a crash and a lost reply anywhere; the model allows every step.",
            [
                "audit",
                shown.name,
                "--set",
                f"scenario={shown.demo_scenario}",
                *result("5-code"),
                "--trace",
                trace,
            ],
            Exit.HOLDS,
            needs="pyarrow",
        ),
        Stop(
            "A trace of such a run, or of production, is replayed against the same model.",
            ["replay", trace, "--model", shown.name, *result("6-trace")],
            Exit.HOLDS,
            needs="pyarrow",
        ),
        Stop(
            "In simulated time: a write path under a cap on requests, and the effect of compaction.",
            ["simulate", "rfc-013-capped", *result("7-capacity")],
            Exit.HOLDS,
        ),
    ]


def after(folder: Path) -> tuple[str, ...]:
    """Three commands to try next."""
    return (
        "fencepost audit path/to/your_code.py:function     (docs/guides/audit-your-code.md)",
        "fencepost check two-phase --explore",
        f"fencepost probe file://{folder.resolve()}/store",
    )


@click.command("demo", short_help="The tour, in under two minutes.", epilog=EPILOG)
@click.option("--out", metavar="DIR", default=FOLDER, show_default=True, help="Results and report.")
@click.option(
    "--json",
    "json_file",
    type=TARGET,
    metavar="FILE",
    help="Write how it ended as JSON; - is standard output.",
)
def command(out: str, json_file: str | None) -> int:
    """Check, audit, replay and simulate, on this machine, with no service and no Java, in under two minutes.
    Ends with a report of everything, and three commands to try next.
    """
    importlib.import_module("fencepost.commands.audit")  # ends here when the harness is not installed
    folder = _folder(out)
    aside = json_file == "-"
    started = time.perf_counter()
    tour = stops(folder)
    left_out = [stop for stop in tour if stop.needs and importlib.util.find_spec(stop.needs) is None]
    surprises = []
    try:
        for number, stop in enumerate(tour, start=1):
            if stop in left_out:
                click.secho(f"\n[{number}/{len(tour)}] left out: {stop.needs} is not installed", err=aside)
                continue
            surprises += _visit(f"{number}/{len(tour)}", stop, folder / f"{number}.txt", aside=aside)
        ending = Exit.VIOLATED if any(stop.broken for stop in tour if stop not in left_out) else Exit.HOLDS
        surprises += _visit("last", _report(folder, ending), folder / "report.txt", aside=aside)
    except _Stopped:
        say(f"\nThe rest of the tour is left out. What there is: {folder}", err=aside)
        return Exit.UNDECIDED
    took = time.perf_counter() - started
    click.secho(f"\nThat took {took:.0f} s. The report: {folder / 'report.html'}", bold=True, err=aside)
    for line in _not_shown(left_out):
        say(line, err=aside)
    say("To go on:", err=aside)
    for words in after(folder):
        say(f"  {words}", err=aside)
    for surprise in surprises:
        click.secho(f"unexpected: {surprise}", fg="red", err=True)
    if json_file:
        from fencepost.commands.output_files import write_result

        ended = {
            "verdict": "violated" if surprises else "holds",
            "report": str(folder / "report.html"),
            "surprises": surprises,
            "left_out": [" ".join(stop.words[:2]) for stop in left_out],
        }
        write_result(ended, json_file)
    return Exit.VIOLATED if surprises else Exit.HOLDS


class _Stopped(Exception):
    """Ctrl-C ended a stop: no stop has a bound that could leave it undecided."""


def _report(folder: Path, expected: Exit) -> Stop:
    """The page sets the violations that the tour made on purpose apart."""
    return Stop(
        "Everything above as one page, which can be attached to a pull request.",
        ["report", str(folder), "--title", "Fencepost demo"],
        expected,
    )


def _not_shown(left_out: Sequence[Stop]) -> list[str]:
    lines = [
        "Not shown: a real store (fencepost probe), and traces of production on Spark, which needs Java."
    ]
    if left_out:
        needed = ", ".join(sorted({stop.needs for stop in left_out}))
        lines.append(f"Left out without {needed}: pip install 'fencepost[catalog]' installs it.")
    return lines


def _folder(out: str) -> Path:
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".fencepost").write_text("")
        (folder / ".fencepost").unlink()
    except OSError as error:
        raise BadRequest(
            f"cannot write to {out}: {error.strerror}; give --out a folder you may write to"
        ) from error
    return folder


def _visit(number: str, stop: Stop, file: Path, *, aside: bool) -> list[str]:
    """Run one stop, keep its output in `file`, and return what was unexpected."""
    from fencepost.commands.entry import group, run

    line = shlex.join(["fencepost", *stop.words])
    click.secho(f"\n[{number}] {stop.text}", bold=True, err=aside)
    click.secho(f"$ {line}", fg="cyan", err=aside)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = run(lambda: group.main(list(stop.words), standalone_mode=False))
    file.write_text(printed.getvalue())
    lines = printed.getvalue().splitlines()
    for shown in lines if stop.broken else _shortened(lines, file):
        say(shown, err=aside)
    if code == Exit.UNDECIDED:
        raise _Stopped
    return [] if code == stop.expected else [f"`{line}` ended with {code}, expected {int(stop.expected)}"]


def _shortened(lines: Sequence[str], file: Path) -> list[str]:
    if len(lines) <= HEAD + TAIL + 1:
        return list(lines)
    return [*lines[:HEAD], f"... {len(lines) - HEAD - TAIL} lines more in {file}", *lines[-TAIL:]]
