"""Helpers: lines of code that send the requests of several callers, so that the callers' lines tell more."""

import ast
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from fencepost.sim.world import finalizers
from fencepost.sim.world.located import CodeLine
from fencepost.sim.world.sites import Chain

CALLERS_MAX = 6
"""Frames by which requests are distinguished, at most."""


def depths(chains: Iterable[Chain]) -> dict[Chain, int]:
    """Return for each place the depth of the line by which it is shown: 1 for the innermost.

    A helper is a function that its file calls in several places, or a line that is reached from several.
    """
    found = dict.fromkeys(chains, 1)
    for depth in range(1, CALLERS_MAX):
        callers: dict[Chain, set[CodeLine]] = {}
        for chain, known in found.items():
            if known == depth and len(chain) > depth:
                callers.setdefault(chain[-depth:], set()).add(chain[-depth - 1])
        for chain, known in found.items():
            if known == depth and len(chain) > depth:
                several = len(callers[chain[-depth:]]) > 1 or _is_called_often(chain[-depth])
                if (several and chain[-depth - 1].file == chain[-depth].file) or len(
                    callers[chain[-depth:]]
                ) > 1:
                    found[chain] = depth + 1
    return found


def _is_called_often(line: CodeLine) -> bool:
    if line.function.startswith("<"):
        return True  # a comprehension or a lambda
    return _calls(line.file).get(line.function, 0) > 1


@lru_cache(256)
def _calls(file: str) -> Counter[str]:
    """Count the calls in a file by the name of the function."""
    try:
        with finalizers.postponed():
            tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return Counter()
    names = (
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )
    return Counter(names)
