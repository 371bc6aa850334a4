"""Declaration and error handling of the commands that operate on a user's store."""

import functools
import getpass
import resource
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click

from fencepost.commands.entry import EXTRAS
from fencepost.commands.exit_codes import BadRequest, Exit
from fencepost.commands.messages import say
from fencepost.commands.output_files import write_json
from fencepost.commands.values import Address
from fencepost.reports.media import printable


class Result(NamedTuple):
    """The result of a command: JSON for programs, a text for people, an exit code."""

    found: Mapping[str, Any]
    text: str = ""
    code: int = Exit.HOLDS


Act = Callable[..., Result | Iterator[Result]]
Parameter = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Ending:
    """An exception that ends a command of a system with one line and an exit code."""

    errors: type[BaseException] | tuple[type[BaseException], ...]
    code: Exit
    text: Callable[[Any], str] = str


AGAIN = "{}; run the command again".format
"""The text of an error that another attempt may not meet."""


@dataclass(frozen=True)
class ErrorContract:
    """The error contract of the commands of one system: the first ending that fits decides.

    `endings` is called when a command runs, so that it may import its exceptions then.
    """

    endings: Callable[[], Sequence[Ending]]
    extra: str = ""
    """The extra of the package that the commands need (a key of EXTRAS)."""
    needs: str = ""
    """The sentence of the message when a module of the extra is missing."""

    def run(self, act: Callable[[], int]) -> int:
        """Run a command; turn the exceptions of its system into one line and an exit code."""
        endings = self.endings()
        try:
            return act()
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] not in EXTRAS.get(self.extra, ()):
                raise
            raise BadRequest(f"{self.needs}: pip install 'fencepost[{self.extra}]'") from None
        except BaseException as error:
            ending = next((one for one in endings if isinstance(error, one.errors)), None)
            if ending is None:
                raise
            if ending.code == Exit.BAD_REQUEST:
                raise BadRequest(ending.text(error)) from error
            return print_error(ending.text(error), ending.code)


def add_subcommand(
    group: click.Group,
    name: str,
    summary: str,
    parameters: Sequence[Parameter],
    contract: ErrorContract,
) -> Callable[[Act], click.Command]:
    """Add a command with these parameters, which returns one result or several."""

    def add(act: Act) -> click.Command:
        @functools.wraps(act)
        def run(json_file: str | None = None, **options: Any) -> int:
            return contract.run(lambda: _finish(act(**options), json_file))

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
            stream.write(printable(result.text if result.text.endswith("\n") else f"{result.text}\n"))
            stream.flush()
        if json_file:
            write_json(result.found, json_file)
        code = result.code
    return code


def print_error(text: str, code: Exit = Exit.HOLDS) -> Exit:
    say(f"fencepost: {' '.join(text.split())}", err=True)
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
    wanted = count + count // 4 + 512  # for refused ones that linger, for the store, and for ourselves
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            print_error(f"the system allows {hard} open files: --connections {count} is out of reach")
