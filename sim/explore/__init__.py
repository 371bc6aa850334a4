"""The adversary: every interleaving and fault of real code, within a budget.

audit(program, budget=..., strategy=...) -> AuditOutcome     explore and judge
AuditRequest, run_audit, run_token (in .reporting)           the same for commands and tests, with all details
replay(program, token) -> Replay                             repeat a failure: violation, misfit, events()
ReducedSearch, Plain, Random, Pct, ByHypothesis                    the searches
"""

from fencepost.sim.explore.audit import STRATEGIES, AuditOutcome, AuditRequest, audit, replay
from fencepost.sim.explore.counterexample import Counterexample, Line, counterexample_of, lines_of
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Coverage, Failure, Setting
from fencepost.sim.explore.sampling import ByHypothesis, Pct, Random
from fencepost.sim.explore.tokens import BadToken, Replay
from fencepost.sim.world.process import Diverged

__all__ = [
    "STRATEGIES",
    "AuditOutcome",
    "AuditRequest",
    "BadToken",
    "ByHypothesis",
    "Counterexample",
    "Coverage",
    "Diverged",
    "Failure",
    "Line",
    "Pct",
    "Plain",
    "Random",
    "ReducedSearch",
    "Replay",
    "Setting",
    "audit",
    "counterexample_of",
    "lines_of",
    "replay",
]
