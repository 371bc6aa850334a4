"""Refinements by name: those that ship, and a user's own as `path/to/file.py:MyRefinement`.

A refinement of one's own is a class that can be made without arguments; what --set gives it are keyword
arguments. It may say in `runs` how its runs are told apart, as `--runs` would.
"""

import inspect
from functools import partial
from typing import Any

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.set_option import numbers
from fencepost.commands.user_files import find, is_file_name
from fencepost.sim.systems import SYSTEMS, load


def find_refinement(name: str, settings: tuple[str, ...]) -> partial[Any]:
    """What makes the refinement; picklable, so that workers elsewhere can make it too."""
    if name in SYSTEMS:
        found = load(SYSTEMS[name].refinement)
    elif is_file_name(name):
        found = find(name, "refinement", _is_refinement, is_what="a class derived from Refinement")
    else:
        raise BadRequest(
            f"no model is called {name!r}; known: {', '.join(SYSTEMS)}; your own: path/to/file.py:Refinement"
        )
    made = partial(found, **numbers(settings, "NAME=N, as in --set writers=2"))
    _try(name, found, made)
    return made


def _try(name: str, found: type, made: partial[Any]) -> None:
    from fencepost.model import ModelError

    try:
        inspect.signature(found).bind(**made.keywords)
    except TypeError as error:
        raise BadRequest(f"{name} cannot be made as asked: {error}; see what --set may give it") from error
    try:
        made()
    except (ModelError, ValueError) as error:
        raise BadRequest(f"{name}: {error}") from error


def _is_refinement(value: object) -> bool:
    from fencepost.properties.refinement import Refinement

    return isinstance(value, type) and issubclass(value, Refinement)
