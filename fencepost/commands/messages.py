"""Lines that commands print, and lines that servers log: text of others cannot act on the terminal."""

import logging
from typing import Any

import click

from fencepost.reports.media import one_line, printable


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line; control characters are written out."""
    click.echo(printable(text), err=err, nl=nl)  # noqa: TID251  the one door


class LogLine(logging.Formatter):
    """Formats a message as one line. A traceback follows on lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the name of logging
        record.message = one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802  the name of logging
        return printable(super().formatException(ei))
