"""The two checked levels of every system: what is proven of both, and which mistakes the proof catches.

    python -m bench.refinements [--system NAME] [--without-mutants]

For each system whose model refines an observed machine, the table has the sizes of the proof, the pairs of
states that it explored, and its seconds. Mutants of both sides follow.

    model       each safeguard switched off: the proof must break, or a property of the model
    observed    each action of the observed machine that never happens, and each that changes nothing: the
                proof must break
    guards      each action of the observed machine without its guards: it then allows more, which no proof of
                a refinement rejects; a property of the observed machine should break

A mutant that nothing catches is named: a guard that no property needs, or an action whose effect nothing
reads. Every check stops at the first violation.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from types import MappingProxyType
from typing import Any

from bench import report
from fencepost.model import Machine, Model, ModelError, Property, action, check
from fencepost.model.kernel.compiled.build import has_compiler
from fencepost.model.kernel.language.declare import ActionDeclared
from fencepost.model.kernel.language.machine import marked
from fencepost.model.kernel.search.explore import Explorer
from fencepost.model.kernel.search.refinement import prove
from fencepost.sim.systems import SYSTEMS, load

Caught = dict[str, str]
"""By mutant, what it breaks; empty for a mutant that nothing catches."""
KINDS = ("never", "idle", "unguarded")


@dataclass
class Row:
    """One system."""

    system: str
    model: str
    observed: str
    sizes: dict[str, int]
    verdict: str
    pairs: int
    generated: int
    seconds: float
    observed_states: int
    observed_properties: list[str]
    safeguards: Caught = field(default_factory=dict)
    observed_mutants: Caught = field(default_factory=dict)
    guards: Caught = field(default_factory=dict)
    mutant_seconds: float = 0.0


def refinement_of(machine: type[Machine]) -> Property | None:
    """The refinement by labels that a machine declares."""
    return next((each for each in Model(machine).properties if each.kind.explores), None)


def explorer(*, compiled: bool) -> Any:
    """Explores a product until it is explored, or violated."""
    how = {"compiled": True} if compiled else {}
    return lambda model: Explorer(model, deadlocks=False, **how).run()


def mutant(machine: type[Machine], name: str, kind: str) -> type[Machine]:
    """A machine with one action that never happens, changes nothing, or has no guards."""
    declared = next(each for each in marked(machine, ActionDeclared) if each.name == name)

    def changed(s: Any, **parameters: Any) -> None:
        if kind == "never":
            s.require(False)
        elif kind == "unguarded":
            declared.function(_without_guards(s), **parameters)

    names = [*declared.domains]
    taken = ", ".join(names)
    given = ", ".join(f"{each}={each}" for each in names)
    scope: dict[str, Any] = {"changed": changed}
    exec(f"def {name}(s{', ' if names else ''}{taken}):\n    changed(s, {given})", scope)  # noqa: S102  its parameters are those of the action
    domains = {each: getattr(domain, "domain", domain) for each, domain in declared.domains.items()}
    if kind != "unguarded":
        domains = dict(declared.domains)
    made: type[Machine] = type(
        machine.__name__, (machine,), {name: action(**domains)(scope[name]) if names else action(scope[name])}
    )
    return made


def _without_guards(s: Machine) -> Machine:
    """The same rows, on which a guard keeps every row."""
    lenient = type(type(s).__name__, (type(s),), {})
    type.__setattr__(lenient, "require", _keep_every_row)  # the body of a class refuses the name
    rows: Machine = object.__new__(lenient)
    object.__setattr__(rows, "frame", s.frame)
    return rows


def _keep_every_row(_s: Machine, *_conditions: object) -> None:
    """A guard that keeps every row."""


def breaks_proof(wanted: Property, model: Model, *, compiled: bool) -> str:
    """The first reason why a refinement does not hold; empty if it does."""
    try:
        found, _, _ = prove(wanted, model, explorer(compiled=compiled))
    except ModelError as error:
        return f"error: {error}"
    return found.reason if found.verdict == "violated" else ""


def breaks_property(machine: type[Machine], model: Model | None = None, *, same_as: int = -1) -> str | None:
    """The properties that a machine breaks, goals left out; None if it generates `same_as` states, as another
    machine does that it then equals.
    """
    try:
        result = check(machine if model is None else model, deadlock=False)
    except ModelError as error:
        return f"error: {error}"
    if result.generated == same_as:
        return None
    broken = [each.name for each in result.properties if each.verdict == "violated" and each.counterexample]
    return ", ".join(broken)


def observed_mutants(
    wanted: Property, model: Model, *, compiled: bool, known: Mapping[str, str] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """Mutants of the observed machine that are not caught yet, each with what the proof says."""
    other = wanted.refines.machine
    for declared in marked(other, ActionDeclared):
        if declared.part != "action":
            continue
        for kind in KINDS[:2]:
            if known.get(f"{declared.name} {kind}"):
                continue
            changed = replace(wanted.refines, machine=mutant(other, declared.name, kind))
            reason = breaks_proof(replace(wanted, refines=changed), model, compiled=compiled)
            yield f"{declared.name} {kind}", reason


def unguarded(observed: type[Machine]) -> Iterator[tuple[str, str]]:
    """The observed machine without the guards of one action that has some, each with what it breaks."""
    generated = check(observed, deadlock=False).generated
    for declared in marked(observed, ActionDeclared):
        if declared.part == "action":
            broken = breaks_property(mutant(observed, declared.name, "unguarded"), same_as=generated)
            if broken is not None:
                yield declared.name, broken


def rows_of(system: str, *, mutants: bool, compiled: bool) -> list[Row]:
    """A row for each model that refines the observed machine of a system; the first has its mutants."""
    descriptor = SYSTEMS[system]
    observed: type[Machine] = load(descriptor.observed)
    own = check(observed)
    rows = []
    proofs = []
    for machine in descriptor.refining():
        wanted = refinement_of(machine)
        assert wanted is not None, "it refines the observed machine"
        model = Model(machine)
        proofs.append((wanted, model))
        found, _, _ = prove(wanted, model, explorer(compiled=compiled))
        assert found.proof is not None, "it was explored"
        row = Row(
            system,
            model.name,
            found.proof.refines,
            dict(found.proof.parameters),
            found.verdict,
            found.proof.distinct,
            found.proof.generated,
            round(found.proof.seconds, 2),
            own.distinct,
            [each.name for each in own.properties if each.verdict == "holds"],
        )
        rows.append(row)
        begun = perf_counter()
        for name in machine.safeguards if mutants else ():
            off = Model(machine, machine.shown_at.get(name), without=[name])
            by_proof = breaks_proof(wanted, off, compiled=compiled)
            row.safeguards[name] = by_proof or breaks_property(machine, off) or ""
        row.mutant_seconds = round(perf_counter() - begun, 1)
    begun = perf_counter()
    for wanted, model in proofs if mutants else ():
        for name, reason in observed_mutants(
            wanted, model, compiled=compiled, known=rows[0].observed_mutants
        ):
            rows[0].observed_mutants[name] = reason
    if mutants:
        rows[0].guards = dict(unguarded(observed))
        rows[0].mutant_seconds += round(perf_counter() - begun, 1)
    return rows


def lines(row: Row) -> Iterator[str]:
    """A system as text."""
    sizes = " ".join(f"{name}={value}" for name, value in row.sizes.items())
    yield (
        f"{row.system}: {row.model} refines {row.observed} at {sizes}: {row.verdict}, {row.pairs:,} pairs, "
        f"{row.generated:,} generated, {row.seconds:.2f} s"
    )
    holds = ", ".join(row.observed_properties)
    yield f"  {row.observed}: {row.observed_states:,} states by itself; holds: {holds}"
    for what, caught in (
        ("safeguards off", row.safeguards),
        ("mutants of the observed machine", row.observed_mutants),
        ("actions of the observed machine without guards", row.guards),
    ):
        if not caught:
            continue
        missed = [name for name, reason in caught.items() if not reason]
        yield f"  {what}: {len(caught) - len(missed)} of {len(caught)} caught" + (
            f"; not caught: {', '.join(missed)}" if missed else ""
        )
        example = next(((name, reason) for name, reason in caught.items() if reason), None)
        if example is not None:
            yield f"    for example {example[0]}: {example[1]}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.refinements", description=__doc__)
    parser.add_argument("--system", action="append", help="one system; may be repeated")
    parser.add_argument("--without-mutants", action="store_true")
    options = parser.parse_args(arguments)
    rows = []
    for system in options.system or SYSTEMS:
        for row in rows_of(system, mutants=not options.without_mutants, compiled=has_compiler()):
            sys.stdout.write("\n".join(lines(row)) + "\n")
            sys.stdout.flush()
            rows.append(row)
    path = report.write("refinements", {"systems": [vars(row) for row in rows]})
    sys.stdout.write(f"written to {path}\n")
    return 0 if all(row.verdict == "holds" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
