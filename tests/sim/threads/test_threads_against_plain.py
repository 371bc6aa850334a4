"""Reduced exploration of threads must see what plain enumeration sees, whatever they share.

If this fails, "every schedule" is not true of programs with threads: a step is taken for independent that
is not.
"""

import queue
import threading
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.explore import Setting
from fencepost.sim.world import NO_FAULTS, Budget, World
from tests.depth import examples
from tests.sim.explore.test_reduced_against_plain import compare_settings

OPS = (
    "put",
    "get",
    "create",
    "read",
    "write",
    "append",
    "lock",
    "timed",
    "set",
    "await",
    "take",
    "offer",
    "note",
)


class Shared:
    """What the threads of one process share."""

    def __init__(self) -> None:
        self.value = 0
        self.seen: list[Any] = []
        self.lock = threading.Lock()
        self.event = threading.Event()
        self.items: Any = queue.Queue()


def act(world: World, store: Any, shared: Shared, me: int, ops: list[tuple[str, str]]) -> None:
    mine = 0
    for op, key in ops:
        if op == "put":
            store.put(key, str(mine).encode(), when=ANYTHING)
        elif op == "create":
            mine += store.put(key, str(me).encode(), when=ABSENT).done
        elif op == "get":
            mine = 10 * mine + len(store.get(key).body or b"")
        elif op == "read":
            mine = shared.value + 1
        elif op == "write":
            shared.value = 10 * mine + me
        elif op == "append":
            shared.seen.append((me, mine))
        elif op == "lock":
            with shared.lock:
                mine = shared.value
                store.put(key, b"locked", when=ANYTHING)
                shared.value = mine + 1
        elif op == "timed":
            if shared.lock.acquire(timeout=1):
                store.put(key, b"timed", when=ANYTHING)
                shared.lock.release()
        elif op == "set":
            shared.event.set()
        elif op == "await":
            mine += 5 * shared.event.wait(2)
        elif op == "take":
            try:
                mine += shared.items.get(timeout=1)
            except queue.Empty:
                mine += 100
        elif op == "offer":
            shared.items.put(me)
        else:
            world.note("did", (me, mine))
    shared.seen.append(mine)


def program_of(codes: list[list[list[tuple[str, str]]]]) -> Any:
    """Each process runs its first code itself, and the others in threads."""

    def program(world: World) -> None:
        world.configure(ticks=0)
        store = world.store()

        def process(*code: list[tuple[str, str]]) -> Any:
            shared = Shared()
            threads = [
                threading.Thread(target=act, args=(world, store, shared, number, ops))
                for number, ops in enumerate(code[1:], 1)
            ]
            for thread in threads:
                thread.start()
            act(world, store, shared, 0, code[0])
            for thread in threads:
                thread.join()
            return shared.value, tuple(shared.seen)

        for number, code in enumerate(codes):
            world.spawn(process, *code, name=f"p{number}")

    return program


def random_codes(draw: Random) -> list[list[list[tuple[str, str]]]]:
    def code(most: int) -> list[tuple[str, str]]:
        return [(draw.choice(OPS), draw.choice("ab")) for _ in range(draw.randint(1, most))]

    if draw.random() < 0.3:
        return [[code(1), code(1)], [code(1)]]
    return [[code(1), code(2), code(1)] if draw.random() < 0.3 else [code(2), code(2)]]


@pytest.mark.parametrize("merge", [True, False])
def test_random_threads_end_alike(merge: bool) -> None:
    draw = Random(20)
    compared = 0
    for _ in range(examples(12, 300)):
        crash = draw.random() < 0.3
        budget = Budget(crash=1, reply_lost=0, request_lost=0, pause=0, restart=0) if crash else NO_FAULTS
        compared += bool(compare_settings(Setting(program_of(random_codes(draw)), budget), merge=merge)[0])
    assert compared
