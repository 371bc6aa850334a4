"""The kernel: machines on columns of packed states, and the search that explores them."""

from holdfast.model.kernel.arrays import Array
from holdfast.model.kernel.check import NO_DEADLOCK, check
from holdfast.model.kernel.choices import Choice, pick
from holdfast.model.kernel.columns import Column, Truth, all_of, any_of
from holdfast.model.kernel.declare import (
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
)
from holdfast.model.kernel.errors import BadSettings, FieldOverflow, ModelError, ModellingMistake
from holdfast.model.kernel.explore import Explorer
from holdfast.model.kernel.extents import Extent, Size
from holdfast.model.kernel.fields import Bool, Each, Enum, Field, Flags, Id, Int, Seq
from holdfast.model.kernel.graph import Graph, graph_of, reachable_graph
from holdfast.model.kernel.machine import Machine
from holdfast.model.kernel.members import Members
from holdfast.model.kernel.model import Label, Model, Successors
from holdfast.model.kernel.numbers import Number, count_of
from holdfast.model.kernel.result import PropertyResult, Result
from holdfast.model.kernel.search import Bounds, Progress, Search
from holdfast.model.kernel.sequences import Sequence
from holdfast.model.kernel.stepping import State, Stepper
from holdfast.model.kernel.story import Step, Story
from holdfast.model.kernel.symmetry import Reduced
from holdfast.model.kernel.walks import walk

__all__ = [
    "NO_DEADLOCK",
    "Array",
    "BadSettings",
    "Bool",
    "Bounds",
    "Choice",
    "Column",
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
    "Story",
    "Successors",
    "Together",
    "Truth",
    "action",
    "all_of",
    "always_recoverable",
    "any_of",
    "check",
    "count_of",
    "eventually",
    "graph_of",
    "initial",
    "invariant",
    "may_end",
    "pick",
    "reachable",
    "reachable_graph",
    "step",
    "together",
    "walk",
]
