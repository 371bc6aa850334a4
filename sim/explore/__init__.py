"""The adversary: every interleaving and fault of real code, within a budget.

audit(program, budget=..., strategy=...) -> Audit        explore and judge
replay(program, token) -> Replay                         repeat a failure: violation, misfit, events()
save, load (in .checkpoint), jobs=2 of audit()           put a search down, share it
counterexample_of, tell, lines_of                                 a failing run as a value
Reduced, Plain, Random, Pct, ByHypothesis                the searches, for those who drive them directly
Setting, Coverage, Failure, Counterexample, Diverged, BadToken    what they take and give
"""

from fencepost.sim.explore.audit import STRATEGIES, Audit, audit, counterexample_of, replay
from fencepost.sim.explore.counterexample import Counterexample, Line, lines_of, tell
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import Reduced
from fencepost.sim.explore.runs import Coverage, Diverged, Failure, Setting
from fencepost.sim.explore.sampling import ByHypothesis, Pct, Random
from fencepost.sim.explore.tokens import BadToken, Replay

__all__ = [
    "STRATEGIES",
    "Audit",
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
    "Reduced",
    "Replay",
    "Setting",
    "audit",
    "counterexample_of",
    "lines_of",
    "replay",
    "tell",
]
