"""What a collector grants its clients, so that none of them, and not all together, can use it up.

    connections      open at once; one more is told 503 and closed
    requests         being worked on at once, all agents; one more is told 503
    agent_requests   the same for one agent; one more is told 429, so that one agent starves no other
    threads          that wait for the store; a request beyond them waits its turn in memory

The body of every request that is worked on may be in memory: at worst `requests` times `body_bytes`, and
`threads` times what such a body unpacks to.
"""

from dataclasses import dataclass, fields

from fencepost.impl.ingest import frames

UNPACKED_RATIO = 8
"""Points that are much alike pack this well; who has more sends two batches."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All of them have a value that suits a small machine."""

    body_bytes: int = 8 * 1024 * 1024
    connections: int = 2000
    requests: int = 64
    agent_requests: int = 16
    threads: int = 16
    header_s: float = 10.0
    """From the start of a connection, or the first byte of a later request, to the end of its headers."""
    body_s: float = 30.0
    """For the whole body."""
    idle_s: float = 30.0
    """Between requests."""
    write_s: float = 10.0
    """How long a client may leave its answer unread once the buffers are full."""
    linger_s: float = 2.0
    """How long what a refused client goes on sending is read and thrown away: closing at once would make its
    system drop the answer that is on its way."""
    drain_s: float = 60.0
    """For requests that are worked on when the collector is told to stop."""
    retry_after_s: int = 1
    """What a client that is turned away is told to wait."""

    def of_frames(self) -> frames.Limits:
        """What a frame may claim to hold: a small body must not unpack to all the memory there is."""
        return frames.Limits(frame_bytes=self.body_bytes, unpacked_bytes=UNPACKED_RATIO * self.body_bytes)

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"the limit {field.name} is {getattr(self, field.name)}; give more than 0")
