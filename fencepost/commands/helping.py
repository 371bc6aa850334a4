"""Parts of every help: one name for values of one kind, an example, and completion of files."""

import click
from click.shell_completion import CompletionItem

from fencepost.commands.values import strict

VALUES = {
    "ACCESS_KEY": "backup",
    "AGENT": "agent-1",
    "ARN": "arn:aws:iam::123456789012:role/collector",
    "BOOT": "1",
    "BUCKET": "my-bucket",
    "DIR": "out",
    "FILE": "agents.toml",
    "KEY...": "7",
    "METRIC": "cpu.load",
    "N": "3",
    "NAME": "node-1",
    "PLAN": "01J8ZQ4V9W6X7Y8Z9A0B1C2D3E",
    "SEQ_END": "4",
    "SEQ_START": "3",
    "TABLE": "person",
    "TABLE=FILE...": "person=people.csv",
    "TIME": "2026-11-20T07:00Z",
    "URL": "s3://my-bucket/data",
}
"""A value of each kind, for examples."""
FILES = ("FILE", "TRACES", "SCENARIO", "SYSTEM", "MODEL")
FOLDERS = ("DIR",)


class FileName(click.ParamType[str]):
    """A text that names a file or a folder: the shell completes it."""

    name = "text"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type=self._kind)]


def complete_help(command: click.Command, words: str) -> None:
    """Complete the help of a command, which is called `fencepost WORDS`, and of those below it."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            complete_help(inner, f"{words} {name}")
    for parameter in command.params:
        parameter.type = strict(parameter.type)
        if isinstance(parameter, click.Option) and parameter.metavar is None and not parameter.is_flag:
            kind = parameter.type.name
            # N is a whole number, X any other.
            parameter.metavar = "N" if "whole" in kind else "X" if "number" in kind else None
        metavar = (parameter.metavar or "").rstrip(".").strip("[]")
        if parameter.type is click.STRING and metavar in (*FILES, *FOLDERS):
            parameter.type = FileName("dir" if metavar in FOLDERS else "file")
    if "xample" not in (command.epilog or ""):
        command.epilog = f"{command.epilog or ''} Example: fencepost {example(command, words)}.".strip()


def example(command: click.Command, words: str) -> str:
    """The words of one call: every argument, and the options that must be given."""
    if isinstance(command, click.Group) and command.commands:
        name, inner = next(iter(command.commands.items()))
        return example(inner, f"{words} {name}")
    parts = [words]
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            parts.append(_value(parameter))
        elif parameter.required:
            parts += [parameter.opts[0], _value(parameter)]
    return " ".join(parts)


def _value(parameter: click.Parameter) -> str:
    if isinstance(parameter.type, click.Choice):
        return str(next(iter(parameter.type.choices)))
    metavar = (parameter.metavar or (parameter.name or "").upper()).strip("[]")
    repeated = f"{metavar}..." if parameter.nargs < 0 and not metavar.endswith("...") else metavar
    return VALUES.get(repeated) or VALUES.get(metavar.rstrip(".")) or metavar.lower()
