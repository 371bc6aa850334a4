"""Models by name: those that ship, and a user's own as `path/to/file.py:NAME`.

A model to check is a class derived from Machine. A model to replay traces against is a class derived from
Refinement that can be created without arguments; `--set` gives it keyword arguments, and its attribute `runs`
has the unit that is judged, as `--runs` would.
"""

import inspect
from functools import partial
from typing import Any

import click

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.user_files import find, is_file_name
from fencepost.commands.values import numbers
from fencepost.model import Machine, ModelError
from fencepost.sim.systems import SYSTEMS, load

SHIPPED = {
    "two-phase": "fencepost.model.textbook.two_phase:TwoPhase",
    "peterson": "fencepost.model.textbook.peterson:Peterson",
    "bounded-queue": "fencepost.model.textbook.bounded_queue:BoundedQueue",
    "philosophers": "fencepost.model.textbook.philosophers:Philosophers",
    "voting": "fencepost.model.textbook.paxos:Voting",
    "paxos": "fencepost.model.textbook.paxos:Paxos",
    "alternating-bit": "fencepost.model.textbook.alternating_bit:AlternatingBit",
    "allocator": "fencepost.model.textbook.allocator:Allocator",
    "readers-writers": "fencepost.model.textbook.readers_writers:ReadersWriters",
    "create-only-lock": "fencepost.model.create_only_lock:CreateOnlyLock",
    "swap-counter": "fencepost.model.swap_counter:SwapCounter",
    "fenced-lease": "fencepost.model.fenced_lease:FencedLease",
    "cursor": "fencepost.model.cursor:Cursor",
    **{name: system.model for name, system in SYSTEMS.items()},
    **{f"{name}-observed": system.observed for name, system in SYSTEMS.items() if system.observed},
    **{name: model for system in SYSTEMS.values() for name, model in system.further_models.items()},
}


def models_of(name: str) -> tuple[str, ...]:
    """The models of this system, by name."""
    return (name, *SYSTEMS[name].further_models) if name in SYSTEMS else ()


def find_machine(name: str) -> type[Machine]:
    """The machine of this name."""
    if name in SHIPPED:
        found: type[Machine] = load(SHIPPED[name])
        return found
    if not is_file_name(name):
        raise BadRequest(
            f"no model is called {name!r}; known: {', '.join(SHIPPED)}; your own: path/to/file.py:Machine"
        )
    mine: type[Machine] = find(
        name, "machine", _is_machine, is_what="a class derived from Machine", own_errors=(ModelError,)
    )
    return mine


def complete_model(_: object, __: object, incomplete: str) -> list[str]:
    """For the shell: the models whose names begin so."""
    return [name for name in SHIPPED if name.startswith(incomplete)]


def complete_without(ctx: click.Context, _: object, incomplete: str) -> list[str]:
    """For the shell: the safeguards and assumptions of the model that was named before."""
    try:
        machine = find_machine(ctx.params.get("model_name") or "")
    except BadRequest:
        return []
    return [name for name in (*machine.safeguards, *machine.assumptions) if name.startswith(incomplete)]


def _is_machine(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Machine)


def find_refinement(name: str, settings: tuple[str, ...]) -> partial[Any]:
    """A factory of the refinement; it can be pickled, so that workers elsewhere can call it too."""
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
    try:
        inspect.signature(found).bind(**made.keywords)
    except TypeError as error:
        raise BadRequest(f"{name} cannot be created so: {error}; see which names --set may give") from error
    try:
        made()
    except (ModelError, ValueError) as error:
        raise BadRequest(f"{name}: {error}") from error


def _is_refinement(value: object) -> bool:
    from fencepost.properties.refinement import Refinement

    return isinstance(value, type) and issubclass(value, Refinement)
