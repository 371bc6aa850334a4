"""Requests of a path that is only described: they take time and places, and mean nothing to the store."""

from dataclasses import dataclass

from fencepost.impl.store.requests import Outcome, Reply

READS = frozenset({"get", "head", "list", "list-versions", "list-uploads"})
WRITES = frozenset({"put", "delete", "create-upload", "upload-part", "complete-upload", "abort-upload"})


@dataclass(frozen=True, slots=True)
class Nominal:
    """One request of `kind`, which every store answers with `done`. Asked like a `Request`, but none of them:
    no code of ours could send it."""

    kind: str
    key: str
    size: int
    """Bytes in its body: sent by a write, received by a read."""
    reads: bool

    @property
    def subject(self) -> str:
        return self.key

    def ends(self, outcome: Outcome, detail: str = "") -> Reply:
        return Reply(outcome, detail)


def nominal(kind: str, key: str, size: int = 0) -> Nominal:
    return Nominal(kind, key, size, kind in READS)
