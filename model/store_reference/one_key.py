"""One key: its object, and the outcome of a condition.

A condition sees only the ETag of the object at the key (an ETag is a fingerprint of content, and only the
current version is consulted), so a checker of histories carries nothing else.
"""

Standing = str | None
"""The ETag of the object at a key; `None` if there is none, or a delete marker."""
When = tuple[str] | tuple[str, str]
"""`("anything",)`, `("absent",)` or `("matches", etag)`."""
KeyOperation = tuple[str, When, str] | tuple[str, When] | tuple[str, str | None, str | None]
"""`("write", when, etag)`, `("delete", when)` or `("read", only_if, unless)`."""


def on_key(standing: Standing, operation: KeyOperation) -> tuple[Standing, str]:
    """The object at the key after `operation`, and its outcome.

    >>> on_key(None, ("write", ("absent",), "e1"))
    ('e1', 'done')
    >>> on_key("e1", ("write", ("absent",), "e2"))
    ('e1', 'exists')
    """
    match operation:
        case ("write", tuple() as when, str() as etag):
            refused = refusal(standing, when)
            return (standing, refused) if refused else (etag, "done")
        case ("delete", tuple() as when):
            refused = refusal(standing, when)
            return (standing, refused) if refused else (None, "done")
        case ("read", only_if, unless):
            return standing, reading(standing, only_if, unless)
    raise ValueError(f"{operation!r} is no operation on a key")


def refusal(standing: Standing, when: When) -> str:
    """Why a write or delete under condition `when` is refused; empty when it is not."""
    match when:
        case ("anything",):
            return ""
        case ("absent",):
            return "" if standing is None else "exists"
        case ("matches", etag):
            if standing is None:
                return "missing"
            return "" if standing == etag else "changed"
    raise ValueError(f"{when!r} is no condition")


def reading(standing: Standing, only_if: object, unless: object) -> str:
    """The outcome of reading a key; `only_if` is looked at first, as HTTP has it."""
    if standing is None:
        return "missing"
    if only_if is not None and standing != only_if:
        return "changed"
    if unless is not None and standing == unless:
        return "unchanged"
    return "done"
