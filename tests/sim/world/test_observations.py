"""A promise sees what happened in the store, and what each process learnt of it: no more and no less.

Random programs write down themselves which answers they got. Random schedules with all faults of requests are
then compared: the changes that a promise saw leave the bucket's contents, its reads are those contents, and
what it takes for acknowledged is what the processes wrote down. If this fails, promises judge other runs than
those that happened.
"""

import threading
from collections.abc import Hashable
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.impl.store.requests import Outcome
from fencepost.properties.promises import Observation, Promise, digest_of
from fencepost.properties.promises.observation import (
    CHANGES,
    CRASH,
    DELETE,
    END,
    LIST,
    LOOK,
    READ,
    REFUSED,
    SENT,
    WRITE,
)
from fencepost.sim.explore.runs import Setting
from fencepost.sim.explore.sampling import Random as RandomSchedules
from fencepost.sim.world import NO_FAULTS, Budget, World
from fencepost.sim.world.promised import Promised

BUDGET = Budget(
    crash=1, restart=1, reply_lost=1, request_lost=1, late=1, conflict=1, throttled=1, duplicated=1, pause=0
)
CHANGING = ("put", "create", "swap", "delete")
KINDS = ("put", "create", "swap", "swap", "delete", "get", "part", "head", "list")
Answer = tuple[Any, ...]
"""Kind, key, outcome, and what was read; no outcome if the process did not learn it."""


class Seen(Promise):
    """Keeps every observation."""

    kind = "seen"
    needs_target = False

    def __init__(self) -> None:
        super().__init__("")
        self.all: list[Observation] = []

    def observe(self, seen: Observation) -> str | None:
        self.all.append(seen)
        return None

    def state(self) -> Hashable:
        return len(self.all)


class Program:
    """One random program; `own` has the answers of each life of each process, in its own words."""

    def __init__(self, seed: int) -> None:
        draw = Random(seed)
        self.scripts = [
            [(draw.choice(KINDS), draw.choice(("a/1", "a/2")), b"%d" % draw.randint(0, 2)) for _ in range(4)]
            for _ in range(2)
        ]
        self.own: dict[str, list[list[Answer]]] = {}
        self.seen = Seen()

    def __call__(self, world: World) -> None:
        world.store().put("a/1", b"begin", when=ABSENT)
        self.own, self.seen = {}, Seen()
        world.judge.add_promise(Promised(self.seen))
        for number, script in enumerate(self.scripts):
            name = f"p{number}"
            self.own[name] = []
            world.spawn(self._live, world.store(), script, name, name=name)

    def _live(self, store: Any, script: list[tuple[str, str, bytes]], name: str) -> None:
        answers: list[Answer] = []
        self.own[name].append(answers)
        etag = ""
        for wanted, key, body in script:
            kind = "head" if wanted == "swap" and not etag else wanted
            read: Any = None
            if kind in ("put", "create", "swap"):
                when = {"put": ANYTHING, "create": ABSENT}.get(kind, Matches(etag))
                reply = store.put(key, body, when=when)
            elif kind == "delete":
                reply = store.delete(key, when=ANYTHING)
            elif kind == "list":
                reply = store.list("a/")
                read = tuple(one.key for one in reply.objects) if reply.done else None
            else:
                given = {"get": {}, "part": {"start": 0, "stop": 1}}.get(kind)
                reply = store.head(key) if given is None else store.get(key, **given)
                etag = reply.info.etag if reply.info is not None else etag
                read = reply.body if reply.done and kind == "get" else None
            learnt = reply.outcome is not Outcome.UNKNOWN
            answers.append((kind, key, reply.outcome.value if learnt else "", read))


def answer_of(seen: Observation) -> Answer:
    """An acknowledged observation, in the words of the process."""
    outcome = seen.outcome or ("done" if seen.exists or seen.kind == LIST else "missing")
    read = seen.listed if seen.kind == LIST else seen.body if seen.kind == READ else None
    return (seen.key, outcome, read)


