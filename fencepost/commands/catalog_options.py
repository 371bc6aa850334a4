"""Options that the catalog's commands share, and how they end: one text for people, one JSON for machines."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from fencepost.commands.catalog_open import MAIN
from fencepost.commands.exit_codes import Exit
from fencepost.commands.output_files import TARGET, write_json

AUTHOR = click.option("--author", metavar="NAME", help="Who commits.  [default: your user name]")
BRANCH = click.option("--branch", default=MAIN, show_default=True, help="Of the catalog.")
MESSAGE = click.option("--message", "-m", default="", help="What the log shall say.")
JSON = click.option(
    "--json", "json_file", type=TARGET, metavar="FILE", help="Write the result as JSON; - is standard output."
)


def finish(found: Mapping[str, Any], text: str, json_file: str | None, code: int = Exit.HOLDS) -> int:
    """Say how it ended, and answer the exit code."""
    if text:
        stream = sys.stderr if json_file == "-" else sys.stdout
        stream.write(text if text.endswith("\n") else f"{text}\n")
    if json_file:
        write_json(found, json_file)
    return code
