"""The labels of a product as expressions: no row is filtered out where the other machine refuses a label.

A guard of the abstract machine is no guard of the program but a condition under which its words are taken: so
is a trap, which only matters in a row that has passed the guards before it.
"""

from copy import copy
from typing import Any

import numpy as np

from fencepost.model.kernel.compiled.trace import Trace, Traced, TracedFrame, Tracer, Words
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.language.refinement import Either
from fencepost.model.kernel.search.performed import Performed, rows_where
from fencepost.model.kernel.search.product import Product


class ProductTracer(Tracer):
    """Traces the labels and the property of a product."""

    def __init__(self, product: Product) -> None:
        super().__init__(product)
        self._product = product
        self._concrete, self._abstract = _traced(product.concrete), _traced(product.abstract)

    def _after(self, words: Words, label: Label) -> list[Any] | None:
        before, states = words.part(0, self._concrete.words), words.part(self._concrete.words, len(words))
        frame = self._concrete.apply(before, label)  # type: ignore[arg-type]  # they are traced
        if frame is None:
            return None
        after = Words(frame.finish())
        performed = self._product.performed[label.number]
        choices = performed.choices(
            lambda: TracedFrame(self._concrete, before, label, read_only=True),
            lambda: TracedFrame(self._concrete, after, label, read_only=True),
            lambda: TracedFrame(self._abstract, states, label, read_only=True),
        )
        for choice in choices:
            states = _perform(self._product, self._abstract, performed, choice, states)
        return [*after, *states]


def _traced(model: Model) -> Model:
    made = copy(model)
    made.frame_type = TracedFrame
    return made


def _perform(product: Product, abstract: Model, performed: Performed, choice: Either, states: Words) -> Words:
    """The abstract words after the first of these labels that is enabled; flagged where none is."""
    trace: Trace = states[0].trace
    result = list(states)
    waiting: Any = True
    refused: Any = False
    for one in choice.labels:
        where = rows_where(one.when)
        if where is False:
            continue
        refused = where if refused is False else _or(refused, where)
        for label, mask in performed.labels(one):
            enabled = _and(_and(waiting, where), True if mask is None else mask)
            begun = len(trace.checks)
            frame = abstract.apply(states, label)  # type: ignore[arg-type]  # they are traced
            own = trace.checks[begun:]
            del trace.checks[begun:]
            if frame is None:
                continue
            for kind, node in own:
                holds = Traced(trace, node)
                if kind == "guard":
                    enabled = _and(enabled, holds)
                else:
                    trace.trap(_and(enabled, holds).node)
            for number, after in enumerate(frame.finish()):
                if after is not states[number]:
                    result[number] = after if enabled is True else np.where(enabled, after, result[number])
            waiting = False if enabled is True else _and(waiting, ~enabled)
            if waiting is False:
                return Words(result)
    refused = _and(refused, waiting)
    if not choice.or_nothing and refused is not False:
        word, bit = product.flag
        number = word - product.concrete.words
        flagged = result[number] | bit
        result[number] = flagged if refused is True else np.where(refused, flagged, result[number])
    return Words(result)


def _and(one: Any, other: Any) -> Any:
    if one is True or other is False:
        return other
    return one if other is True or one is False else one & other


def _or(one: Any, other: Any) -> Any:
    if one is True or other is False:
        return one
    return other if other is True or one is False else one | other
