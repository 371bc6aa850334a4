"""`fencepost demo`: the tour. Runs the other commands as a user would, and makes a report of what they found.

Everything happens on this machine: no service, no Java, no network. What the machine lacks for a stop (a
library that is an extra) is said, and that stop is left out.
"""

import contextlib
import importlib.util
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.output_files import TARGET

FOLDER = "fencepost-demo"

EPILOG = """Exit codes: 0 every stop ended as it should, 1 one did not, 2 the request made no sense,
3 interrupted. Example: fencepost demo --out /tmp/tour."""


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: what is shown, the command that shows it, and how it must end."""

    says: str
    words: Sequence[str]
    ends: Exit
    needs: str = ""
    """A library without which this stop is left out."""


def stops(folder: Path) -> list[Stop]:
    """The tour, with `folder` to write results in."""

    trace = str(folder / "trace.jsonl")

    def result(name: str) -> list[str]:
        return ["--json", str(folder / f"{name}.json")]

    return [
        Stop(
            "A protocol is first a model. This one makes many tables visible in one commit; every state "
            "of it is looked at.",
            ["check", "publish", *result("1-model")],
            Exit.HOLDS,
        ),
        Stop(
            "Every protective step has a name. Without this one, here is the shortest way to lose a write.",
            ["check", "publish", "--without", "create-only-manifest", *result("2-model-without")],
            Exit.VIOLATED,
        ),
        Stop(
            "Then the library itself, the code that ships, with the same step taken out: the same loss, "
            "found by running it in every order. The last line printed replays it.",
            ["audit", "publish", "--mutant", "create-only-manifest", *result("3-code-without")],
            Exit.VIOLATED,
            needs="pyarrow",
        ),
        Stop(
            "As it ships it holds: a writer is taken over by another, with a crash and a lost reply "
            "anywhere, and every step of every run is one the model allows. One run is kept as a trace.",
            ["audit", "publish", "--set", "scenario=takeover", *result("4-code"), "--trace", trace],
            Exit.HOLDS,
            needs="pyarrow",
        ),
        Stop(
            "A trace, from here or from production, is held against the same model.",
            ["replay", trace, "--model", "publish", *result("5-trace")],
            Exit.HOLDS,
            needs="pyarrow",
        ),
        Stop(
            "How will it do? In simulated time, a measured write path of another system: a cap on requests "
            "in flight, a history nobody compacts, and what compaction buys.",
            ["simulate", "rfc-013-capped", *result("6-capacity")],
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
            surprises += _visit(f"{number}/{len(tour)}", stop, aside=aside)
        surprises += _visit("last", _report(folder), aside=aside)
    except _Stopped:
        click.echo(f"\nThe rest of the tour is left out. What there is: {folder}", err=aside)
        return Exit.UNDECIDED
    took = time.perf_counter() - started
    click.secho(f"\nThat took {took:.0f} s. The report: {folder / 'report.html'}", bold=True, err=aside)
    for line in _not_shown(left_out):
        click.echo(line, err=aside)
    click.echo("To go on:", err=aside)
    for words in after(folder):
        click.echo(f"  {words}", err=aside)
    for surprise in surprises:
        click.secho(f"not as it should be: {surprise}", fg="red", err=True)
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


@contextlib.contextmanager
def _prints_aside(aside: bool) -> Iterator[None]:
    """What the stops print goes elsewhere when standard output is to hold the result alone."""
    with contextlib.redirect_stdout(sys.stderr) if aside else contextlib.nullcontext():
        yield


def _report(folder: Path) -> Stop:
    """The page must tell of the two violations that the tour made on purpose."""
    return Stop(
        "Everything above as one page, which can be attached to a pull request.",
        ["report", str(folder), "--title", "Fencepost demo"],
        Exit.VIOLATED,
    )


def _not_shown(left_out: Sequence[Stop]) -> list[str]:
    lines = [
        "Not shown: a real store (fencepost probe), and traces of production on Spark, which needs Java."
    ]
    if left_out:
        needed = ", ".join(sorted({stop.needs for stop in left_out}))
        lines.append(f"Left out for want of {needed}: pip install 'fencepost[catalog]' brings it.")
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


def _visit(number: str, stop: Stop, *, aside: bool) -> list[str]:
    """Run one stop; answers what surprised."""
    from fencepost.commands.entry import group, run

    line = shlex.join(["fencepost", *stop.words])
    click.secho(f"\n[{number}] {stop.says}", bold=True, err=aside)
    click.secho(f"$ {line}", fg="cyan", err=aside)
    with _prints_aside(aside):
        ended = run(lambda: group.main(list(stop.words), standalone_mode=False))
    if ended == Exit.UNDECIDED:
        raise _Stopped
    if ended == stop.ends:
        return []
    return [f"`{line}` ended with {ended}, expected {int(stop.ends)}"]
