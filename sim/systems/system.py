"""The descriptor of a system: one protocol, with everything that the commands need to know about it.

Its package holds one object, `SYSTEM`, and `fencepost.sim.systems.SYSTEMS` holds those of all packages.
Expensive imports are named by a reference, a text `module:name` that is resolved on first use, so that
listing systems loads neither the protocols nor their libraries.
"""

import functools
import importlib
import importlib.resources
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost.sim.world.declaring import Declaring

Reference = str
"""`module:name`."""
Program = Callable[..., None]


def load(reference: Reference) -> Any:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class Mutant:
    """A deliberately broken variant of the system: one safeguard replaced, and a scenario that needs it."""

    replacement: Callable[..., Any]
    """Named like the field of this safeguard in the table of safeguards."""
    scenario: str
    faults: Mapping[str, int] = field(default_factory=dict)
    """Of the audit, where its usual budget finds nothing or takes minutes."""


@dataclass(frozen=True)
class Workload:
    """One way to put load on the system in simulated time: a value of `workload.system` in a scenario
    file."""

    actors: Reference
    """A class that is made with the `Simulation`: `open(number)` answers writer number N."""
    operations: tuple[str, ...]
    """Its measure."""
    maintenance: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    """Of the settings that have a meaning for some workloads only, those that this one reads."""
    depth_max: int = 0
    """Operations before the run at most, where each of them is executed."""
    requires: str = ""
    """A package of the extra `catalog` that its operations need."""


@dataclass(frozen=True)
class System:
    name: str
    summary: str
    """One line: what the protocol does."""
    model: Reference
    """The machine that `fencepost check` explores."""
    observed: Reference = field(default="", kw_only=True)
    """The machine of what the store shows, by which replay, lockstep and coverage judge runs; `model` refines
    it. `fencepost check` has it under the name of the system and `-observed`. Empty where `model` judges."""
    further_models: Mapping[str, Reference] = field(default_factory=dict, kw_only=True)
    """Machines of what that one leaves out, by the names that `fencepost check` has for them."""
    checks: Reference
    """Its properties, by name: functions of what a bucket holds and what the clients were answered."""
    program: Reference
    """The program of `fencepost audit`: a function of the world, a `scenario`, further parameters, and
    `safeguards`, the table of safeguards."""
    safeguards: Reference
    """The table of safeguards as the product has it: a frozen dataclass of functions. A field is called like
    its
    safeguard, or the metadata of the field give its `name`."""
    mutants: Reference
    """A `Mutant` for each safeguard, by the same name."""
    refinement: Reference
    """The class that maps events of the product to actions of the observed machine."""
    run_is: str
    """The unit that is one run when traces are replayed."""
    trace_fields: Reference
    """The trace fields of an object's body, for traces: a function of key and body."""
    trace_layout: Mapping[str, Any]
    """Promises that access logs can show broken, in the terms of `fencepost.sim.replay.access_rules`."""
    extension: Reference = field(default="", kw_only=True)
    """The class of the requests beside S3 that an object server answers to the system's workers on other
    machines. It is made with the server's buckets."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Of the audit, where its usual budget has none that matter here, or needless ones."""
    workloads: Mapping[str, Workload] = field(default_factory=dict)
    demo_mutant: str = ""
    demo_scenario: str = ""
    """The tour of `fencepost demo`, which takes the first system that has one."""

    @property
    def folder(self) -> Path:
        """The folder of its package, which may hold scenario files of `fencepost simulate`."""
        package = self.program.partition(":")[0].rpartition(".")[0]
        return Path(str(importlib.resources.files(package)))

    @functools.cached_property
    def mutant_table(self) -> Mapping[str, Mutant]:
        found: Mapping[str, Mutant] = load(self.mutants)
        return found

    def judged_properties(self) -> tuple[list[str], list[str]]:
        """The properties of the models that the observed machine states as well, and the others."""
        from fencepost.model import Model

        stated = {one.name for one in Model(load(self.observed)).properties}
        every = dict.fromkeys(
            one.name
            for machine in self.refining()
            for one in Model(machine).properties
            if not (one.kind.is_goal or one.kind.explores)
        )
        return [name for name in every if name in stated], [name for name in every if name not in stated]

    def refining(self) -> list[Any]:
        """The models that refine the observed machine: the model of the system, and models of its parts."""
        from fencepost.model import Model

        observed = load(self.observed)
        machines = dict.fromkeys(load(one) for one in (self.model, *self.further_models.values()))
        links = {
            machine: [one.refines.machine for one in Model(machine).properties if one.refines is not None]
            for machine in machines
        }
        return [machine for machine, refined in links.items() if observed in refined]

    def without(self, safeguard: str) -> Any:
        """The table of safeguards with this one replaced by its mutant's. Equal for equal safeguards."""
        standard = load(self.safeguards)
        names = {one.metadata.get("name", one.name.replace("_", "-")): one.name for one in fields(standard)}
        return replace(standard, **{names[safeguard]: self.mutant_table[safeguard].replacement})

    def audited(self, mutant: str = "") -> Program:
        """The program to audit: of the product, with its parameters, or of a mutant, with its scenario."""
        program = load(self.program)
        parameters = inspect.signature(program).parameters
        bound: dict[str, Any] = {}
        settable = [one for name, one in parameters.items() if name != "safeguards"]
        if mutant:
            bound = {"safeguards": self.without(mutant)}
            scenario = parameters["scenario"].replace(default=self.mutant_table[mutant].scenario)
            settable = [parameters["world"], scenario]

        @functools.wraps(program)
        def audited(world: "Declaring", **arguments: Any) -> None:
            defaults = {one.name: one.default for one in settable[1:]}
            program(world, **{**defaults, **arguments}, **bound)

        vars(audited)["__signature__"] = inspect.Signature(settable)
        return audited
