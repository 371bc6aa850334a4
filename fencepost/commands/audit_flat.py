"""`fencepost audit SYSTEM --flat NAME=A,B`: does anything cost more when there is more of something?

The program is audited with NAME=A. What its operations took at most there, by faults, is then their bound in
an audit with NAME=B, and so a schedule that takes more is a violation like any other: with its
counterexample, and a
token that repeats it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.auditing import Outcome, Wanted
from fencepost.commands.exit_codes import BadRequest
from fencepost.sim.world.costs import AtMost

Search = Callable[[Wanted], Outcome]


def read_flat(text: str) -> tuple[str, list[str]]:
    """`depth=1,20` as a name and its values, as they are written."""
    name, _, values = text.partition("=")
    found = values.split(",")
    if not name or len(found) < 2 or not all(found):
        raise BadRequest(f"--flat {text} must read NAME=A,B, as in --flat depth=1,20")
    return name, found


def refuse_beside_flat(alone: Mapping[str, object]) -> None:
    """Options that are about one search."""
    for option, value in alone.items():
        if value is not None:
            raise BadRequest(f"--flat audits several sizes, and {option} is about one; leave out either")


def audit_flat(name: str, wanted: Sequence[Wanted], first: Search, others: Search) -> Outcome:
    """The result of the first size, or of the first other one that takes more; `others` may be a replay."""
    outcome = first(wanted[0])
    result = outcome.result
    if result["verdict"] != "holds":
        if not result["violations"]:
            result["findings"].append(f"whether costs grow with {name} was not looked at")
        return outcome
    values = [one.parameters[name] for one in wanted]
    bounds = _bounds(result.get("cost", {}), f", as with {name}={values[0]}")
    for one in wanted[1:]:
        other = others(_bounded(one, bounds))
        if other.result["verdict"] != "holds":
            return other
    sizes = " or ".join(f"{name}={value}" for value in values[1:])
    result["bound"] += f"; no operation costs more with {sizes} than with {name}={values[0]}"
    result["flat"] = {"parameter": name, "values": values}
    for row in result.get("cost", {}).values():
        if "faults" in row:
            row["flat"] = True
    return outcome


def _bounds(cost: Mapping[str, Any], why: str) -> list[AtMost]:
    return [
        AtMost(name, level["requests"], level["hops"], level["faults"], why)
        for name, row in cost.items()
        for level in row.get("faults", ())
    ]


def _bounded(wanted: Wanted, bounds: Sequence[AtMost]) -> Wanted:
    def program(world: Any) -> None:
        wanted.program(world)
        world.bounds.extend(bounds)

    program.__qualname__ = getattr(wanted.program, "__qualname__", "a program")
    return replace(wanted, program=program)
