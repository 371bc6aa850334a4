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

Choices that depend on the state are plain Python. The state of each process is a role, with fields of its
own. The behaviour while a safeguard is off is a method that replaces another one:

    from fencepost.model import Int, Role, among, without

    class Tickets(Machine):
        clients = Size(2)
        safeguards = {"one-by-one": "a client waits until no other one holds the ticket"}
        served = Int(0, clients)
        client = Role(clients, at=Enum("waits", "holds", "gone"), number=Int(0, clients))

        def may_take(s) -> Truth:
            return ~s.client.any(at="holds")

        @without("one-by-one", replaces=may_take)
        def takes_at_once(s) -> bool:
            return True

        @action(c=among(client, at="waits"))
        def take(s, c: int) -> None:
            s.require(s.may_take())
            me = s.client[c]
            me.at = "holds"
            me.number = s.served

        @action(c=among(client, at="holds"))
        def leave(s, c: int) -> None:
            me = s.client[c]
            if me.number == s.served:
                me.at = "gone"
                s.served += 1
            else:
                me.at = "waits"

        @invariant
        def exclusion(s) -> Truth:
            return s.client.count(at="holds") <= 1

    print(check(Tickets, deadlock=False).verdict)                                # holds
    print(check(Tickets, deadlock=False, without=["one-by-one"]).verdict)        # violated

Everything a machine's author needs is here; the shipped models import all of it, as a TLA+ module EXTENDS
others. `fencepost.model.kernel` is how it works.
"""

from fencepost.model.kernel import (
    HISTORY,
    NO_DEADLOCK,
    NOTHING,
    BadSettings,
    Bag,
    Bool,
    Channel,
    CheckResult,
    Choice,
    Counterexample,
    Does,
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
    Process,
    Progress,
    Property,
    PropertyResult,
    Record,
    Role,
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
    count_of,
    define,
    does,
    either,
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
    related,
    step,
    together,
    total,
    walk,
    without,
)

__all__ = [
    "HISTORY",
    "NOTHING",
    "NO_DEADLOCK",
    "BadSettings",
    "Bag",
    "Bool",
    "Channel",
    "CheckResult",
    "Choice",
    "Counterexample",
    "Does",
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
    "Process",
    "Progress",
    "Property",
    "PropertyResult",
    "Record",
    "Role",
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
    "count_of",
    "define",
    "does",
    "either",
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
    "related",
    "step",
    "together",
    "total",
    "walk",
    "without",
]
