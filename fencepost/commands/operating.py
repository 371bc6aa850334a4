"""What commands that operate on a user's store share: checks of its URL, tables as text."""

import getpass
from collections.abc import Sequence
from urllib.parse import urlsplit

from fencepost.commands.exit_codes import BadRequest


def refuse_memory(url: str) -> None:
    """A store in memory ends with the command."""
    if urlsplit(url).scheme == "memory":
        raise BadRequest(
            f"{url}: nothing would remain of it when this command ends; use file:///directory or s3://bucket"
        )


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
