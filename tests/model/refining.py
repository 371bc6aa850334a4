"""The proof that a model refines another machine, on its own; a model that claims to refine another one."""

from collections.abc import Iterable, Mapping
from types import FunctionType

from fencepost.model import Machine, Model, refines
from fencepost.model.kernel.language.declare import MARK
from fencepost.model.kernel.report.result import PropertyResult
from fencepost.model.kernel.search.explore import Explorer
from fencepost.model.kernel.search.refinement import prove


def refinement(
    machine: type[Machine], sizes: Mapping[str, int] | None = None, *, without: Iterable[str] = ()
) -> PropertyResult:
    """Decide what the model refines, and no other property: `check` decides all of them first."""
    model = Model(machine, sizes, without=without)
    (declared,) = [each for each in model.properties if each.refines is not None]
    result, *_ = prove(declared, model, lambda product: Explorer(product, deadlocks=False).run())
    return result


def refining(machine: type[Machine], other: type[Machine]) -> type[Machine]:
    """A subclass of `machine` that claims to refine `other`, with the same labels and mapping."""
    link = getattr(machine.observed, MARK).refines
    mapping = link.mapping
    copied = FunctionType(mapping.__code__, mapping.__globals__, mapping.__name__, None, mapping.__closure__)
    observed = refines(other, link.shows, at=link.at, **link.sizes)(copied)
    return type(machine)(machine.__name__, (machine,), {"observed": observed})
