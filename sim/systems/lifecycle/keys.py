"""One walk of a bucket with any number of keys, in simulated time: the code of `fencepost.impl.lifecycle` as
it ships, with the state in the store of the scenario.

Each writer of the workload `lifecycle-keys` is a worker; all of them share the walk, and an operation is the
walk as one worker has it. It begins once, so `duration` is short. The keys are numbers and are not stored: a
page of a listing is computed. It shows each object that is due, and one that is not in place of all others,
because these cost nothing beside their LIST. `keys` is their number, `due` of each million are due, and
`connections` (16) are deleted at a time.

`as_one` LISTs that follow each other are simulated as one that takes as long as all, to keep runs short. So a
place is saved up to that much later than every 5 s.

Counters; those of the formula are computed beside the simulation: LISTs of 1,000 keys one after the other, a
HEAD and a DELETE for what is due, divided by the workers; with the prices of S3 for these, and for a GET and
a PUT every 5 s.

    hours, formula_hours        the time of the walk
    dollars, formula_dollars    the bill of its requests
    hours_over, dollars_over    what it takes beyond the formula, as a share of that
    lists                       LISTs of keys
    state_share                 all other requests, as a share
    expired                     objects deleted
    least_share                 the smallest share of the keys that one worker has listed
"""

from bisect import bisect_right
from collections.abc import Sequence

from fencepost.impl.context import Context, RetryPolicy
from fencepost.impl.lifecycle.leases import Leases
from fencepost.impl.lifecycle.log import NoLog
from fencepost.impl.lifecycle.policy import SECOND_NS, Rule, Timing, Version, What
from fencepost.impl.lifecycle.records import Records
from fencepost.impl.lifecycle.service import AT_ONCE, Part, Service
from fencepost.impl.lifecycle.target import WHOLE, Guard, Listed, Live, Needs, Result, Standing, Unavailable
from fencepost.impl.lifecycle.worker import CHECKPOINT_S, Worker
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import Head, List
from fencepost.sim.des.drive import Drive, Failed
from fencepost.sim.des.meter import Operation
from fencepost.sim.des.simulation import Simulation
from fencepost.sim.scenarios.keys import PRICES
from fencepost.sim.systems.lifecycle.workload import BUCKET, DATA, PAGE, Connections, StoreTarget

DEFAULTS = {"keys": 1_000_000, "due": 0, "as_one": 1, "connections": 16}
MILLION = 1_000_000
WIDTH = 12
"""Digits of a key."""
DAYS, AGE_DAYS = 30, 31
"""Of the rule, and the age of what is due."""
DAY_NS = 86_400 * SECOND_NS