def compare(program: Program, world: World) -> None:
    store = {"a/1": b"begin"}
    known: dict[str, list[list[Answer]]] = {name: [[]] for name in program.own}
    sent: dict[tuple[str, int], Observation] = {}
    for seen in program.seen.all:
        if seen.kind == CRASH:
            known[seen.process].append([])
            continue
        if seen.kind == SENT:
            sent[seen.strand, seen.number] = seen
        if seen.kind in (*CHANGES, REFUSED):
            assert seen.late == ((seen.strand, seen.number) in sent)
        if seen.late:
            before = sent[seen.strand, seen.number]
            assert (before.key, before.asked, before.condition) == (seen.key, seen.asked, seen.condition)
            assert not seen.acknowledged
        if seen.kind == WRITE:
            assert seen.body is not None
            assert seen.digest == digest_of(seen.body)
            store[seen.key] = seen.body
        elif seen.kind == DELETE:
            del store[seen.key]  # a delete of what is not there is no change
        elif seen.kind in (READ, LOOK):
            assert seen.exists == (seen.key in store)
            assert seen.body in (None, store.get(seen.key))
        elif seen.kind == LIST:
            assert seen.listed == tuple(sorted(store))
        elif seen.kind == REFUSED and seen.outcome in ("exists", "changed", "missing"):
            assert (seen.key in store) == (seen.outcome != "missing")
        if seen.kind not in (END, SENT) and seen.acknowledged:
            known[seen.process][-1].append(answer_of(seen))
    assert store == dict(world.bucket.bodies(""))
    for name, lives in program.own.items():
        # A process may crash between an answer and the line that writes it down.
        for mine, theirs in zip(map(learnt, lives), known[name], strict=False):
            assert theirs[: len(mine)] == mine
            assert len(theirs) <= len(mine) + 1


def learnt(life: list[Answer]) -> list[Answer]:
    """The answers that say something of an object, in the form of `answer_of`."""
    nothing = ("", "throttled", "conflict")
    kept = [one for one in life if one[2] not in nothing or (one[2] and one[0] in CHANGING)]
    return [("a/" if kind == "list" else key, outcome, read) for kind, key, outcome, read in kept]


class Compared(RandomSchedules):
    def _after(self, world: World, ended: bool) -> None:
        super()._after(world, ended)
        if ended:
            compare(self.setting.program, world)  # type: ignore[arg-type]  # it is a `Program`


@pytest.mark.parametrize("seed", range(12))
def test_observations_are_what_happened_and_what_was_learnt(seed: int) -> None:
    search = Compared(Setting(Program(seed), BUDGET, seed=seed))
    search.explore(lambda at: at.schedules >= 60)
    assert not search.failures


def seen_in(program: Any) -> list[Observation]:
    """The observations of one random schedule without faults."""
    seen = Seen()

    def watched(world: World) -> None:
        seen.all.clear()
        world.judge.add_promise(Promised(seen))
        program(world)

    search = RandomSchedules(Setting(watched, NO_FAULTS))
    search.explore(lambda at: at.schedules >= 1)
    return list(seen.all)


def test_a_thread_is_a_strand_of_its_process() -> None:
    def program(world: World) -> None:
        store = world.store()

        def work() -> None:
            thread = threading.Thread(target=lambda: store.put("inner", b"", when=ANYTHING), name="helper")
            thread.start()
            thread.join()
            store.put("outer", b"", when=ANYTHING)

        world.spawn(work, name="app")

    found = {(seen.key, seen.process, seen.strand) for seen in seen_in(program) if seen.kind == WRITE}
    assert ("outer", "app", "app") in found
    [(process, strand)] = [(process, strand) for key, process, strand in found if key == "inner"]
    assert process == "app"
    assert strand.startswith("app/")


def test_a_copy_reads_its_source_and_writes_what_it_read() -> None:
    def program(world: World) -> None:
        world.boto3_bucket("b")
        world.boto3_client("s3").put_object(Bucket="b", Key="from", Body=b"x")
        s3 = world.boto3_client("s3")
        world.spawn(lambda: s3.copy_object(Bucket="b", Key="to", CopySource="b/from") and None, name="app")

    steps = [(seen.kind, seen.key, seen.body) for seen in seen_in(program) if seen.kind != END]
    assert steps == [(READ, "b/from", b"x"), (WRITE, "b/to", b"x")]
