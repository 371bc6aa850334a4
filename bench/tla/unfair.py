"""Protocols with less fairness than they need: both checkers must find a run that never gets there."""

from bench.tla.ewd998 import Ewd998
from fencepost.model import *
from fencepost.model.textbook.alternating_bit import AlternatingBit
from fencepost.model.textbook.readers_writers import ReadersWriters


class WeaklyFairBit(AlternatingBit):
    """A message that is sent again and again may be lost each time."""

    @leads_to(fair=("send", "acknowledge", "receive", "hear"))
    def delivered(s) -> tuple[Truth, Truth]:
        """Violated: a message is always lost before it can be received."""
        return s.sending.bit != s.acknowledged, s.sending == s.received


class ReadersWritersStay(ReadersWriters):
    """An actor that is inside may stay there."""

    @leads_to(fair=("enter",), a=ReadersWriters.actors)
    def served(s, a: int) -> tuple[Truth, Truth]:
        """Violated: a writer never leaves."""
        return s.waiting.any(lambda w: w.actor == a), s.readers.has(a) | s.writers.has(a)


class UnfairEwd998(Ewd998):
    """The token may rest."""

    @leads_to()
    def is_detected(s) -> tuple[Truth, Truth]:
        """Violated: no process passes the token."""
        return s.is_over(), s.detected()
