"""Every feature of a store that a probe asks about: the table that runs them and that `--list` prints."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from fencepost.sim.probe import conditions, etag_forms, listings, mixed, multipart, races, reads
from fencepost.sim.probe.bench import Bench
from fencepost.sim.probe.plan import Plan


@dataclass(frozen=True, slots=True)
class Feature:
    """One question, and how to ask it."""

    name: str
    question: str
    run: Callable[[Bench], str | None]
    core: bool = False
    """True if practically every protocol depends on it: see `verdict`."""
    weight: int = 1
    """Its share of the time, relative to the others."""
    writes: Callable[[Plan], tuple[int, int]] = lambda _: (10, 10)
    """About how many objects it writes, and how many requests it sends, for saying so beforehand."""
    heavy: bool = False
    """Its objects are as large as the plan's racing bodies."""
    large: int = 0
    """Number of objects that it writes of each large size of the plan."""


_threads, _processes = attrgetter("threads"), attrgetter("processes")


def _looks(plan: Plan) -> int:
    return min(plan.rounds, reads.LOOKS_MAX)


def _race(plan: Plan) -> tuple[int, int]:
    return plan.rounds, plan.rounds * (plan.threads + 1)


def _process_race(plan: Plan) -> tuple[int, int]:
    return plan.rounds, plan.rounds * (plan.processes + 1)


def _upload_race(plan: Plan) -> tuple[int, int]:
    return plan.rounds, plan.rounds * (4 * plan.threads + 2)


FEATURES: tuple[Feature, ...] = (
    Feature("create-only-put", "Does a create-only put create once, and only where nothing is?",
            conditions.create_only_put, core=True, large=2, weight=3, writes=lambda _: (5, 20)),
    Feature("if-match-put", "Does an if-match put replace only the version it names?",
            conditions.if_match_put, core=True, large=2, weight=3, writes=lambda _: (7, 38)),
    Feature("if-match-delete", "Does an if-match delete remove only the version it names?",
            conditions.if_match_delete, large=1, weight=2, writes=lambda _: (5, 31)),
    Feature("etag-forms", "Which forms of an ETag do conditions accept, and is a wrong one refused in all?",
            etag_forms.etag_forms, weight=2, writes=lambda _: (16, 112)),
    Feature("multipart", "Do uploads in parts appear whole, once completed, and never when aborted?",
            multipart.multipart, writes=lambda _: (2, 12)),
    Feature("create-only-complete", "Does completing a create-only upload create only where nothing is?",
            conditions.create_only_complete, large=1, weight=3, writes=lambda _: (4, 25)),
    Feature("if-match-complete", "Does completing an if-match upload replace only the version it names?",
            conditions.if_match_complete, large=1, weight=3, writes=lambda _: (6, 43)),
    Feature("versioned-bucket", "In a versioned bucket: does only the current version count?",
            conditions.versioned_bucket, writes=lambda _: (3, 20)),
    Feature("etags", "Does every change of the content change the ETag, and do all replies tell the same?",
            reads.etags, core=True, writes=lambda plan: (1, 6 * _looks(plan))),
    Feature("conditional-get", "Do reads that name an ETag answer as they should?",
            reads.conditional_get, writes=lambda _: (1, 8)),
    Feature("ranges", "Do ranges return exactly the bytes that were asked for?",
            reads.ranges, writes=lambda _: (1, 8)),
    Feature("distinct-keys", "Do keys that look alike stay apart?",
            reads.distinct_keys, writes=lambda _: (20, 46)),
    Feature("read-after-write", "Is what was acknowledged seen at once, by everybody?",
            reads.read_after_write, core=True, weight=2,
            writes=lambda plan: (_looks(plan), 24 * _looks(plan))),
    Feature("whole-objects", "Do readers beside writers see whole objects?",
            reads.whole_objects, core=True, weight=2,
            writes=lambda plan: (1, plan.rounds // 4 * (plan.threads + 1)), heavy=True),
    Feature("list-after-write", "Is what was acknowledged listed at once?",
            listings.list_after_write, core=True, weight=2,
            writes=lambda plan: (_looks(plan) * plan.threads, _looks(plan) * (plan.threads + 5))),
    Feature("list-after-delete", "Is what was deleted listed no more?",
            listings.list_after_delete, core=True, weight=2,
            writes=lambda plan: (_looks(plan) * plan.threads, _looks(plan) * (2 * plan.threads + 2))),
    Feature("listing-order", "Are keys listed in byte order, and can a listing start after a key?",
            listings.listing_order, writes=lambda _: (9, 19)),
    Feature("paging", "Are more keys than fit a page all listed, each once?",
            listings.paging, core=True, weight=6, writes=lambda plan: (plan.keys, plan.keys + 5)),
    Feature("paging-under-writes", "Are keys that stand all the while listed once while others write?",
            listings.paging_under_writes, core=True, weight=2,
            writes=lambda plan: (plan.keys // 25, plan.keys // 8)),
    Feature("racing-creates-threads", "Of rivals creating one key from threads, does exactly one win?",
            races.racing_creates(_threads), core=True, weight=6, writes=_race, heavy=True),
    Feature("racing-creates-processes", "And from processes?",
            races.racing_creates(_processes), core=True, weight=6, writes=_process_race, heavy=True),
    Feature("counter-threads", "Is every acknowledged if-match increment of a counter kept, from threads?",
            races.counters(_threads), core=True, weight=6, writes=_race, heavy=True),
    Feature("counter-processes", "And from processes?",
            races.counters(_processes), core=True, weight=6, writes=_process_race, heavy=True),
    Feature("puts-against-deletes", "Of if-match puts and deletes of one version, does exactly one win?",
            races.puts_against_deletes, weight=4, writes=_race, heavy=True),
    Feature("racing-completes", "Of rivals completing uploads of one new key, does exactly one win?",
            races.racing_completes(matching=False), weight=8, writes=_upload_race),
    Feature("racing-completes-if-match", "Of rivals completing uploads over one version, does exactly one?",
            races.racing_completes(matching=True), weight=8, writes=_upload_race),
    Feature("puts-against-completes", "Of create-only puts and completions of one key, does exactly one win?",
            races.puts_against_completes, weight=6, writes=_upload_race, heavy=True),
    Feature("linearizability", "Does some order of a recorded mixed workload explain every answer?",
            mixed.linearizable, core=True, weight=6,
            writes=lambda plan: (plan.operations // mixed.OPERATIONS_A_KEY, plan.operations)),
    Feature("clock-skew", "Does the store's clock agree with ours?",
            reads.clock_skew, writes=lambda _: (5, 10)),
)  # fmt: skip

BY_NAME = {feature.name: feature for feature in FEATURES}
