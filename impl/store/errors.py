"""What a store raises. Outcomes that a protocol acts on are *not* here: they are values, see `interface`.

    StoreError                nothing was applied, and a retry will not help until somebody acts:
    ├── Misuse                the caller: the request can never make sense (a key with a NUL byte)
    ├── Unusable              whoever runs it: the place is missing, full, read-only, or refuses us
    ├── Unsupported           whoever chose the store: it does not offer this operation
    └── BrokenPromise         the store's maker: it answered what it must never answer

A class exists only where somebody else has to act. Messages say what was expected, what was found and
what to try; they may change, the types may not.
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
    """This store does not offer what was asked."""


class BrokenPromise(StoreError):
    """The store broke its word; nothing it says can be relied on until that is understood.

    Unlike its siblings this one does not promise that nothing was applied.
    """
