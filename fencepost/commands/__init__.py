"""The command line: one module a subcommand, loaded only when it is called."""

from fencepost.commands.entry import main
