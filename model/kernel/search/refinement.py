"""Deciding a refinement: explore the product of both machines, at the sizes of the proof."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from fencepost.model.kernel.language.declare import Property
from fencepost.model.kernel.language.model import Model
from fencepost.model.kernel.report.counterexample import chain, counterexample_of
from fencepost.model.kernel.report.result import Proof, PropertyResult
from fencepost.model.kernel.search.explore import Found, Search
from fencepost.model.kernel.search.product import Product

_CHUNK = 1 << 15


def prove(
    wanted: Property, model: Model, explore: Callable[[Model], Search]
) -> tuple[PropertyResult, list[str], list[str]]:
    """The verdict on a refinement of `model`, notes on the search, and what the proof never tests."""
    sizes = wanted.refines.proven_at(model)
    concrete = Model(model.machine, sizes, without=model.without)  # no reduction: see `product`
    product = Product(wanted, concrete)
    search = explore(product)
    proof = Proof(
        refines=product.other.name,
        parameters=dict(concrete.sizes),
        other_parameters=dict(product.other.sizes),
        distinct=search.distinct,
        generated=search.generated,
        depth=search.depth,
        seconds=search.seconds,
    )
    notes = [f"{wanted.name}: {note}" for note in search.notes]
    found = search.found.get(wanted.name)
    if found is not None:
        return _violated(wanted, product, search, found, proof), notes, []
    made = PropertyResult(wanted.name, wanted.kind.name, "holds", doc=wanted.doc, proof=proof)
    if not search.complete:
        return replace(made, verdict="undecided", reason=search.reason), notes, []
    if search.cut:
        return replace(made, verdict="undecided", reason=f"a bound cut {search.cut:,} states"), notes, []
    return made, notes, list(vacuity(product, search))


def _violated(
    wanted: Property, product: Product, search: Search, found: Found, proof: Proof
) -> PropertyResult:
    steps = chain(product, search.levels, found.depth, found.state, search.compiled)
    before, label = steps[-1] if steps else (None, None)
    reason = product.reason(before, label, found.state)
    shown = counterexample_of(product, steps, found.state)
    return replace(PropertyResult.of(wanted, "violated", shown, reason), proof=proof)


def vacuity(product: Product, search: Search) -> Iterator[str]:
    """Actions of the other machine that no label performs, and fields of it that the proof does not tie."""
    other, name = product.other, product.wanted.name
    part = product.link.part or other.actions
    unseen = set(part)
    for level in search.levels:
        for start in range(0, level.shape[1], _CHUNK):
            chunk = level[:, start : start + _CHUNK]
            for label in product.labels:
                if search.fired[label.number] and product.performed[label.number].names() & unseen:
                    unseen -= product.performed_in(chunk, label)
            if not unseen:
                break
        if not unseen:
            break
    never = [action for action in part if action in unseen]
    if never:
        yield f"{name}: no action performs {', '.join(never)} of {other.name} at the sizes of the proof"
    if product.link.part:
        return
    changed = product.changed_fields(search.levels)
    still = [field for field in product.history() if field not in changed]
    if still:
        yield f"{name}: neither mapped nor changed is {', '.join(still)} of {other.name}"
