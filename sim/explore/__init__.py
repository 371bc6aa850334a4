"""The adversary: every interleaving and fault of real code, within a budget.

audit(program, budget=..., strategy=...) -> Audit        explore and judge
replay(program, token) -> Replay                         repeat a failure: violation, misfit, events()
save, load (in .checkpoint), jobs=2 of audit()           put a search down, share it
story_of, tell, lines_of                                 a failing run as a value
Reduced, Plain, Random, Pct, ByHypothesis                the searches, for those who drive them directly
Setting, Coverage, Failure, Story, Diverged, BadToken    what they take and give
"""

from holdfast.sim.explore.audit import STRATEGIES, Audit, audit, replay, story_of
from holdfast.sim.explore.plain import Plain
from holdfast.sim.explore.reduced import Reduced
from holdfast.sim.explore.runs import Coverage, Diverged, Failure, Setting
from holdfast.sim.explore.sampling import ByHypothesis, Pct, Random
from holdfast.sim.explore.story import Line, Story, lines_of, tell
from holdfast.sim.explore.tokens import BadToken, Replay

__all__ = [
    "STRATEGIES",
    "Audit",
    "BadToken",
    "ByHypothesis",
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
    "Story",
    "audit",
    "lines_of",
    "replay",
    "story_of",
    "tell",
]
