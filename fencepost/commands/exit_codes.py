"""Exit codes, the same for every command, and the error that ends a command with code 2."""

import enum


class Exit(enum.IntEnum):
    """Exit codes, the same for every command."""

    HOLDS = 0
    VIOLATED = 1
    BAD_REQUEST = 2
    UNDECIDED = 3


VERDICT_EXITS = {
    "holds": Exit.HOLDS,
    "safe": Exit.HOLDS,
    "violated": Exit.VIOLATED,
    "unsafe": Exit.VIOLATED,
    "error": Exit.BAD_REQUEST,
    "undecided": Exit.UNDECIDED,
    "unsupported": Exit.UNDECIDED,
}


class BadRequest(Exception):
    """The request makes no sense. The message is one sentence: what is invalid, where, and how to fix it."""
