"""`fencepost probe URL`: is this store safe to coordinate through, and how fast is it?"""

import contextlib
import dataclasses
import functools
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console

from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.output_files import TARGET, json_option, write_json, write_result
from fencepost.commands.terminal import StatusLine, verbose_option
from fencepost.commands.terminal import console as console_for
from fencepost.impl.store import Store, open_store
from fencepost.reports.probe_text import probe_text
from fencepost.sim.probe import BY_NAME, FEATURES, QUICK, THOROUGH, Plan, Probe, ProbeResult

EPILOG = """Exit codes: 0 safe, 1 unsafe, 2 the request made no sense or the store cannot be used, 3 undecided
or unsupported. The bound printed beside each race is how often a bad round could still happen. Probe the very
bucket you will use, for versioning changes the result."""


@click.command("probe", short_help="Certify a store for coordination.", epilog=EPILOG)
@click.argument("url", required=False)
@click.option("--quick", is_flag=True, help="Fewer rounds and keys: about 10 s.")
@click.option("--thorough", is_flag=True, help="Ten times the rounds: up to 15 min.")
@click.option("--rounds", type=click.IntRange(1, 1_000_000), help="Limit of rounds of each race.")
@click.option(
    "--budget",
    "seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Approximate time limit.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the mixed workload."
)
@click.option("--only", metavar="FEATURE,...", help="Probe only these features.")
@json_option
@click.option(
    "--profile", type=TARGET, metavar="FILE", help="Write the latency profile, for `fencepost simulate`."
)
@verbose_option
@click.option("--list", "listing", is_flag=True, help="List the features.")
def command(url: str | None, json_file: str | None, profile: str | None, **options: Any) -> int:
    """Certify the store at URL (memory://, file:///directory, s3://bucket/prefix?endpoint=...) for
    coordination: every condition tried on keys in every state, raced from threads and processes, and
    what is seen and listed afterwards. Works under a prefix of its own and removes what it wrote.
    """
    if options["listing"]:
        _list()
        return Exit.HOLDS
    if url is None:
        raise BadRequest(
            "name the store to probe, as in: fencepost probe s3://bucket?endpoint=http://host:9000"
        )
    if json_file == "-" and profile == "-":
        raise BadRequest("only one of --json and --profile can go to standard output")
    if options["quick"] and options["thorough"]:
        raise BadRequest("--quick and --thorough contradict each other; leave out either")
    plan = QUICK if options["quick"] else THOROUGH if options["thorough"] else Plan()
    changes = {name: options[name] for name in ("rounds", "seconds", "seed") if options[name] is not None}
    plan = dataclasses.replace(plan, **changes)
    names = _names(options["only"])
    with open_store(url) as store, _interruptible():
        console = console_for(stderr="-" in (json_file, profile), wrapped=True)
        result = _probe(store, plan, names, console)
    console.print(probe_text(result, verbose=options["verbose"]))
    if json_file:
        write_result(result, json_file)
    if profile:
        write_json(result.profile, profile)
    return VERDICT_EXITS[result.verdict]


def _names(only: str | None) -> list[str]:
    if only is None:
        return []
    names = list(dict.fromkeys(name.strip() for name in only.split(",") if name.strip()))
    unknown = [name for name in names if name not in BY_NAME]
    if unknown or not names:
        error = f"no feature is named {unknown[0]!r}" if unknown else "--only names no feature"
        raise BadRequest(f"{error}; `fencepost probe --list` lists them")
    return names


def _probe(store: Store, plan: Plan, names: list[str], console: Console) -> ProbeResult:
    """Announce what the probe will write, run it, and report what it could not remove."""
    # In memory there is nothing another process could open.
    shared = not store.url.startswith("memory:")
    opener = functools.partial(open_store, store.url) if shared else None
    probe = Probe(store, plan, opener=opener, only=names)
    probe.verify()
    console.print(probe.announcement(), highlight=False, soft_wrap=True)
    with StatusLine() as line:
        report = probe.run(lambda name, number, total: line.show_text(f"{name}, {number} of {total}"))
    if report.left:
        rest = f" and {len(report.left) - 1} more" if len(report.left) > 1 else ""
        say(
            f"fencepost: could not remove everything under {probe.prefix}: {report.left[0]}{rest}; "
            "remove it by hand",
            err=True,
        )
    return report


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Being terminated is like Ctrl-C: what was written is removed first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    kept = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, kept)


def _list() -> None:
    width = max(len(feature.name) for feature in FEATURES)
    for feature in FEATURES:
        sys.stdout.write(
            f"{feature.name:{width}}  {'core' if feature.core else '    '}  {feature.question}\n"
        )
