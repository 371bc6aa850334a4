"""The kernel: machines on columns of packed states, and the search that explores them."""

from fencepost.model.kernel.check import check
from fencepost.model.kernel.language.assigning import anything
from fencepost.model.kernel.language.choices import Choice, case, pick
from fencepost.model.kernel.language.columns import Column, Truth, all_of, any_of, implies
from fencepost.model.kernel.language.declare import (
    Property,
    action,
    always_recoverable,
    among,
    bound,
    define,
    eventually,
    infinitely_often,
    initial,
    invariant,
    leads_to,
    may_end,
    reachable,
    step,
    without,
)
from fencepost.model.kernel.language.errors import BadSettings, FieldOverflow, ModelError, ModellingMistake
from fencepost.model.kernel.language.fairness import Together, together
from fencepost.model.kernel.language.fields import (
    Bag,
    Bool,
    Channel,
    Each,
    Enum,
    Extent,
    Field,
    Flags,
    Id,
    Int,
    Majorities,
    Record,
    Seq,
    Set,
    Size,
    Subsets,
)
from fencepost.model.kernel.language.machine import Machine
from fencepost.model.kernel.language.members import Members
from fencepost.model.kernel.language.model import Label, Model, Successors
from fencepost.model.kernel.language.numbers import Number, count_of, least, most, total
from fencepost.model.kernel.language.process import Process
from fencepost.model.kernel.language.records import Recorded
from fencepost.model.kernel.language.refinement import HISTORY, NOTHING, Does, does, either, refines, related
from fencepost.model.kernel.language.roles import Role
from fencepost.model.kernel.language.views import Array, Sequence
from fencepost.model.kernel.report.counterexample import Counterexample, Step
from fencepost.model.kernel.report.result import NO_DEADLOCK, CheckResult, PropertyResult
from fencepost.model.kernel.search.explore import Bounds, Explorer, Progress, Search, least_memory
from fencepost.model.kernel.search.graph import Graph, graph_of, reachable_graph
from fencepost.model.kernel.search.stepper import State, Stepper
from fencepost.model.kernel.search.symmetry import Reduced
from fencepost.model.kernel.search.walks import walk

__all__ = [
    "HISTORY",
    "NOTHING",
    "NO_DEADLOCK",
    "Array",
    "BadSettings",
    "Bag",
    "Bool",
    "Bounds",
    "Channel",
    "CheckResult",
    "Choice",
    "Column",
    "Counterexample",
    "Does",
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
    "Majorities",
    "Members",
    "Model",
    "ModelError",
    "ModellingMistake",
    "Number",
    "Process",
    "Progress",
    "Property",
    "PropertyResult",
    "Record",
    "Recorded",
    "Reduced",
    "Role",
    "Search",
    "Seq",
    "Sequence",
    "Set",
    "Size",
    "State",
    "Step",
    "Stepper",
    "Subsets",
    "Successors",
    "Together",
    "Truth",
    "action",
    "all_of",
    "always_recoverable",
    "among",
    "any_of",
    "anything",
    "bound",
    "case",
    "check",
    "count_of",
    "define",
    "does",
    "either",
    "eventually",
    "graph_of",
    "implies",
    "infinitely_often",
    "initial",
    "invariant",
    "leads_to",
    "least",
    "least_memory",
    "may_end",
    "most",
    "pick",
    "reachable",
    "reachable_graph",
    "refines",
    "related",
    "step",
    "together",
    "total",
    "walk",
    "without",
]
