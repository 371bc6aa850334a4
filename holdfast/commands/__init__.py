"""The command line: one module a subcommand, loaded only when it is called."""

from holdfast.commands.main import main

__all__ = ["main"]
