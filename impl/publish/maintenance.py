"""Unattended maintenance of a catalog: it settles dead plans, compacts, and cleans up, in rounds.

    maintainer = Maintainer(store, env)
    while running:
        done = maintainer.round(stop)
        env.sleep(0 if done.more else every_s)

A round compares what is there with what should be, and does a bounded part of the difference. It keeps no
state: everything follows from the store, so a round may be killed anywhere, any number of processes may run
rounds at once, and a new process goes on where any other was.

    recover    Settle plans whose writers are dead, by opening each branch as every writer does.
    compact    Rewrite tables of too many runs, at most `tables` in a round. The order is random, so that
               several processes begin with different ones.
    clean      Delete what no retained manifest needs, at most `deletes` objects in a round.

A compaction is a commit like any other. If a writer is first, the writer wins: nothing of the compaction
becomes visible, and a later round does it again. It holds up a writer of its table for the two hops from its
head to its manifest. If it dies between them, writers wait for it as for any dead writer (`stuck_after_s`).

It joins the writers of a branch and never claims, so it fences no writer. A table that a branch has inherited
is left to its owner, because rewriting it on the branch would copy it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fencepost.impl.environment import Environment
from fencepost.impl.publish import branches, keys
from fencepost.impl.publish.catalog import Catalog
from fencepost.impl.publish.cleanup import Cleaned, Limits, cleanup
from fencepost.impl.publish.context import GRACE_S, MAIN, BranchContext, Mode
from fencepost.impl.publish.documents import Pin
from fencepost.impl.publish.errors import Absent, Fenced, Invalid, StaleView
from fencepost.impl.publish.pressure import OFF, Debt
from fencepost.impl.publish.safeguards import STANDARD, Safeguards
from fencepost.impl.store.interface import Store

KEEP = 1000
"""Manifests that maintenance retains by default. Merges of branches need the manifest they began at."""
RUNS_MAX = 32
"""Commits alone leave about 7 runs for each digit, to the base 8, of the number of rows."""
TABLES_MAX = 8
DELETES_MAX = 10_000
ATTEMPTS = 2
"""Attempts of one compaction in a round, against live writers."""
ORPHANS_EVERY_S = 3600.0
"""Seconds after which a process looks for objects of dead writers, if nothing else is to be cleaned."""
PINS_MAX = 100_000
"""Numbers of runs that are remembered."""


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals of a maintainer, and the limits of one round."""

    keep: int = KEEP
    """Manifests of each branch that are retained."""
    runs: int = RUNS_MAX
    """Runs from which on a table is compacted."""
    tables: int = TABLES_MAX
    deletes: int = DELETES_MAX

    def __post_init__(self) -> None:
        for name, least in (("keep", 1), ("runs", 2), ("tables", 1), ("deletes", 1)):
            if getattr(self, name) < least:
                raise Invalid(f"{name} is {getattr(self, name)}; it is at least {least}")


@dataclass(slots=True)
class Round:
    """The work of one round, or of several."""

    settled: int = 0
    """Plans of dead writers."""
    compacted: list[str] = field(default_factory=list)
    """Tables, each as `branch/table`."""
    lost: list[str] = field(default_factory=list)
    """Tables, and `cleanup`, at which others were first; a later round does it again."""
    cleaned: Cleaned | None = None
    """None if there was nothing to clean."""
    debts: dict[str, Debt] = field(default_factory=dict)
    """By branch, after the round."""
    more: bool = False
    """Work is left that the limits of a round put off."""

    def add(self, later: "Round") -> None:
        """Count a later round too."""
        self.settled += later.settled
        self.compacted += later.compacted
        self.lost = later.lost
        if self.cleaned is not None and later.cleaned is not None:
            later.cleaned = later.cleaned.after(self.cleaned)
        self.cleaned = later.cleaned or self.cleaned
        self.debts = later.debts
        self.more = later.more


def _never() -> bool:
    return False


