"""`fencepost completion SHELL`: the script that lets a shell complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

from fencepost.commands.messages import say

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_FENCEPOST_COMPLETE"

EPILOG = """To use it, put one of these into your shell's start-up file:
bash: eval "$(fencepost completion bash)";  zsh: eval "$(fencepost completion zsh)";
fish: fencepost completion fish | source."""


@click.command("completion", short_help="Let your shell complete commands, options and names.", epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that completes fencepost in SHELL."""
    from fencepost.commands.entry import group

    found = get_completion_class(shell)
    assert found is not None, "click knows all of SHELLS"
    say(found(group, {}, "fencepost", VARIABLE).source())
    return 0
