"""The kernel: machines on columns of packed states, and the search that explores them."""

from fencepost.model.kernel.arrays import Array
from fencepost.model.kernel.check import NO_DEADLOCK, check
from fencepost.model.kernel.choices import Choice, case, pick
from fencepost.model.kernel.columns import Column, Truth, all_of, any_of, implies
from fencepost.model.kernel.counterexample import Counterexample, Step
from fencepost.model.kernel.declare import (
    Property,
    Together,
    action,
    always_recoverable,
    eventually,
    initial,
    invariant,
    may_end,
    reachable,
    step,
    together,
    without,
)
from fencepost.model.kernel.errors import BadSettings, FieldOverflow, ModelError, ModellingMistake
from fencepost.model.kernel.explore import Explorer
from fencepost.model.kernel.extents import Extent, Size
from fencepost.model.kernel.fields import Bool, Each, Enum, Field, Flags, Id, Int, Seq
from fencepost.model.kernel.graph import Graph, graph_of, reachable_graph
from fencepost.model.kernel.machine import Machine
from fencepost.model.kernel.members import Members
from fencepost.model.kernel.model import Label, Model, Successors
from fencepost.model.kernel.numbers import Number, count_of
from fencepost.model.kernel.result import PropertyResult, Result
from fencepost.model.kernel.search import Bounds, Progress, Search
from fencepost.model.kernel.sequences import Sequence
from fencepost.model.kernel.stepping import State, Stepper
from fencepost.model.kernel.symmetry import Reduced
from fencepost.model.kernel.walks import walk

__all__ = [
    "NO_DEADLOCK",
    "Array",
    "BadSettings",
    "Bool",
    "Bounds",
    "Choice",
    "Column",
    "Counterexample",
    "Each",
    "Enum",
    "Explorer",
    "Extent",
    "Field",
    "FieldOverflow",
    "Flags",
    "Graph",
    "Id",
    "Int",
    "Label",
    "Machine",
    "Members",
    "Model",
    "ModelError",
    "ModellingMistake",
    "Number",
    "Progress",
    "Property",
    "PropertyResult",
    "Reduced",
    "Result",
    "Search",
    "Seq",
    "Sequence",
    "Size",
    "State",
    "Step",
    "Stepper",
    "Successors",
    "Together",
    "Truth",
    "action",
    "all_of",
    "always_recoverable",
    "any_of",
    "case",
    "check",
    "count_of",
    "eventually",
    "graph_of",
    "implies",
    "initial",
    "invariant",
    "may_end",
    "pick",
    "reachable",
    "reachable_graph",
    "step",
    "together",
    "walk",
    "without",
]
