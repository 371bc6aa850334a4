"""`python -m fencepost` is the command line."""

from fencepost.commands import main

main()
