"""What a batch is called: an agent, one boot of it, and the first and last sequence number in the batch.

The name is the whole of deduplication: two batches of one identity are one batch, or a conflict. In keys
agent and boot are written in hexadecimal, so that no name of an agent can be a path, and sequence numbers
with 20 digits, so that the order of keys is the order of sequence.

    identity = Identity("agent-a", "boot-1", 10, 20)
    identity.path     # agent=6167656e742d61/boot=626f6f742d31/00000000000000000010-00000000000000000020
    Identity.of_key(f"accepted/v1/{identity.path}.json") == identity
"""

import re
from dataclasses import dataclass

from fencepost.impl.ingest.errors import IdentityError

NAME_BYTES_MAX = 128
"""Of an agent or a boot, in UTF-8: keys with both and a hash stay below S3's 1,024 bytes."""
SEQ_MAX = 2**64 - 1
"""What fits in 20 digits and in the frame's 64 bits."""

_PATH = re.compile(r"agent=([0-9a-f]+)/boot=([0-9a-f]+)/(\d{20})-(\d{20})(?=[./]|$)")


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Checked when it is made: an `Identity` that exists can be a key."""

    agent: str
    boot: str
    seq_start: int
    seq_end: int

    def __post_init__(self) -> None:
        _check_name(self.agent, "agent")
        _check_name(self.boot, "boot")
        for value, what in ((self.seq_start, "seq_start"), (self.seq_end, "seq_end")):
            if type(value) is not int or not 0 <= value <= SEQ_MAX:
                raise IdentityError(f"{what} is {_shown(value)}; expected a whole number from 0 to {SEQ_MAX}")
        if self.seq_end < self.seq_start:
            raise IdentityError(f"seq_end {self.seq_end} lies before seq_start {self.seq_start}; swap them")

    @property
    def range(self) -> str:
        return f"{self.seq_start:020d}-{self.seq_end:020d}"

    @property
    def path(self) -> str:
        """How every key about this identity says whose it is."""
        return f"{boot_path(self.agent, self.boot)}{self.range}"

    @classmethod
    def of_key(cls, key: str) -> "Identity":
        """The identity that any key with a `path` in it is about."""
        found = _PATH.search(key)
        if found is None:
            raise IdentityError(
                f"{_shown(key)} names no identity: expected agent=<hex>/boot=<hex>/<start>-<end>"
            )
        agent, boot, start, end = found.groups()
        return cls(name_of_hex(agent), name_of_hex(boot), int(start), int(end))

    def __str__(self) -> str:
        return f"{self.agent}/{self.boot}/{self.seq_start}-{self.seq_end}"


def agent_path(agent: str) -> str:
    """The part of a key below which everything of one agent stands."""
    _check_name(agent, "agent")
    return f"agent={agent.encode().hex()}/"


def boot_path(agent: str, boot: str) -> str:
    """The part of a key below which everything of one boot stands."""
    _check_name(boot, "boot")
    return f"{agent_path(agent)}boot={boot.encode().hex()}/"


def name_of_hex(text: str) -> str:
    """An agent's or a boot's name as it stands in a key."""
    try:
        return bytes.fromhex(text).decode()
    except ValueError:
        raise IdentityError(f"{_shown(text)} is no name in hexadecimal UTF-8") from None


def _check_name(value: object, what: str) -> None:
    if not isinstance(value, str):
        raise IdentityError(f"the {what} is a {type(value).__name__}, expected text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise IdentityError(f"the {what} {_shown(value)} is not valid Unicode (a lone surrogate)") from None
    if not 1 <= size <= NAME_BYTES_MAX:
        raise IdentityError(f"the {what} {_shown(value)} has {size} bytes, expected 1 to {NAME_BYTES_MAX}")
    # Invisible characters would give two agents that look alike to whoever resolves a conflict.
    if not value.isprintable() or value != value.strip():
        raise IdentityError(
            f"the {what} {_shown(value)} holds control characters or outer spaces; use printable ones"
        )


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
