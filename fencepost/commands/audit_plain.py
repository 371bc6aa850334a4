"""`fencepost audit SYSTEM --store URL`: the same program, run for real, with threads on a real store.

A plain run has no control over anything: it can show that something breaks on this store with this timing,
and never that nothing does. So its verdict is `violated` or `undecided`.
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from fencepost.commands.exit_codes import VERDICT_EXITS, BadRequest
from fencepost.commands.output_files import write_result
from fencepost.commands.systems import Audited
from fencepost.impl.store import open_store
from fencepost.reports.audit_text import audit_text
from fencepost.results import AuditCoverage, AuditResult, RealRun, Violation
from fencepost.sim.explore.reporting import bind
from fencepost.sim.real import Found, NotForReal, Plain, run_rounds

__all__ = ["ROUNDS", "Plain", "audit_plainly", "refuse_beside_store"]

ROUNDS = 100


def refuse_beside_store(others: Mapping[str, object]) -> None:
    """A real run explores nothing, injects nothing and repeats nothing."""
    for name, value in others.items():
        if value is not None:
            raise BadRequest(
                f"--store runs for real, as it happens to come, and {name} is about runs under control; "
                "leave out either"
            )


def audit_plainly(
    system: Audited,
    arguments: Mapping[str, Any],
    url: str,
    wanted: Plain,
    console: Console,
    json_file: str | None,
    *,
    verbose: bool,
    quiet: bool,
) -> int:
    """Run the rounds, say what came of them, and answer the exit code."""
    program = bind(system.function, system.name, arguments)
    with open_store(url) as store:
        if not quiet:
            console.print(
                f"Runs {system.name} for real on {store.url}, {wanted.rounds} rounds, writing only below "
                "fencepost-audit/ and removing it afterwards."
            )
        try:
            found = run_rounds(program, store, wanted)
        except NotForReal as error:
            raise BadRequest(f"{system.name}: {error}") from error
        result = _result(system, arguments, store.url, wanted, found)
    console.print(audit_text(result, verbose=verbose, quiet=quiet))
    if json_file:
        write_result(result, json_file)
    return VERDICT_EXITS[result.verdict]


def _result(
    system: Audited, arguments: Mapping[str, Any], url: str, wanted: Plain, found: Found
) -> AuditResult:
    violations: tuple[Violation, ...] = ()
    if found.violation is not None:
        name, reason = found.violation
        violations = (Violation(name, reason, tuple(found.counterexample)),)
    return AuditResult(
        system=system.name,
        strategy="plain",
        parameters=dict(arguments),
        verdict="violated" if violations else "undecided",
        bound=_bound(found),
        schedules=found.rounds,
        seconds=found.seconds,
        violations=violations,
        findings=tuple(found.findings),
        coverage=AuditCoverage(dict(sorted(found.outcomes.items())), {}, dict(sorted(found.steps.items()))),
        seed=wanted.seed,
        real=RealRun(
            url,
            found.processes,
            found.requests,
            found.at_once,
            found.looks,
            found.unconfirmed,
            found.prefix,
            tuple(found.left),
        ),
    )


def _bound(found: Found) -> str:
    if found.violation is not None:
        return f"it broke for real, in round {found.rounds}"
    if not found.rounds:
        return "no round came to its end"
    return (
        f"nothing broke in {found.rounds:,} real {'round' if found.rounds == 1 else 'rounds'}, "
        "which proves nothing: orders that did not happen were not tried"
    )
