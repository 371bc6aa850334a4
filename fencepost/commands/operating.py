"""What commands that operate on a user's store share: how they are declared and how they end."""

import functools
import getpass
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.output_files import write_json
from fencepost.commands.values import Address


class Result(NamedTuple):
    """How a command ended: JSON for programs, a text for people, an exit code."""

    found: Mapping[str, Any]
    text: str = ""
    code: int = Exit.HOLDS


Act = Callable[..., Result | Iterator[Result]]
Parameter = Callable[[Callable[..., Any]], Callable[..., Any]]


def add_subcommand(
    group: click.Group,
    name: str,
    summary: str,
    parameters: Sequence[Parameter],
    reporting: Callable[[Callable[[], int]], int],
) -> Callable[[Act], click.Command]:
    """Add a command with these parameters, which returns one result or several.

    `reporting` runs it and turns the exceptions of its system into one line and an exit code.
    """

    def add(act: Act) -> click.Command:
        @functools.wraps(act)
        def run(json_file: str | None = None, **options: Any) -> int:
            return reporting(lambda: _finish(act(**options), json_file))

        parametrized: Callable[..., int] = run
        for parameter in reversed(parameters):
            parametrized = parameter(parametrized)
        return group.command(name, short_help=summary)(parametrized)

    return add


def _finish(results: Result | Iterator[Result], json_file: str | None) -> int:
    code: int = Exit.HOLDS
    for result in [results] if isinstance(results, Result) else results:
        if result.text:
            stream = sys.stderr if json_file == "-" else sys.stdout
            stream.write(result.text if result.text.endswith("\n") else f"{result.text}\n")
            stream.flush()
        if json_file:
            write_json(result.found, json_file)
        code = result.code
    return code


def print_error(text: str, code: Exit = Exit.HOLDS) -> Exit:
    click.echo(f"fencepost: {' '.join(text.split())}", err=True)
    return code


def refuse_memory(url: str) -> None:
    """A store in memory ends with the command."""
    if urlsplit(url).scheme == "memory":
        raise BadRequest(
            f"{url}: nothing would remain of it when this command ends; use file:///directory or s3://bucket"
        )


def bind(listen: Address) -> socket.socket:
    """The socket of a server."""
    from fencepost.impl.http.server import listener

    try:
        return listener(listen.host, listen.port)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadRequest(f"cannot listen on {listen}: {why}; give another --listen") from None


def user_name() -> str:
    """The default author of a decision or a commit."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "somebody"


def format_table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns under their names, two spaces apart."""
    lines = [names, *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    padded = (
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in lines
    )
    return "".join(f"{line.rstrip()}\n" for line in padded)


def allow_connections(count: int) -> None:
    """Raise the soft limit on file descriptors, one per connection; in a shell it is often 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 512  # for the store, and for ourselves
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            print_error(f"the system allows {hard} open files: --connections {count} is out of reach")
