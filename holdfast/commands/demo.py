"""`holdfast demo`: the tour. Runs the other commands as a user would, on this machine, with no service."""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.commands.ending import Exit

NEXT = (
    "holdfast check two-phase --explore",
    "holdfast audit your_code.py:function        (docs/guides/audit-your-code.md)",
    "holdfast probe file:///tmp/a-directory-of-yours",
    "holdfast --help",
)
ASKED = (
    "create-only-put",
    "if-match-put",
    "racing-creates-processes",
    "counter-processes",
    "list-after-write",
    "linearizability",
)
"""What a first look at a store needs; the rest is `holdfast probe` without --only."""


@dataclass(frozen=True)
class Stop:
    """One stop of the tour: what is shown, the command that shows it, and how it must end."""

    says: str
    words: Sequence[str]
    ends: Exit


def stops(directory: Path) -> list[Stop]:
    """The tour, with `directory` to write in."""
    return [
        Stop(
            "A protocol is first a model: a state machine whose every reachable state is looked at.",
            ["check", "two-phase", "--set", "managers=5"],
            Exit.HOLDS,
        ),
        Stop(
            "Every protective step has a name. Switched off, it must break something, and this is how.",
            ["check", "two-phase", "--without", "all-prepared"],
            Exit.VIOLATED,
        ),
        Stop(
            "Then the real code: run through every interleaving, with a crash and a lost reply anywhere.",
            ["audit", "election"],
            Exit.HOLDS,
        ),
        Stop(
            "The same code with its classic mistake. The last line printed replays the failure.",
            ["audit", "election", "--mutant", "check-then-create"],
            Exit.VIOLATED,
        ),
        Stop(
            "A protocol is only as good as its store. This one is a directory; it could be your S3 server.",
            ["probe", directory.as_uri(), "--rounds", "20", "--seconds", "60", "--only", ",".join(ASKED)],
            Exit.HOLDS,
        ),
    ]


@click.command("demo", short_help="The tour, in under two minutes.")
def command() -> int:
    """Show what Holdfast does, on this machine: no service and no Java needed, in under two minutes."""
    started = time.perf_counter()
    surprises = []
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as directory:
        tour = stops(Path(directory))
        for number, stop in enumerate(tour, start=1):
            surprises += _visit(f"{number}/{len(tour)}", stop)
    click.secho(f"\nThat took {time.perf_counter() - started:.0f} s. To go on:", bold=True)
    for words in NEXT:
        click.echo(f"  {words}")
    for surprise in surprises:
        click.secho(f"not as it should be: {surprise}", fg="red", err=True)
    return Exit.VIOLATED if surprises else Exit.HOLDS


def _visit(number: str, stop: Stop) -> list[str]:
    """Run one stop; answers what surprised."""
    from holdfast.commands.entry import group, run

    line = " ".join(["holdfast", *stop.words])
    click.secho(f"\n[{number}] {stop.says}", bold=True)
    click.secho(f"$ {line}", fg="cyan")
    ended = run(lambda: group.main(list(stop.words), standalone_mode=False))
    if ended == stop.ends:
        return []
    return [f"`{line}` ended with {ended}, expected {int(stop.ends)}"]
