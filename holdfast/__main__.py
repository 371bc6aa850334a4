"""`python -m holdfast` is the command line."""

from holdfast.commands import main

main()
