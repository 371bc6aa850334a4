"""A model with another machine in place of the one that it refines."""

from types import FunctionType

from fencepost.model import Machine, refines
from fencepost.model.kernel.language.declare import MARK


def refining(machine: type[Machine], other: type[Machine]) -> type[Machine]:
    """A subclass of `machine` that claims to refine `other`, with the same labels and mapping."""
    link = getattr(machine.observed, MARK).refines
    mapping = link.mapping
    copied = FunctionType(mapping.__code__, mapping.__globals__, mapping.__name__, None, mapping.__closure__)
    observed = refines(other, link.shows, at=link.at, **link.sizes)(copied)
    return type(machine)(machine.__name__, (machine,), {"observed": observed})
