"""A create-only put as one call, where there is a compiled part to make it.

A put is half a dozen calls to the system, and for each the interpreter's lock is given up and won back. With
more threads than processors, on a disk that answers in a tenth of a millisecond, that is most of what a put
costs (docs/decisions/0013). Here it is given up once, for the steps of `writing` in their order:

    DRAFT   a file without a name, its attributes, its content, all durable
    NAME    the link
    FLUSH   the fsync of the folder

The call decides nothing. It returns the step that failed, its error (0 for success), the duration of the
flush in nanoseconds, and the ETag, which it computes on the way. A failure before the file has its name has
changed nothing, so the caller repeats the put step by step and meets the error there. The call may refuse
any unusual case; a system without it is only slower.
"""

import errno
from collections.abc import Callable

Create = Callable[[int, int, str, int, str, bytes, int, bytes], tuple[int, int, int, str]]
"""Of the folder for drafts, the folder and the name in it, what to flush the folder through, the name of the
attribute, its value, where in it there is room for the ETag, and the content."""


def _compiled() -> Create | None:
    try:
        from fencepost.impl.store.files import _together
    except ImportError:  # installed without a compiler
        return None
    found: Create | None = getattr(_together, "create", None)  # a system may lack what it takes
    return found


create = _compiled()

DRAFT, NAME, FLUSH = range(3)

CALLER_FLUSHES = -1
"""In place of the descriptor to flush the folder through: do not."""

BODY_BYTES_MAX = 1 << 16
"""A longer body costs its bytes, not its calls, and would be dear to write again."""

_NEVER = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.EISDIR, errno.EINVAL, errno.ENOSYS, errno.EPERM})


def hopeless(failed: int, error: int) -> bool:
    """Return True if every later call would fail the same way.

    Then this file system has no files without a name, no attributes, or no write that is its own fsync.
    """
    return failed == DRAFT and error in _NEVER
