"""A machine checked in each mode of the kernel, compared with the verdicts of its oracle."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.model import Machine, check
from fencepost.model.kernel.search import explore
from tests.trust.oracles.machine_generator import Claim
from tests.trust.oracles.machine_language import Array, FlagSet, Many, Rec, Type
from tests.trust.oracles.machine_oracle import Label, MachineOracle, State, choices

SMALL_WORK = explore.Work(chunk=5, pending=7, wave=2, waiting=11, parts=3, nbytes=0)
PLAIN = ("numpy", "compiled", "exact", "spilled", "resumed", "compiled and exact")
SYMMETRIC = ("numpy", "symmetry", "symmetry, compiled", "symmetry, exact")
MEMORY = 8_000
"""Bytes with which states have to be written to the disk."""


def loaded(text: str, folder: Path, name: str) -> type[Machine]:
    """Return the machine in this text, from a file: the language reads the source of its functions."""
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    machine: type[Machine] = module.RandomMachine
    return machine


def checked(machine: type[Machine], mode: str, folder: Path, seed: int) -> Any:
    options: dict[str, Any] = {"keep_going": True, "workers": 1}
    options["compiled"] = "compiled" in mode
    options["exact"] = "exact" in mode
    options["symmetry"] = "symmetry" in mode
    if mode == "spilled":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(explore, "LEAST_MEMORY", 1)
            patch.setattr(explore.Work, "within", lambda *_: SMALL_WORK)
            return check(machine, memory=MEMORY, spill=folder, **options)
    if mode == "resumed":
        file = folder / f"search{seed}"
        check(machine, resume=file, max_depth=1 + seed % 3, **options)
        return check(machine, resume=file, **options)
    return check(machine, **options)


def differences(oracle: MachineOracle, result: Any, mode: str) -> Iterator[str]:
    """Return where a result differs from the oracle, counterexamples included."""
    if "symmetry" not in mode:
        expected = {
            "distinct": len(oracle.depth),
            "generated": oracle.generated,
            "depth": 1 + max(oracle.depth.values(), default=-1),
            "cut": len(oracle.cut),
        }
        for name, count in expected.items():
            if getattr(result, name) != count:
                yield f"{mode}: {name} is {getattr(result, name)}, not {count}"
    claims = {claim.name: claim for claim in oracle.spec.claims}
    for name, (verdict, length) in oracle.verdicts().items():
        found = result[name]
        if found.verdict != verdict:
            if mode != "spilled" or found.verdict != "undecided":
                yield f"{mode}: {name} is {found.verdict}, not {verdict}: {found.reason}"
            continue
        example = found.counterexample
        if length is not None and (example is None or len(example) != length):
            yield f"{mode}: {name} has {example and len(example)} steps, not {length}"
        elif example is not None and not oracle.cut:
            try:
                _follow(oracle, example, claims.get(name))
            except AssertionError as error:
                yield f"{mode}: the counterexample of {name} is wrong: {error}"


def plain(value: Any, kind: Type) -> Any:
    """Return a value of the kernel as the oracle writes it."""
    if isinstance(kind, Array):
        return tuple(plain(one, kind.element) for one in value)
    if isinstance(kind, Many):
        return kind.of(plain(one, kind.item) for one in value)
    if isinstance(kind, Rec):
        return tuple((name, plain(value[name], inside)) for name, inside in kind.parts)
    return frozenset(value) if isinstance(kind, FlagSet) else value


def _follow(oracle: MachineOracle, example: Any, claim: Claim | None) -> None:
    """Walk along a counterexample in the oracle's steps, and check that it shows what it claims."""
    states, taken = _path(oracle, example)
    if claim is None:
        assert not oracle.steps[states[-1]], "the last state has steps"
    elif claim.kind == "invariant":
        assert not oracle.everywhere(claim, states[-1]), "the last state is good"
    elif claim.kind == "reachable":
        assert any(oracle.holds(claim, states[-1], given) for given in choices(claim)), "not reached"
    elif claim.kind == "step":
        assert not oracle.holds_between(claim, *states[-2:]), "the last step is good"
    elif claim.kind != "always_recoverable":
        _follow_for_ever(oracle, example, claim, states, taken)


def _path(oracle: MachineOracle, example: Any) -> tuple[list[State], list[set[int]]]:
    """Return the states of a counterexample, and for each step the labels that may have been taken."""
    kinds = oracle.spec.fields
    state = tuple(plain(example.start[name], kind) for name, kind in kinds.items())
    assert state in oracle.starts, f"{state} is no start"
    states, taken = [state], []
    for step in example.steps:
        fitting = [
            (number, after)
            for number, after in oracle.steps[state]
            if _fits(oracle.labels[number], step) and _changes(oracle, state, after) == _shown(oracle, step)
        ]
        assert fitting, f"no step {step} from {state}"
        state = fitting[0][1]
        states.append(state)
        taken.append({number for number, after in fitting if after == state})
    return states, taken


def _fits(label: Label, step: Any) -> bool:
    places = {one.name for one in label.act.parameters if one.items_of}
    return label.act.name == step.action and all(
        name in places or step.parameters[name] == value for name, value in label.given
    )


def _changes(oracle: MachineOracle, before: State, after: State) -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for (name, kind), old, new in zip(oracle.spec.fields.items(), before, after, strict=True):
        if isinstance(kind, Array):
            pairs = enumerate(zip(old, new, strict=True))
            found |= {f"{name}[{at}]": pair for at, pair in pairs if pair[0] != pair[1]}
        elif old != new:
            found[name] = (old, new)
    return found


def _shown(oracle: MachineOracle, step: Any) -> dict[str, tuple[Any, ...]]:
    """Return the changes that a step of a counterexample shows."""
    found = {}
    for name, pair in step.changes.items():
        kind = oracle.spec.fields[name.partition("[")[0]]
        inside = kind.element if isinstance(kind, Array) else kind
        found[name] = tuple(plain(value, inside) for value in pair)
    return found


def _follow_for_ever(
    oracle: MachineOracle, example: Any, claim: Claim, states: list[State], taken: list[set[int]]
) -> None:
    """Check that the end of a counterexample repeats, is fair, and avoids the goal."""
    loop, labels = [states[-1]], list[set[int]]()
    if example.loop is not None:
        first = example.loop - 1
        assert states[-1] == states[first], "the loop does not close"
        loop = states[first:-1]
        moves = zip(taken[first:], states[first:], states[first + 1 :], strict=False)
        labels = [found for found, before, after in moves if before != after]
    enabled = [oracle.enabled(state) for state in loop]
    for group in oracle.groups(claim.weak):
        met = any(not group & one for one in enabled) or any(group & one for one in labels)
        assert met, "a weak demand is not met"
    for group in oracle.groups(claim.strong):
        met = all(not group & one for one in enabled) or any(group & one for one in labels)
        assert met, "a strong demand is not met"
    assert any(_avoids(oracle, claim, given, states, loop) for given in choices(claim)), "the goal is met"


def _avoids(
    oracle: MachineOracle, claim: Claim, given: dict[str, Any], states: list[State], loop: list[State]
) -> bool:
    def never(run: list[State]) -> bool:
        return not any(oracle.holds(claim, state, given) for state in run)

    if claim.kind == "eventually":
        return never(states)
    if claim.kind == "infinitely_often":
        return never(loop)
    when = claim.when
    assert when is not None
    return any(
        when.value(oracle.env(state, given)) and never([*states[at:], *loop])
        for at, state in enumerate(states)
    )
