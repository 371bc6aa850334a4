"""State machines: what may happen. Imports nothing of the other layers.

A machine is a class with fields, actions and properties; `check` explores every reachable state:

    from fencepost.model import Each, Enum, Machine, Size, Truth, action, check, invariant

    class Lamps(Machine):
        lamps = Size(3)
        lamp = Each(lamps, Enum("off", "on"))

        @action(i=lamps)
        def switch_on(s, i: int) -> None:
            s.require(s.lamp[i] == "off")
            s.lamp[i] = "on"

        @invariant
        def never_all(s) -> Truth:
            return ~s.lamp.all("on")

    result = check(Lamps, {"lamps": 2})
    print(result.verdict)                                  # violated
    print("\\n".join(result["never_all"].counterexample.lines()))    # the shortest way there, step by step

Everything a machine's author needs is here; the shipped models import all of it, as a TLA+ module EXTENDS
others. `fencepost.model.kernel` is how it works.
"""

from fencepost.model.kernel import (
    NO_DEADLOCK,
    BadSettings,
    Bag,
    Bool,
    Channel,
    Choice,
    Counterexample,
    Each,
    Enum,
    FieldOverflow,
    Flags,
    Graph,
    Id,
    Int,
    Label,
    Machine,
    Majorities,
    Members,
    Model,
    ModelError,
    ModellingMistake,
    Number,
    Progress,
    Property,
    PropertyResult,
    Record,
    Result,
    Seq,
    Set,
    Size,
    State,
    Step,
    Stepper,
    Subsets,
    Truth,
    action,
    all_of,
    always_recoverable,
    among,
    any_of,
    anything,
    bound,
    case,
    check,
    constant,
    count_of,
    define,
    eventually,
    implies,
    infinitely_often,
    initial,
    invariant,
    leads_to,
    least,
    least_memory,
    may_end,
    most,
    pick,
    reachable,
    reachable_graph,
    refines,
    step,
    together,
    total,
    walk,
    without,
)

__all__ = [
    "NO_DEADLOCK",
    "BadSettings",
    "Bag",
    "Bool",
    "Channel",
    "Choice",
    "Counterexample",
    "Each",
    "Enum",
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
    "Progress",
    "Property",
    "PropertyResult",
    "Record",
    "Result",
    "Seq",
    "Set",
    "Size",
    "State",
    "Step",
    "Stepper",
    "Subsets",
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
    "constant",
    "count_of",
    "define",
    "eventually",
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
    "step",
    "together",
    "total",
    "walk",
    "without",
]
