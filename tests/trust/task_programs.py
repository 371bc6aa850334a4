"""Random tasks of one event loop that send requests in threads, and an enumeration of their endings.

A request lands at some time after its task sent it, and its thread hands the reply to the loop at some time
after that. The loop runs the tasks in the order in which it got their replies.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.world import World

Op = tuple[Any, ...]
REQUESTS = ("put", "get", "create")
MISSING = 8


@dataclass(frozen=True)
class TaskSpec:
    """A program: the operations of each task, and how the tasks are awaited."""

    tasks: tuple[tuple[Op, ...], ...]
    gathers: bool


def task_spec_of(seed: int) -> TaskSpec:
    """Return the program of a seed: every task has one or two requests."""
    draw = random.Random(seed)

    def request() -> Op:
        return draw.choice([("put", "k"), ("get", "k"), ("create", "k"), ("create", "k")])

    def local() -> Op:
        return draw.choice([("append",), ("append",), ("load",), ("store",)])

    lengths = draw.choice([[1, 1], [1, 1], [1, 2]])
    tasks = tuple(tuple(op for _ in range(length) for op in (request(), local())) for length in lengths)
    return TaskSpec(tasks, draw.random() < 0.5)


def work(store: Any, spec: TaskSpec) -> Any:
    """Run the tasks, and return what they leave in memory."""
    appended: list[int] = []
    shared = {"variable": 0}
    own = [number + 4 for number in range(len(spec.tasks))]

    def send(op: Op, number: int) -> int:
        if op[0] == "put":
            store.put(op[1], b"%d" % own[number], when=ANYTHING)
            return own[number]
        if op[0] == "create":
            return 1 if store.put(op[1], b"3", when=ABSENT).done else 2
        reply = store.get(op[1])
        return int(reply.body) if reply.done else MISSING

    async def run(number: int) -> None:
        for op in spec.tasks[number]:
            if op[0] in REQUESTS:
                own[number] = await asyncio.to_thread(send, op, number)
            elif op[0] == "append":
                appended.append(own[number])
            elif op[0] == "load":
                own[number] = shared["variable"]
            else:
                shared["variable"] = own[number]

    async def main() -> None:
        tasks = [asyncio.ensure_future(run(number)) for number in range(len(spec.tasks))]
        await (asyncio.gather(*tasks) if spec.gathers else asyncio.wait(tasks))

    asyncio.run(main())
    return tuple(appended), shared["variable"], tuple(own)


def task_program_of(spec: TaskSpec) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(work, world.store(), spec, name="main")

    return program


SENT, LANDED, QUEUED, ENDED = range(4)

State = tuple[Any, ...]
"""Place, phase and register of each task; the replies in the loop's queue; appended; variable; the object."""


def task_endings(spec: TaskSpec) -> set[Any]:
    """Return all endings: what is in memory, and what is stored."""
    tasks = tuple((0, QUEUED, number + 4) for number in range(len(spec.tasks)))
    begin: State = (tasks, tuple(range(len(tasks))), (), 0, None)
    seen, left = {begin}, [begin]
    endings: set[Any] = set()
    while left:
        state = left.pop()
        following = _following(spec, state)
        if not following:
            tasks, _, appended, variable, stored = state
            memory = (appended, variable, tuple(own for _, _, own in tasks))
            endings.add((memory, () if stored is None else (("k", stored),)))
        for after in following:
            if after not in seen:
                seen.add(after)
                left.append(after)
    return endings


def _following(spec: TaskSpec, state: State) -> list[State]:
    tasks, ready, appended, variable, stored = state
    found: list[State] = []

    def add(number: int, task: Any, ready: Any, appended: Any, variable: int, stored: Any) -> None:
        found.append(((*tasks[:number], task, *tasks[number + 1 :]), ready, appended, variable, stored))

    for number, (at, phase, own) in enumerate(tasks):
        if phase == SENT:
            kind = spec.tasks[number][at][0]
            answer = own if kind == "put" else MISSING if stored is None else stored
            after = own if kind == "put" else stored
            if kind == "create":
                answer, after = (1, 3) if stored is None else (2, stored)
            add(number, (at + 1, LANDED, answer), ready, appended, variable, after)
        elif phase == LANDED:
            add(number, (at, QUEUED, own), (*ready, number), appended, variable, stored)
    if ready:
        number = ready[0]
        at, _, own = tasks[number]
        ops = spec.tasks[number]
        while at < len(ops) and ops[at][0] not in REQUESTS:
            if ops[at][0] == "append":
                appended = (*appended, own)
            elif ops[at][0] == "load":
                own = variable
            else:
                variable = own
            at += 1
        add(number, (at, SENT if at < len(ops) else ENDED, own), ready[1:], appended, variable, stored)
    return found