class Numbered(StoreTarget):
    """The keys as one worker sees them."""

    def __init__(self, system: "Walking", store: Store) -> None:
        super().__init__(system.simulation, system.rule, DAYS * DAY_NS)
        self._store = store
        self._system = system
        self.lists = self.listed = self.calls = 0
        self._began_ns = self._env.now_ns()

    def page(self, bucket: str, after: str, prefix: str = "", *, uploads: bool = True) -> Sequence[Listed]:
        system = self._system
        first = system.first_behind(after)
        until = min(first + PAGE * system.as_one, system.count)
        pages = max(1, -(-(until - first) // PAGE))
        began_ns = self._env.monotonic_ns()
        self._store.send(List(DATA, limit=1))
        self._env.sleep((self._env.monotonic_ns() - began_ns) * (pages - 1) / SECOND_NS)
        self.calls += 1
        self.lists += pages
        self.listed += until - first
        if first >= until:
            return []
        due = range(first + -first % system.due_every, until, system.due_every) if system.due_every else ()
        return [self._listed(number) for number in sorted({until - 1, *due} - system.deleted)]

    def first(self, bucket: str, after: str, prefix: str = "") -> str | None:
        self._store.send(List(DATA, limit=1))
        number = self._system.first_behind(after)
        return None if number >= self._system.count else name_of(number)

    def delete(
        self, bucket: str, key: str, version_id: str, what: What, guard: Guard, needs: Needs = WHOLE
    ) -> Result:
        found = super().delete(bucket, key, version_id, what, guard, needs)
        if found is Result.DONE:
            self._system.deleted.add(int(key))
        return found

    def _listed(self, number: int) -> Listed:
        return Listed(name_of(number), self._standing(number))

    def _look(self, key: str) -> Standing:
        self._store.send(Head(f"{DATA}{key}"))
        return self._standing(int(key))

    def _standing(self, number: int) -> Standing:
        every = self._system.due_every
        if number in self._system.deleted:
            return Standing()
        age_ns = AGE_DAYS * DAY_NS if every and number % every == 0 else 0
        return Standing((Live(Version(name_of(number), "", self._began_ns - age_ns, 1), "same"),))


class Walking:
    """The workload; see the top of this module."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        given = {**DEFAULTS, **simulation.setup.workload.parameters}
        self.count, self.as_one = int(given["keys"]), int(given["as_one"])
        self.due_every = round(MILLION / given["due"]) if given["due"] else 0
        self.connections = int(given["connections"])
        self.rule = Rule(expiration_days=DAYS)
        context = Context(simulation.store("check"), simulation.env, retry=RetryPolicy("check", Unavailable))
        self.records = Records(context)
        self.workers: dict[int, Walker] = {}
        self.pools: list[Connections] = []
        self.deleted: set[int] = set()

    def first_behind(self, text: str) -> int:
        return bisect_right(range(self.count), text, key=name_of)

    def spawn_maintenance(self, drive: Drive) -> None:
        for number in range(self.simulation.setup.workload.writers):
            pool = Connections(self.simulation.engine, drive, self.connections, f"look-{number}-")
            self.pools.append(pool)

    def open(self, number: int) -> "Walker":
        made = self.workers[number] = Walker(self, number)
        return made

    def count_all(self) -> None:
        """Set the counters, as things are now."""
        simulation, walkers = self.simulation, self.workers.values()
        now_ns = simulation.engine.now_ns
        lists = sum(one.target.lists for one in walkers)
        sent = simulation.server.requests
        more = lists - sum(one.target.calls for one in walkers)
        total = sent.total() + more
        latency_s = simulation.setup.store.latency.of("list").median_ns / SECOND_NS
        pages = self.count / PAGE
        due = pages * PAGE / self.due_every if self.due_every else 0.0
        at_once = min(max(due / pages, 1.0), self.connections)
        one_s = (pages + 2 * due / at_once) * latency_s
        saves = one_s / CHECKPOINT_S * (PRICES["get"] + PRICES["put"])
        formula = pages * PRICES["list"] + due * (PRICES["head"] + PRICES["delete"]) + saves
        hours, formula_hours = now_ns / SECOND_NS / 3600, one_s / len(walkers) / 3600
        dollars = sum(n * PRICES.get(kind, 0.0) for kind, n in sent.items()) + more * PRICES["list"]
        simulation.counters.update(
            hours=round(hours, 4),
            formula_hours=round(formula_hours, 4),
            hours_over=round(hours / formula_hours - 1, 4),
            dollars=round(dollars, 4),
            formula_dollars=round(formula, 4),
            dollars_over=round(dollars / formula - 1, 4),
            lists=float(lists),
            state_share=round(1 - lists / total, 5),
            expired=float(sum(one.target.expired for one in walkers)),
            least_share=round(min(one.target.listed for one in walkers) / self.count, 4),
        )


class Walker:
    """One worker."""

    name = "walk"

    def __init__(self, system: Walking, number: int) -> None:
        self._system = system
        simulation = system.simulation
        store = simulation.store(f"worker-{number}")
        context = Context(store, simulation.env, retry=RetryPolicy("lifecycle", Unavailable))
        self.target = Numbered(system, store)
        timing = Timing(scan_every_ns=10**6 * DAY_NS)
        self.worker = Worker(context, self.target, NoLog(), timing)
        self.worker.leases = Leases(context, f"worker-{number}")
        self.worker.pool, self.worker.concurrency = system.pools[number], system.connections
        self.service = Service(self.worker, parts=(Part.BOOTSTRAP,))

    def act(self, operation: Operation) -> None:
        """Make rounds until the walk has ended."""
        system = self._system
        while system.records.bucket(BUCKET).walked_ns is None:
            found = self.service.round()
            if found.failed:
                raise Failed(next(iter(found.failed)))
            if not any(one in AT_ONCE for one in found.handled.values()):
                system.simulation.env.sleep(1.0)
        system.count_all()


def name_of(number: int) -> str:
    """Return the key of a number; keys sort as their numbers."""
    return f"{number:0{WIDTH}d}"
