"""The lines of the user's code that issued an operation, for the one run that is shown to people.

Walking the frames at every request would cost more than the request, so a search does not; the run of a
counterexample is repeated with it.
"""

import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from fencepost.impl.store.errors import InvalidType
from fencepost.sim.world.present import is_library_file

FRAMES_MAX = 8
"""Of one operation: the innermost."""
_OURS = ("fencepost.sim.", "fencepost.impl.store.", "fencepost.testing")
_SHOWN = ("fencepost.impl.", "fencepost.examples.", "fencepost.sim.systems.")
"""Our own packages that are audited like a user's."""


class CodeLine(NamedTuple):
    """A line of a program."""

    file: str
    """Relative to the working directory, if it lies below it."""
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class AuditError(Exception):
    """The program cannot be audited: its set-up or a check is wrong, or the world cannot control its code.

    This is no violation of a property.
    """

    def __init__(self, text: str, at: tuple[CodeLine, ...] = ()) -> None:
        super().__init__(f"{text} (at {at[-1]})" if at else text)
        self.at = at
        """The lines of the user's code, innermost last."""


def users_lines_of(error: BaseException) -> tuple[CodeLine, ...]:
    """Return the lines of the user's code through which an exception came, innermost last."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_shown(trace.tb_frame.f_globals.get("__name__", ""), code.co_filename):
            found.append(CodeLine(relative(code.co_filename), trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return tuple(found[-FRAMES_MAX:])


def line_of(function: Any) -> CodeLine:
    """Return the line where a function is defined."""
    code = function.__code__
    return CodeLine(relative(code.co_filename), code.co_firstlineno, code.co_name)


def mistake_of(error: BaseException) -> str:
    """Return the mistake in the set-up or the call that an exception shows; none for the protocol's own."""
    if isinstance(error, InvalidType):
        return "give the store bytes, and names as text"
    kind = type(error).__name__ if type(error).__module__.startswith("botocore.") else ""
    if kind == "ClientError" or kind.startswith("NoSuch"):
        code = getattr(error, "response", {}).get("Error", {}).get("Code")
        return "declare the bucket with world.boto3_bucket(NAME)" if code == "NoSuchBucket" else ""
    return _MISTAKES.get(kind, "")


_MISTAKES = {
    "ParamValidationError": "the SDK refuses the call before it is sent",
    "NoCredentialsError": "make the client inside of the program, with world.boto3_client()",
    "PartialCredentialsError": "make the client inside of the program, with world.boto3_client()",
    "NoRegionError": "make the client inside of the program, with world.boto3_client()",
}


def users_lines(frame: FrameType | None = None) -> tuple[CodeLine, ...]:
    """Return the lines of the user's code that lead to this frame, or to the caller; innermost last."""
    found: list[CodeLine] = []
    frame = frame or sys._getframe(1)  # noqa: SLF001 - as `inspect` does, which also reads the source files
    while frame is not None and len(found) < FRAMES_MAX:
        module, code = frame.f_globals.get("__name__", ""), frame.f_code
        if is_shown(module, code.co_filename):
            found.append(CodeLine(relative(code.co_filename), frame.f_lineno, code.co_name))
        frame = frame.f_back
    return tuple(reversed(found))


def is_shown(module: str, file: str) -> bool:
    if module.startswith(_OURS) and not module.startswith("fencepost.sim.systems."):
        return False
    return module.startswith(_SHOWN) or not (module.startswith("fencepost.") or is_library_file(file))


def relative(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
