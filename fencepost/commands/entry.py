"""The entry point: finds the subcommand, runs it, and turns its result into an exit code.

A subcommand is a module of this package with one click command named `command`. It returns its exit code (see
`Exit`), and raises `BadRequest` when the request makes no sense. A subcommand is imported when it is called,
so that `--help` is quick and loads no heavy library; that is why the table below has the summaries.
"""

import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

import fencepost
from fencepost.commands import hash_seed
from fencepost.commands.defaults import defaults
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.helping import complete_help
from fencepost.commands.messages import say
from fencepost.impl.store.errors import StoreError

WORDS = "fencepost.words"
"""The key of the command line's words in click's context."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Standard output can be a file on a full disk."""

EXTRAS = {
    "harness": ("greenlet", "httptools", "hypothesis", "networkx", "numpy", "rich", "simpy"),
    "catalog": ("pyarrow",),
    "ingest": ("starlette", "uvicorn", "httptools", "httpx", "prometheus_client", "zstandard"),
    "objects": ("starlette", "uvicorn", "httptools", "prometheus_client"),
    "plots": ("matplotlib",),
    "spark": ("pyspark", "pandas"),
}
"""The modules of each extra of the package. tests/test_extras.py compares them with pyproject.toml."""

SUMMARIES = {
    "demo": "The tour: what Fencepost does, on your machine, in under two minutes.",
    "check": "Explore every reachable state of a model; verdicts and shortest counterexamples.",
    "zoo": "Switch off every safeguard of every model, one at a time: what breaks.",
    "audit": "Drive real code through every interleaving, crash and lost response.",
    "probe": "Certify a store for coordination and measure its latency.",
    "simulate": "Simulate capacity: latency, throughput and cost in simulated time.",
    "report": "Write one page of the results of the other commands.",
    "ingest": "Accept batches from many agents exactly once, with any of several collectors.",
    "objects": "Serve a directory as an S3 server whose conditional writes are linearizable.",
    "lifecycle": "Expire objects by the rules of their buckets, from a change log or by walks.",
    "streams": "Serve durable streams on any store, with retention that never loses and never leaks.",
    "proxy": "Put a slow, narrow and unreliable proxy in front of a store.",
    "replay": "Validate traces of real runs against a model, at scale.",
    "catalog": "Keep a small dataset of many tables in a bucket.",
    "completion": "Print the script that completes commands, options and names in a shell.",
}


PURPOSES = {
    "Begin": ("demo",),
    "Prove": ("check", "zoo"),
    "Attack": ("audit", "proxy"),
    "Certify": ("probe",),
    "Time": ("simulate",),
    "Watch": ("replay", "report"),
    "Run": ("objects", "lifecycle", "ingest", "streams", "catalog"),
    "Set up": ("completion",),
}
"""The commands by what they are for, in the order of the help."""


class OutputClosed(Exception):
    """The reader of our output went away. Click would end the program if it got the error of the system."""


@contextlib.contextmanager
def _noticing_closed_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise OutputClosed from error


class Subcommands(click.Group):
    """A click group whose commands are imported on demand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)  # a result names the command that made it
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _noticing_closed_output():  # --help prints here
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _noticing_closed_output():
                return super().invoke(ctx)
        except SystemExit as ended:
            # No command does this: the code that it ran did, and its code would pass for a verdict.
            raise BadRequest(
                f"the code that was run ends the program ({ended!r}); let it return or raise instead"
            ) from ended

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUMMARIES:
            return None
        module = importlib.import_module(f"fencepost.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        complete_help(command, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        near = [] if name in SUMMARIES or name.startswith("-") else get_close_matches(name, SUMMARIES, 1)
        if near:
            raise click.UsageError(f"No such command '{name}'. Did you mean '{near[0]}'?", ctx)
        found = super().resolve_command(ctx, args)
        if isinstance(found[1], click.Command) and name in SUMMARIES:
            ctx.default_map = {name: defaults(name, found[1], Path.cwd())}
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for purpose, names in PURPOSES.items():
            with formatter.section(purpose):
                formatter.write_dl([(name, SUMMARIES[name]) for name in names])


@click.group(
    cls=Subcommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 holds, 1 violated, 2 the request made no sense, 3 not decided within the bounds. "
    "Defaults of options: [tool.fencepost.COMMAND] in pyproject.toml. Example: fencepost check two-phase.",
)
@click.version_option(fencepost.__version__, prog_name="fencepost")
def group() -> None:
    """Model-check, fault-test, simulate and monitor protocols built on S3 conditional writes."""


def run(act: Callable[[], object]) -> int:
    """Run `act` and return the exit code, with one line on standard error for an error."""
    try:
        ended = act()
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as no_arguments:
        say(no_arguments.ctx.get_help())
        return Exit.BAD_REQUEST
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "fencepost"
        message = error.format_message()
        return _refuse(f"{message}{'' if message.endswith(('.', '?')) else '.'} Try '{where} --help'.")
    except click.ClickException as error:
        return _refuse(error.format_message())
    except (BadRequest, StoreError) as error:
        return _refuse(str(error))
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in EXTRAS.items() if missing in modules), None)
        if extra is None:
            raise
        return _refuse(f"this needs {missing}, which is not installed; pip install 'fencepost[{extra}]'")
    except (OutputClosed, BrokenPipeError):
        # As in `fencepost ... | head`: no reader is left for a message.
        _discard_output()
        return Exit.UNDECIDED
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return _refuse(f"the name of a file is too long: {error.filename}")
        if error.errno not in NO_ROOM:
            raise
        return _refuse(
            f"cannot write: {error.strerror}; the command may have done its work without reporting it"
        )
    except (KeyboardInterrupt, click.Abort):
        say("fencepost: interrupted", err=True)
        return Exit.UNDECIDED
    return int(ended) if isinstance(ended, int) else Exit.HOLDS


def _discard_output() -> None:
    """Nothing that is still buffered may fail when the interpreter closes its streams."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(message: str) -> int:
    say(f"fencepost: {' '.join(message.split())}", err=True)
    return Exit.BAD_REQUEST


def main() -> None:
    """The console script."""
    hash_seed.pin()
    sys.exit(run(lambda: group.main(standalone_mode=False)))
