"""`holdfast completion SHELL`: the script that lets a shell complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_HOLDFAST_COMPLETE"

EPILOG = """To use it, put one of these into your shell's start-up file:
bash: eval "$(holdfast completion bash)";  zsh: eval "$(holdfast completion zsh)";
fish: holdfast completion fish | source."""


@click.command("completion", short_help="Let your shell complete commands, options and names.", epilog=EPILOG)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> int:
    """Print the script that completes holdfast in SHELL."""
    from holdfast.commands.entry import group

    found = get_completion_class(shell)
    assert found is not None, "click knows all of SHELLS"
    click.echo(found(group, {}, "holdfast", VARIABLE).source())
    return 0
