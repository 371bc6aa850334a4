"""How far a test looks: a little in every run, far in `nox -s deep`."""

import os

DEEP = os.environ.get("FENCEPOST_HYPOTHESIS") == "deep"
EXAMPLES = int(os.environ.get("FENCEPOST_EXAMPLES", "200"))
"""Examples of a property in `nox -s deep`; 2,000 take a night."""


def examples(quick: int, deep: int = 2_000) -> int:
    """Return the number of examples of a property: `deep` of them where EXAMPLES is 2,000."""
    return max(quick, deep * EXAMPLES // 2_000) if DEEP else quick
