"""How far a test looks: a little in every run, far in `nox -s deep`."""

import functools
import os
import re
from pathlib import Path

DEEP = os.environ.get("FENCEPOST_HYPOTHESIS") == "deep"
EXAMPLES = int(os.environ.get("FENCEPOST_EXAMPLES", "200"))
"""Examples of a property in `nox -s deep`; 2,000 take a night."""


def examples(quick: int, deep: int = 2_000) -> int:
    """Return the number of examples of a property: `deep` of them where EXAMPLES is 2,000."""
    return max(quick, deep * EXAMPLES // 2_000) if DEEP else quick


@functools.cache
def looks_further(file: Path) -> bool:
    """Return True if a module of tests imports this one, or Hypothesis, whose profile differs in `deep`."""
    imports = r"^\s*(from|import) .*\b(hypothesis|depth)\b"
    return re.search(imports, file.read_text(), re.MULTILINE) is not None
