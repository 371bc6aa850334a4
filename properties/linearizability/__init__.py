"""Decide whether a recorded history of a store's keys is one of a store that does one thing at a time.

verdict = check_history(operations_of(events))
assert verdict.judgement is Judgement.LINEARIZABLE, verdict.explanation
"""

from fencepost.properties.linearizability.check import Judgement, Verdict, check_history
from fencepost.properties.linearizability.history import Operation, operation, operations_of

__all__ = ["Judgement", "Operation", "Verdict", "check_history", "operation", "operations_of"]
