"""The labels of a product as expressions: no row is filtered out where the other machine refuses a label.

A guard of the abstract machine is no guard of the program but a condition under which its words are taken: so
is a trap, which only matters in a row that has passed the guards before it.
"""

from copy import copy
from typing import Any

import numpy as np

from fencepost.model.kernel.compiled.trace import Node, Trace, Traced, TracedFrame, Tracer, Words, paths_of
from fencepost.model.kernel.language.model import Label, Model
from fencepost.model.kernel.language.refinement import Either
from fencepost.model.kernel.search.performed import Performed, rows_where
from fencepost.model.kernel.search.product import Product

Checks = list[tuple[str, Node]]


class ProductTracer(Tracer):
    """Traces the labels and the property of a product."""

    def __init__(self, product: Product) -> None:
        super().__init__(product)
        self._product = product
        self._concrete, self._abstract = _traced(product.concrete), _traced(product.abstract)

    def _after(self, words: Words, label: Label) -> list[tuple[Checks, list[Any]]]:
        frame = self._concrete.apply(words.part(0, self._concrete.words), label)  # type: ignore[arg-type]  # they are traced
        return [(path.checks, self._performed(words, label, path)) for path in paths_of(frame)]

    def _performed(self, words: Words, label: Label, path: TracedFrame) -> list[Any]:
        """The words after a path of the concrete label and the labels that it performs."""
        trace = path.trace
        trace.checks = path.checks
        before, states = words.part(0, self._concrete.words), words.part(self._concrete.words, len(words))
        after = Words(path.finish())
        performed = self._product.performed[label.number]
        choices = performed.choices(
            lambda: trace.beside(self._concrete, before, label),
            lambda: trace.beside(self._concrete, after, label),
            lambda: trace.beside(self._abstract, states, label),
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
            checks = trace.checks
            paths = paths_of(abstract.apply(states, label))  # type: ignore[arg-type]  # they are traced
            trace.checks = checks
            for path in paths:
                taken = _passed(trace, path, enabled)
                for number, after in enumerate(path.finish()):
                    if after is not states[number]:
                        result[number] = after if taken is True else np.where(taken, after, result[number])
                waiting = False if taken is True else _and(waiting, ~taken)
                if waiting is False:
                    return Words(result)
    refused = _and(refused, waiting)
    if not choice.or_nothing and refused is not False:
        word, bit = product.flag
        number = word - product.concrete.words
        flagged = result[number] | bit
        result[number] = flagged if refused is True else np.where(refused, flagged, result[number])
    return Words(result)


def _passed(trace: Trace, path: TracedFrame, enabled: Any) -> Any:
    """The rows that take a path of an abstract label, of those in which the label is to be performed."""
    for kind, node in path.checks:
        holds = Traced(trace, node)
        if kind == "trap":
            trace.trap(_and(enabled, holds).node)
        else:
            enabled = _and(enabled, ~holds if kind == "unless" else holds)
    return enabled


def _and(one: Any, other: Any) -> Any:
    if one is True or other is False:
        return other
    return one if other is True or one is False else one & other


def _or(one: Any, other: Any) -> Any:
    if one is True or other is False:
        return one
    return other if other is True or one is False else one | other
