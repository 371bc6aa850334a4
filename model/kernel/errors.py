"""What goes wrong with a machine, by who must act.

    ModelError
      ModellingMistake    the author of the machine: the machine says something it cannot mean
        FieldOverflow     ... an action gave a bounded field a value it cannot hold
      BadSettings         whoever asked: a size, a safeguard or a bound that makes no sense
        NoRoom            ... a directory that cannot take what does not fit into memory

Every message says what was found, where, and what to write instead.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


class ModelError(Exception):
    """The root; catch this one to catch them all."""


class ModellingMistake(ModelError):
    """The machine's own text is wrong: fix the machine."""


class FieldOverflow(ModellingMistake):
    """An action gave a bounded field a value it cannot hold. Never a silent wrap."""

    def __init__(self, message: str, *, action: str, field: str, state: Mapping[str, object]) -> None:
        super().__init__(message)
        self.action = action
        self.field = field
        self.state = state


class BadSettings(ModelError):
    """The machine is fine, what was asked of it is not: fix the call or the command line."""


class NoRoom(BadSettings):
    """The directory for what does not fit into memory is missing, read only, or full."""


def names(known: Iterable[str]) -> str:
    """`a, b, c`, or `none`."""
    return ", ".join(known) or "none"


def suggestion(error: object, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` when a known name is near, else nothing."""
    near = get_close_matches(str(error), list(known), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""
