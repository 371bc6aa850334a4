"""How far a test looks: a little in every run, far in `nox -s deep`."""

import os

DEEP = os.environ.get("FENCEPOST_HYPOTHESIS") == "deep"


def examples(quick: int, deep: int = 2_000) -> int:
    """How many examples a property is tried with."""
    return deep if DEEP else quick
