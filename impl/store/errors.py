"""The errors of a store. Outcomes that a protocol acts on are *not* here: they are values, see `interface`.

StoreError: nothing was applied, and a retry will not help until the person who is named here acts.

    ├── Misuse            the caller: the request can never make sense (a key with a NUL byte)
    ├── Unusable          the operator: the place is missing, full, read-only, or refuses us
    ├── Unsupported       the author who chose the store: it does not offer this operation
    └── BrokenPromise     the maker of the store: it gave an answer that it must never give

Each class addresses a different person. Messages name what was expected, what was found and what to try;
they may change, the types may not.
"""


class StoreError(Exception):
    """The request was not applied, and repeating it changes nothing."""


class Misuse(StoreError):
    """The request can never make sense."""


class InvalidType(Misuse):
    """A body or a name is no bytes or no text: a mistake in the code whatever the store does."""


class Unusable(StoreError):
    """The store's outside must change first: missing bucket, full disk, bad credentials."""


class Unsupported(StoreError):
    """This store does not offer the requested operation."""


class BrokenPromise(StoreError):
    """The store broke its contract; do not rely on any of its answers until the cause is understood.

    Unlike its siblings this one does not promise that nothing was applied.
    """