class Maintainer:
    """The maintenance of one process. `stop` makes a round end early, between two steps."""

    def __init__(
        self,
        store: Store,
        env: Environment,
        goals: Goals = Goals(),
        *,
        author: str = "maintain",
        grace_s: float = GRACE_S,
        safeguards: Safeguards = STANDARD,
    ) -> None:
        self._context = BranchContext(store, env, MAIN, safeguards, grace_s)
        self._goals = goals
        self._author = author
        self._runs: dict[Pin, int] = {}
        self._looked_ns: int | None = None
        """When this process last looked for orphans."""

    def round(self, stop: Callable[[], bool] = _never) -> Round:
        """Do a bounded part of what is to be done."""
        done = Round()
        live = self._look(done)
        self._compact(live, stop, done)
        if not stop() and self._is_worth_cleaning(done):
            self._clean(stop, done)
        if done.compacted or done.cleaned is not None:
            self._look(done)
        return done

    def rounds(self, stop: Callable[[], bool] = _never) -> Round:
        """Do rounds until nothing is left but that at which others were first; returns their sum."""
        total = self.round(stop)
        while total.more and not total.lost and not stop():
            total.add(self.round(stop))
        return total

    def _look(self, done: Round) -> list[str]:
        """Note what waits for cleanup; returns the branches that can be written."""
        found = {name: newest for name, newest in branches.newest(self._context).items() if newest}
        if not found:
            raise Absent(f"there is no catalog at {self._context.store.url}")
        boundaries = branches.boundaries(self._context)
        plans = len(self._context.list_keys(keys.RECOVERY))
        live = [name for name, newest in found.items() if not newest.deleted]
        done.debts = {name: Debt(max(0, found[name].id - boundaries.get(name, 0)), plans) for name in live}
        return live

    # Compaction.

    def _compact(self, live: list[str], stop: Callable[[], bool], done: Round) -> None:
        stream = self._context.env.stream("maintain")
        stream.shuffle(live)
        left = self._goals.tables
        for name in live:
            if stop():
                return
            try:
                with self._opened(name) as catalog:
                    done.settled += sum(notice.is_over for notice in catalog.notices)
                    tables = list(self._to_compact(catalog))
                    stream.shuffle(tables)
                    done.more |= len(tables) > left
                    for table in tables[:left]:
                        if stop():
                            return
                        left -= 1
                        compacted = catalog.compact(table, attempts=ATTEMPTS, runs=self._goals.runs)
                        (done.compacted if compacted.done else done.lost).append(f"{name}/{table}")
            except (StaleView, Fenced):
                done.lost.append(name)
            except Absent:
                continue  # it was deleted meanwhile

    def _opened(self, branch: str) -> Catalog:
        context = self._context
        return Catalog.open(
            context.store,
            env=context.env,
            author=self._author,
            mode=Mode.JOIN,
            branch=branch,
            grace_s=context.grace_s,
            safeguards=context.safeguards,
            pressure=OFF,
        )

    def _to_compact(self, catalog: Catalog) -> Iterator[str]:
        """The branch's own tables that have too many runs. Reads the versions that it has not seen yet."""
        manifest = catalog.manifest
        own = {t: entry for t, entry in manifest.tables.items() if entry.owner == manifest.incarnation}
        unknown = [table for table, entry in own.items() if entry.pin not in self._runs]
        if len(self._runs) + len(unknown) > PINS_MAX:
            self._runs.clear()
            unknown = list(own)
        for table, runs in catalog.snapshot().count_runs(unknown).items():
            self._runs[own[table].pin] = runs
        yield from (table for table, entry in own.items() if self._runs[entry.pin] >= self._goals.runs)

    # Cleanup.

    def _is_worth_cleaning(self, done: Round) -> bool:
        """A cleanup lists everything, so it waits until half of what is kept can go."""
        now_ns = self._context.env.monotonic_ns()
        if self._looked_ns is None or now_ns - self._looked_ns >= round(ORPHANS_EVERY_S * 1e9):
            return True
        over = max((debt.manifests for debt in done.debts.values()), default=0) - self._goals.keep
        return done.settled > 0 or over > max(1, self._goals.keep // 2)

    def _clean(self, stop: Callable[[], bool], done: Round) -> None:
        context = self._context
        limits = Limits(self._goals.deletes, stop)
        try:
            cleaned = cleanup(context, keep=self._goals.keep, author=self._author, limits=limits)
        except StaleView:
            done.lost.append("cleanup")
            return
        done.cleaned = cleaned
        done.more |= cleaned.left > 0
        self._looked_ns = None if cleaned.left else context.env.monotonic_ns()
