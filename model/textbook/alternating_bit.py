"""The alternating bit protocol: data in order over two channels that lose and repeat messages.

The sender repeats a message with its bit until the same bit comes back, then turns the bit. Progress needs
strong fairness: what is sent again and again is received again and again.
"""

from typing import Any

from fencepost.model import *


class AlternatingBit(Machine):
    """One sender, one receiver, two channels."""

    data = Size(2, doc="different messages")
    room = Size(2, doc="messages on their way in each direction", least=1, most=6)

    wire = Channel(room, Record(bit=Bool(), data=Id(data)), lossy=True)
    acknowledgements = Channel(room, Bool(), lossy=True)
    sending = Record(bit=Bool(), data=Id(data))
    acknowledged = Bool()  # the bit that came back last
    received = Record(bit=Bool(), data=Id(data))

    @action(d=data)
    def accept(s, d: int) -> None:
        s.require(s.acknowledged == s.sending.bit)
        s.sending = {"bit": ~s.sending.bit, "data": d}

    @action
    def send(s) -> None:
        s.require((s.acknowledged != s.sending.bit) & ~s.wire.is_full())
        s.wire.send(s.sending)

    @action(m=wire)
    def receive(s, m: Any) -> None:
        s.wire.remove(m)
        s.received = pick(m.bit != s.received.bit, m, s.received)

    @action
    def acknowledge(s) -> None:
        s.require(~s.acknowledgements.is_full())
        s.acknowledgements.send(s.received.bit)

    @action(b=acknowledgements)
    def hear(s, b: Truth) -> None:
        s.acknowledged = b
        s.acknowledgements.remove(b)

    @invariant
    def in_step(s) -> Truth:
        """Acknowledged data were received."""
        return implies(s.acknowledged == s.sending.bit, s.received == s.sending)

    @leads_to(fair=("send", "acknowledge"), strong=("receive", "hear"))
    def delivered(s) -> tuple[Truth, Truth]:
        """Data that are sent are received."""
        return s.sending.bit != s.acknowledged, s.sending == s.received
