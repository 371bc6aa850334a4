"""Ready promises, tried on a program that declares no property: what they find is a suspicion, no violation.

An audit without a property shows that no process fails, and nothing about the data. So the promises that
fit the keys of the program are tried for a few seconds. A fault that they find is shown with its schedule,
and does not change the verdict: the author may have meant it. `--promise` makes it binding.
"""

from dataclasses import replace

from fencepost.properties.promises.suggesting import suggested
from fencepost.sim.explore.audit import AuditOutcome, AuditRequest, declared_properties
from fencepost.sim.explore.counterexample import Counterexample
from fencepost.sim.explore.reporting import run_audit, run_token
from fencepost.sim.world import World

SECONDS = 10.0
"""For all of them together."""


def with_suspicions(request: AuditRequest, outcome: AuditOutcome) -> AuditOutcome:
    """Return the outcome with what ready promises find, if the program declares no property."""
    if outcome.counterexamples or outcome.verdict == "error" or outcome.interrupted:
        return outcome
    if declared_properties(outcome.request.setting):
        return outcome
    keys = {event.key for event in run_token(request, "default").events if event.kind != "note"}
    texts = suggested(keys)
    found = _suspicions(request, texts)
    fitting = " ".join(f"--promise {text}" for text in texts)
    findings = [f"no property is declared: this shows that no process fails, and no more; try {fitting}"]
    findings += [
        f"suspicious: {one.reason}; --promise {one.property.partition(' ')[0]} makes it binding"
        for one in found
    ]
    return replace(outcome, findings=(*outcome.findings, *findings), suspicions=tuple(found))


def _suspicions(request: AuditRequest, texts: list[str]) -> tuple[Counterexample, ...]:
    def program(world: World) -> None:
        request.program(world)
        for text in texts:
            world.promise(text)

    program.__qualname__ = getattr(request.program, "__qualname__", "a program")
    seconds = SECONDS if request.seconds is None else min(SECONDS, request.seconds)
    return run_audit(
        replace(request, program=program, seconds=seconds, checkpoint=None, resume=False)
    ).counterexamples
