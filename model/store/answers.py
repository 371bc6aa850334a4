"""What becomes of a request, and what its sender is told.

The tuples are domains for the parameter `answer` of an action, to be joined as the protocol needs them:
`@action(c=clients, answer=(*CREATE, "conflict", *UNKNOWN))`.
"""

from typing import Any, Self

from fencepost.model.kernel.language.errors import ModellingMistake, names, suggestion

CREATE = ("done", "exists")
"""What a create-only put may be told when nothing goes wrong."""
REPLACE = ("done", "changed", "missing")
"""The same of an if-match put, and of an if-match delete."""
PUT = ("done",)
"""The same of an unconditional put."""
DELETE = ("done",)
"""The same of an unconditional delete."""
NOT_NOW = ("conflict", "throttled")
"""409 and 503: not applied, told, worth asking again."""
UNKNOWN = ("reply-lost", "lost", "late")
"""The sender is not told: applied, not applied, or not applied yet."""
FAULTS = (*NOT_NOW, *UNKNOWN)
"""Everything that is not an orderly answer."""

REFUSED = ("exists", "changed", "missing")
APPLIED = ("done", "reply-lost")

POSSIBLE = {
    "create": (*CREATE, *FAULTS),
    "replace": (*REPLACE, *FAULTS),
    "put": (*PUT, "throttled", *UNKNOWN),
    "delete": (*DELETE, "throttled", *UNKNOWN),
    "delete-match": (*REPLACE, *FAULTS),
    "delete-version": (*DELETE, "throttled", *UNKNOWN),
}
"""Every operation with all that may become of it."""

WRITES = ("create", "replace", "put")
CONDITIONAL = ("create", "replace", "delete-match")


WORDS = ("done", *REFUSED, *NOT_NOW, "unknown")
"""All that a sender can be told."""


class Told(str):
    """What the sender is told: done, exists, changed, missing, conflict, throttled or unknown.

    It is the same for all rows of the action, so plain Python may branch on it: `if told == "done"`.
    """

    __slots__ = ("applied",)
    applied: bool
    """Whether the request has taken effect. The sender may not know: for ghost fields only."""

    def __new__(cls, operation: str, answer: str) -> Self:
        known = POSSIBLE[operation]
        if answer not in known:
            raise ModellingMistake(
                f"{operation} is never answered {answer!r}{suggestion(answer, known)}; "
                f"what may become of it: {names(known)}"
            )
        told = super().__new__(cls, "unknown" if answer in UNKNOWN else answer)
        told.applied = answer in APPLIED
        return told

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and other not in WORDS:
            raise ModellingMistake(
                f"a sender is never told {other!r}{suggestion(other, WORDS)}; it may be told {names(WORDS)}"
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def to(self, *, refused: Any = None, **follows: Any) -> Any:
        """What follows from what was told; `refused` stands for exists, changed and missing."""
        if self in follows:
            return follows[self]
        if refused is not None and self in REFUSED:
            return refused
        given = [*follows, *(["refused"] if refused is not None else [])]
        raise ModellingMistake(
            f"the request may be told '{self}', and nothing says what follows from that; write "
            f".to({self}=..., ...) (there is: {names(given)})"
        )
