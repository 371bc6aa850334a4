"""Machines by name: those that ship with Fencepost, and a user's own as `path/to/file.py:Machine`."""

from fencepost.commands.exit_codes import BadRequest
from fencepost.commands.user_files import find, is_file_name
from fencepost.model import Machine, ModelError
from fencepost.sim.systems import SYSTEMS, load

SHIPPED = {
    "two-phase": "fencepost.model.two_phase:TwoPhase",
    "peterson": "fencepost.model.peterson:Peterson",
    "bounded-queue": "fencepost.model.bounded_queue:BoundedQueue",
    "philosophers": "fencepost.model.philosophers:Philosophers",
    "create-only-lock": "fencepost.model.create_only_lock:CreateOnlyLock",
    "swap-counter": "fencepost.model.swap_counter:SwapCounter",
    "fenced-lease": "fencepost.model.fenced_lease:FencedLease",
    **{name: system.model for name, system in SYSTEMS.items()},
}


def find_machine(name: str) -> type[Machine]:
    """The machine that `name` stands for; `BadRequest` says how to name one."""
    if name in SHIPPED:
        found: type[Machine] = load(SHIPPED[name])
        return found
    if not is_file_name(name):
        raise BadRequest(
            f"no model is called {name!r}; known: {', '.join(SHIPPED)}; your own: path/to/file.py:Machine"
        )
    mine: type[Machine] = find(
        name, "machine", _is_machine, is_what="a class derived from Machine", told=(ModelError,)
    )
    return mine


def complete_model(_: object, __: object, incomplete: str) -> list[str]:
    """For the shell: the models whose names begin so."""
    return [name for name in SHIPPED if name.startswith(incomplete)]


def _is_machine(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Machine)
