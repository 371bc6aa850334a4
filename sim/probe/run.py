"""One probe, from the announcement to the sweep.

    with open_store(url) as store:
        probe = Probe(store, Plan(rounds=50), opener=partial(open_store, url))
        probe.verify()
        print(probe.announcement())
        report = probe.run(watch=print)

No object is written before `run`. Whatever ends it (success, a store that becomes unusable, Ctrl-C), the
rivals are sent home first and then everything that was written is removed.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from fencepost.impl.environment import Environment, SystemEnvironment
from fencepost.impl.store.errors import BrokenPromise, Misuse, StoreError, Unsupported, Unusable
from fencepost.impl.store.interface import Store
from fencepost.impl.store.requests import ANYTHING, Outcome
from fencepost.sim.probe import latency
from fencepost.sim.probe.bench import Bench
from fencepost.sim.probe.clients import Opener
from fencepost.sim.probe.features import BY_NAME, FEATURES, Feature
from fencepost.sim.probe.history import body_of
from fencepost.sim.probe.plan import Plan
from fencepost.sim.probe.scratch import Footprint
from fencepost.sim.probe.verdict import (
    Broken,
    Finding,
    Inconclusive,
    NotOffered,
    ProbeResult,
    Verdict,
    overall,
)

ATTEMPTS_MAX = 3
"""A feature whose replies were lost is tried again, with new keys: once whatever the time."""
LATENCY_WEIGHT = 6
SWEEP_SHARE = 0.9
"""Of the time for the features; removing what they wrote takes the rest."""

Watch = Callable[[str, int, int], None]
"""Called with the name of each row, its number, and the number of rows."""


class Probe:
    """Certifies one store."""

    def __init__(
        self,
        store: Store,
        plan: Plan | None = None,
        *,
        opener: Opener | None = None,
        only: Sequence[str] = (),
        env: Environment | None = None,
    ) -> None:
        self.plan = plan or Plan()
        self.features = [BY_NAME[name] for name in only] if only else list(FEATURES)
        self._all_core = bool(only)
        self._store = store
        self._env = env or SystemEnvironment()
        self._footprint = Footprint(store)
        self._bench = Bench(store, self._env, self.plan, opener)

    @property
    def prefix(self) -> str:
        return self._bench.scratch.prefix

    def verify(self) -> None:
        """Raise `Unusable` when the store cannot be used, and leave it as it was found."""
        try:
            self._store.verify()
        except BaseException:
            self._footprint.remove()
            raise

    def announcement(self) -> str:
        """Return the steps of `run` in words."""
        objects, requests, volume = self._estimate()
        return (
            f"Probing {self._store.url}: {_count(len(self.features))} and the latency, in at most about "
            f"{self.plan.seconds:.0f} s.\n"
            f"Writes only under {self.prefix}: up to {objects:,} objects and {requests:,} requests, "
            f"{volume / 1e6:,.0f} MB sent; removes all of it afterwards."
        )

    def _estimate(self) -> tuple[int, int, int]:
        plan = self.plan
        objects = requests = volume = 0
        for feature in self.features:
            wrote, sent = feature.writes(plan)
            objects, requests = objects + wrote, requests + sent
            volume += sent * (plan.body_bytes if feature.heavy else 100)
            volume += feature.large * sum(plan.large_bytes)
        timed = plan.samples * 5 // 4
        volume += timed // 5 * 3 * latency.LARGE + timed * 3 * latency.SMALL
        # One removal for every object.
        return objects + timed, requests + 9 * timed + objects + timed, volume

    def run(self, watch: Watch = lambda *_: None) -> ProbeResult:
        """Ask every feature, measure, sweep. Raises what makes the store unusable, after the sweep."""
        started_ns = self._env.monotonic_ns()
        try:
            self._store.verify()
            self._preflight()
            findings = self._findings(watch)
            profile = self._latency(watch)
        except BaseException as stopped:
            left = self._end(watch)
            if left:
                stopped.add_note(_left(self.prefix, left))
            raise
        left = self._end(watch)
        return ProbeResult(
            url=self._store.url,
            verdict=overall(findings),
            features=tuple(findings),
            latency=latency.summary(profile),
            profile=profile,
            prefix=self.prefix,
            left=tuple(left),
            requests=self._bench.history.requests,
            seconds=round((self._env.monotonic_ns() - started_ns) / 1e9, 3),
            options=asdict(self.plan),
        )

    def _preflight(self) -> None:
        """Whatever we need can be done at all; raises otherwise."""
        store, key = self._bench.store, self._bench.scratch.key("preflight")
        replies = [
            store.put(key, body_of("hello"), when=ANYTHING),
            store.get(key),
            store.list(key),
            store.delete(key, when=ANYTHING),
        ]
        # Only silence stops us here: a bad answer is for the features to find.
        silent = (Outcome.UNKNOWN, Outcome.THROTTLED, Outcome.CONFLICT)
        lost = next((reply for reply in replies if reply.outcome in silent), None)
        if lost is not None:
            raise Unusable(
                f"{self._store.url} answered {lost.outcome.value} to an ordinary request"
                f"{f' ({lost.detail})' if lost.detail else ''}; see to it that it works before it is probed"
            )

    def _findings(self, watch: Watch) -> list[Finding]:
        findings = []
        deadline_ns = self._env.monotonic_ns() + round(self.plan.seconds * SWEEP_SHARE * 1e9)
        weights = sum(feature.weight for feature in self.features) + LATENCY_WEIGHT
        for number, feature in enumerate(self.features, 1):
            watch(feature.name, number, len(self.features) + 2)
            started_ns = self._env.monotonic_ns()
            share = max(0, deadline_ns - started_ns) / 1e9 * feature.weight / weights
            findings.append(self._ask(feature, share))
            # A feature that takes more than its share takes nothing from the others.
            overrun_ns = self._env.monotonic_ns() - started_ns - round(share * 1e9)
            deadline_ns += max(0, overrun_ns)
            weights -= feature.weight
        self._latency_seconds = max(0, deadline_ns - self._env.monotonic_ns()) / 1e9
        return findings

    def _ask(self, feature: Feature, seconds: float) -> Finding:
        started_ns = self._env.monotonic_ns()
        verdict, detail = Verdict.UNDECIDED, ""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            self._bench.begin(feature.name, seconds)
            verdict, detail = self._tried(feature)
            if verdict is not Verdict.UNDECIDED or (attempt > 1 and self._bench.out_of_time()):
                break
        finding = self._finding(feature, verdict, detail, (self._env.monotonic_ns() - started_ns) / 1e9)
        self._bench.tidy()
        return finding

    def _tried(self, feature: Feature) -> tuple[Verdict, str]:
        try:
            return Verdict.SAFE, feature.run(self._bench) or "every answer right"
        except Broken as error:
            return Verdict.UNSAFE, str(error)
        except BrokenPromise as error:
            return Verdict.UNSAFE, f"the store broke its word: {error}"
        except NotOffered as error:
            return Verdict.UNSUPPORTED, str(error)
        except Unsupported as error:
            return Verdict.UNSUPPORTED, f"not offered: {error}"
        except (Inconclusive, Misuse) as error:
            return Verdict.UNDECIDED, str(error)
        except Unusable as error:
            # Perhaps one permission is missing, perhaps the disk is full: in that case this raises as well.
            self._preflight()
            return Verdict.UNDECIDED, str(error)

    def _finding(self, feature: Feature, verdict: Verdict, detail: str, seconds: float) -> Finding:
        bench = self._bench
        counted = [f"{count} {what}" for what, count in bench.counts.items() if count]
        clear = verdict is Verdict.SAFE
        return Finding(
            name=feature.name,
            verdict=verdict,
            detail="; ".join([detail, *counted, *bench.notes]).replace(self.prefix, ""),
            core=feature.core or self._all_core,
            applies=bench.applies,
            rounds=bench.rounds_done,
            bad=bench.rounds_bad,
            bound=bench.bound() if clear else None,
            history=bench.evidence() if verdict is Verdict.UNSAFE else (),
            seconds=round(seconds, 3),
        )

    def _latency(self, watch: Watch) -> dict[str, Any]:
        watch("latency", len(self.features) + 1, len(self.features) + 2)
        self._bench.begin("latency", self._latency_seconds)
        return latency.measure(self._bench)

    def _end(self, watch: Watch) -> list[str]:
        watch("removing what was written", len(self.features) + 2, len(self.features) + 2)
        self._bench.close()
        try:
            left = self._bench.scratch.sweep() if self._bench.scratch.touched else []
        except StoreError as error:
            left = [str(error)]
        self._footprint.remove()
        return left


def _count(features: int) -> str:
    return "1 feature" if features == 1 else f"{features} features"


def _left(prefix: str, left: Sequence[str]) -> str:
    return f"could not remove everything under {prefix}: {left[0]}"
