"""The reads and writes of all processes could have happened one process after the other.

A transaction is everything that a process does with the objects of the target from its start to its end, or
from the note `begin` to the note `commit` if it makes such notes. Of several looks at one key before a
write of it only the last counts, as in a loop that tries again. Two transactions conflict where one writes
a key that the other reads or writes; a cycle of conflicts is a violation: write skew, a read of half a
change, a lost update. Transactions that crash or fail count if they wrote something. A write whose reply
was lost is a transaction of its own, because the process may repeat it.

For processes that are transactions: a process that takes a lock and gives it back is none without such notes.
"""

from collections.abc import Hashable, Mapping

from fencepost.properties.promises.observation import (
    CHANGES,
    CRASH,
    END,
    LIST,
    LOOK,
    NOTE,
    READ,
    Observation,
)
from fencepost.properties.promises.promise import Promise

Transaction = tuple[str, int]
"""A strand, and the number of its transaction."""


class Serializable(Promise):
    kind = "serializable"
    meaning = "what each process read and wrote could have happened one process after the other"
    needs_target = False

    def __init__(self, target: str = "", given: Mapping[str, str] | None = None) -> None:
        super().__init__(target, given)
        self._numbers: dict[str, int] = {}
        """By strand: its transactions so far."""
        self._writers: dict[str, list[Transaction]] = {}
        """By key: who wrote each version; the first is what was there at the beginning."""
        self._reads: dict[Transaction, dict[str, int]] = {}
        """By transaction and key: the version that it read last."""
        self._ended: set[Transaction] = set()
        self._open: set[str] = set()
        """Strands between a note that begins a transaction and the one that ends it."""
        self._listed: set[tuple[Transaction, str]] = set()
        """Transaction and prefix: keys below that are met later did not exist when it listed them."""

    def _present(self, strand: str) -> Transaction:
        return strand, self._numbers.get(strand, 0)

    def _versions(self, key: str) -> list[Transaction]:
        found = self._writers.get(key)
        if found is None:
            found = self._writers[key] = [("", 0)]
            for transaction, prefix in self._listed:
                if key.startswith(prefix):
                    self._reads.setdefault(transaction, {})[key] = 0
        return found

    def observe(self, seen: Observation) -> str | None:
        kind, mine = seen.kind, self._present(seen.strand)
        if kind == NOTE and seen.key in ("begin", "commit", "abort"):
            self._end(mine, committed=seen.key == "commit" or seen.strand not in self._open)
            (self._open.add if seen.key == "begin" else self._open.discard)(seen.strand)
            return self._cycle() if seen.key == "commit" else None
        if kind in (END, CRASH):
            self._end(mine, committed=kind == END and not seen.failed)
            self._open = {strand for strand in self._open if not _ends_with(strand, seen)}
            return self._cycle()
        if kind == LIST:
            for key in self._writers:
                if key.startswith(seen.key) and seen.acknowledged and self.target.holds(key):
                    self._reads.setdefault(mine, {})[key] = len(self._versions(key)) - 1
            if seen.acknowledged:
                self._listed.add((mine, seen.key))
            return None
        if not self.target.holds(seen.key):
            return None
        if kind in (READ, LOOK) and seen.acknowledged:
            self._reads.setdefault(mine, {})[seen.key] = len(self._versions(seen.key)) - 1
        elif kind in CHANGES:
            alone = (f"{mine[0]} (no reply)", len(self._versions(seen.key)))
            self._versions(seen.key).append(mine if seen.acknowledged else alone)
        return None

    def _end(self, mine: Transaction, *, committed: bool) -> None:
        wrote = any(mine in writers for writers in self._writers.values())
        if committed or wrote:
            self._ended.add(mine)
        else:
            self._reads.pop(mine, None)
            self._listed = {one for one in self._listed if one[0] != mine}
        self._numbers[mine[0]] = mine[1] + 1

    def _cycle(self) -> str | None:
        edges: dict[Transaction, set[Transaction]] = {one: set() for one in self._ended}
        for key, writers in self._writers.items():
            for place, writer in enumerate(writers):
                if place + 1 < len(writers):
                    self._edge(edges, writer, writers[place + 1])
                for reader, reads in self._reads.items():
                    if reads.get(key) == place:
                        self._edge(edges, writer, reader)
                        later = next((one for one in writers[place + 1 :] if one != reader), None)
                        own = reader in writers[place + 1 : place + 2]
                        if (later is not None and not own) or later is not None:
                            self._edge(edges, reader, later)
        found = _cycle_in(edges)
        if found is None:
            return None
        names = [strand for strand, _ in found]
        return f"no order of {', '.join(names[:-1])} and {names[-1]} one after the other has these results"

    def _edge(self, edges: dict[Transaction, set[Transaction]], one: Transaction, other: Transaction) -> None:
        if one != other and one in self._ended and other in self._ended:
            edges[one].add(other)

    def state(self) -> Hashable:
        return (
            tuple(sorted(self._numbers.items())),
            tuple(sorted((key, tuple(writers)) for key, writers in self._writers.items())),
            tuple(sorted((at, tuple(sorted(reads.items()))) for at, reads in self._reads.items())),
            tuple(sorted(self._ended)),
            tuple(sorted(self._open)),
            tuple(sorted(self._listed)),
        )


def _ends_with(strand: str, seen: Observation) -> bool:
    """Return True if a strand is over with this end or crash; a crash ends all threads of its process."""
    return strand == seen.strand or (seen.kind == CRASH and strand.startswith(f"{seen.process}/"))


def _cycle_in(edges: Mapping[Transaction, set[Transaction]]) -> list[Transaction] | None:
    """Return the transactions of a cycle, in order of their names."""
    done: set[Transaction] = set()
    for start in sorted(edges):
        path: list[Transaction] = []
        found = _walk(edges, start, path, done)
        if found:
            return sorted(found)
    return None


def _walk(
    edges: Mapping[Transaction, set[Transaction]],
    at: Transaction,
    path: list[Transaction],
    done: set[Transaction],
) -> list[Transaction] | None:
    if at in path:
        return path[path.index(at) :]
    if at in done:
        return None
    path.append(at)
    for other in sorted(edges[at]):
        found = _walk(edges, other, path, done)
        if found:
            return found
    path.pop()
    done.add(at)
    return None
