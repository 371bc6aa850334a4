"""Random programs of threads of one process, and an enumeration of their endings that shares no code with the
search.

A program is a few threads of a few operations: requests, notes, two shared variables, a shared list, locks, a
queue, an event, a semaphore, a condition. The enumeration is a breadth-first search over states of its own.
Every request, and everything that is taken, has two steps: it takes effect; later its thread gets the answer
and runs on. What a thread gives (an item, a permit, a lock) takes effect while it runs, and others may go on
before its next line.
"""

import queue
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.world import World

Op = tuple[Any, ...]
VARIABLES, KEYS, REGISTERS = "vw", "ab", "st"
FEATURES = ("plain", "lock", "rlock", "queue", "bounded", "event", "semaphore", "condition", "mixed")
MISSING = 8
"""Number that stands for an object that is not there, or an item that did not come."""


@dataclass(frozen=True)
class Spec:
    """A program."""

    threads: tuple[tuple[Op, ...], ...]
    feature: str
    other: bool
    """True if a second process reads and writes the same keys."""


def spec_of(seed: int) -> Spec:
    """Return the program of a seed."""
    draw = random.Random(seed)
    feature = draw.choice(FEATURES)
    lengths = draw.choice([[1, 1], [1, 2], [1, 2], [2, 2], [2, 2], [2, 3], [1, 1, 1]])
    threads = [tuple(_block(draw, feature, length, "")) for length in lengths]
    if draw.random() < 0.3:
        threads[1] = threads[0]
    return Spec(tuple(threads), feature, draw.random() < 0.15)


def _block(draw: random.Random, feature: str, length: int, held: str) -> Iterator[Op]:
    while length > 0:
        length -= 1
        chance = draw.random()
        if chance < 0.3:
            yield _local(draw)
        elif chance < 0.6 or feature == "plain":
            yield _request(draw)
        elif feature in ("lock", "rlock") or (feature == "mixed" and chance < 0.8):
            lock = draw.choice([one for one in "lm" if one not in held] or ["l"])
            if lock in held and feature != "rlock":
                yield _request(draw)
            elif draw.random() < 0.2:
                yield ("try", draw.choice(REGISTERS), lock)
            else:
                yield ("with", lock, tuple(_block(draw, feature, draw.choice([1, 1, 2]), held + lock)))
        else:
            yield _signal(draw, feature)


def _local(draw: random.Random) -> Op:
    variable, register = draw.choice(VARIABLES), draw.choice(REGISTERS)
    return draw.choice(
        [
            ("load", register, variable),
            ("store", variable, register, draw.choice([0, 1])),
            ("store", variable, None, draw.choice([5, 7])),
            ("append", register),
            ("append", register),
        ]
    )


def _request(draw: random.Random) -> Op:
    key, register = draw.choice(KEYS), draw.choice(REGISTERS)
    return draw.choice(
        [
            ("put", key, register),
            ("put", key, None),
            ("get", register, key),
            ("create", register, key),
            ("note", register),
        ]
    )


def _signal(draw: random.Random, feature: str) -> Op:
    register, variable = draw.choice(REGISTERS), draw.choice(VARIABLES)
    if feature in ("queue", "bounded", "mixed"):
        return draw.choice([("qput", register), ("qput", register), ("qget", register), ("qtry", register)])
    if feature == "event":
        return draw.choice([("eset",), ("eset",), ("eclear",), ("ewait",)])
    if feature == "semaphore":
        return draw.choice([("sacquire",), ("srelease",)])
    return draw.choice([("cwait", variable), ("cset", variable, 1), ("cset", variable, 5)])


# The real code.


class Shared:
    """Everything that the threads share."""

    def __init__(self, spec: Spec) -> None:
        kind = threading.RLock if spec.feature == "rlock" else threading.Lock
        self.variables = dict.fromkeys(VARIABLES, 0)
        self.appended: list[int] = []
        self.locks = {"l": kind(), "m": kind()}
        self.queue: Any = queue.Queue(1 if spec.feature == "bounded" else 0)
        self.event = threading.Event()
        self.semaphore = threading.Semaphore(1)
        self.condition = threading.Condition()


def run_thread(world: World, store: Any, shared: Shared, ops: tuple[Op, ...], own: dict[str, int]) -> None:
    """Run the operations of one thread."""
    for op in ops:
        match op:
            case ("load", register, variable):
                own[register] = shared.variables[variable]
            case ("store", variable, register, number):
                shared.variables[variable] = number if register is None else (own[register] + number) % 10
            case ("append", register):
                shared.appended.append(own[register])
            case ("put", key, register):
                store.put(key, b"%d" % (9 if register is None else own[register]), when=ANYTHING)
            case ("get", register, key):
                reply = store.get(key)
                own[register] = int(reply.body) if reply.done else MISSING
            case ("create", register, key):
                own[register] = 1 if store.put(key, b"3", when=ABSENT).done else 2
            case ("note", register):
                world.note("n", own[register])
            case ("with", lock, inner):
                with shared.locks[lock]:
                    run_thread(world, store, shared, inner, own)
            case ("try", register, lock):
                own[register] = 1 if shared.locks[lock].acquire(blocking=False) else 2
            case ("qput", register):
                shared.queue.put(own[register])
            case ("qget", register):
                own[register] = shared.queue.get()
            case ("qtry", register):
                try:
                    own[register] = shared.queue.get_nowait()
                except queue.Empty:
                    own[register] = MISSING
            case ("eset",):
                shared.event.set()
            case ("eclear",):
                shared.event.clear()
            case ("ewait",):
                shared.event.wait()
            case ("sacquire",):
                shared.semaphore.acquire()
            case ("srelease",):
                shared.semaphore.release()
            case ("cwait", variable):
                with shared.condition:
                    while shared.variables[variable] == 0:
                        shared.condition.wait()
            case ("cset", variable, number):
                with shared.condition:
                    shared.variables[variable] = number
                    shared.condition.notify_all()


def registers(number: int) -> dict[str, int]:
    return {"s": number, "t": number + 4}


def main(world: World, store: Any, spec: Spec) -> Any:
    """Run the threads, and return what they leave in memory."""
    shared = Shared(spec)
    own = [registers(number) for number in range(len(spec.threads))]
    work = [(world, store, shared, ops, own[number]) for number, ops in enumerate(spec.threads)]
    threads = [threading.Thread(target=run_thread, args=args, name=f"t{i}") for i, args in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return memory_of(shared.variables, shared.appended, own)


def memory_of(variables: dict[str, int], appended: Any, own: Any) -> Any:
    return (
        tuple(sorted(variables.items())),
        tuple(appended),
        tuple(tuple(sorted(one.items())) for one in own),
    )


def other(store: Any) -> int:
    """The second process."""
    reply = store.get("a")
    store.put("b", b"6", when=ANYTHING)
    return int(reply.body) if reply.done else MISSING


def program_of(spec: Spec) -> Callable[[World], None]:
    def program(world: World) -> None:
        world.configure(ticks=0)
        world.spawn(main, world, world.store(), spec, name="main", restart=False)
        if spec.other:
            world.spawn(other, world.store(), name="other", restart=False)

    return program


# The enumeration.

NEW, PENDING, LANDED, GAVE, ENDED = range(5)
GIVES = frozenset({"qput", "release", "eset", "eclear", "srelease"})
LOCAL = frozenset({"load", "store", "append", "assign", "notify"})


def flat(ops: tuple[Op, ...]) -> Iterator[Op]:
    """Yield the operations without blocks."""
    for op in ops:
        match op:
            case ("with", lock, inner):
                yield ("acquire", lock)
                yield from flat(inner)
                yield ("release", lock)
            case ("cwait", variable):
                yield ("acquire", "c")
                yield ("await", variable)
                yield ("release", "c")
            case ("cset", variable, number):
                yield ("acquire", "c")
                yield ("assign", variable, number)
                yield ("notify",)
                yield ("release", "c")
            case _:
                yield op


@dataclass(frozen=True)
class Strand:
    """State of one thread."""

    at: int
    phase: int
    own: tuple[tuple[str, int], ...]
    answer: int = 0
    asleep: int = 0
    """In a condition: 1 until it is notified, 2 from then on."""


@dataclass(frozen=True)
class State:
    """State of the whole program."""

    strands: tuple[Strand, ...]
    variables: tuple[tuple[str, int], ...]
    store: tuple[tuple[str, int], ...] = ()
    appended: tuple[int, ...] = ()
    notes: tuple[int, ...] = ()
    locks: tuple[tuple[str, int, int], ...] = ()
    """Locks that are held: name, holder and depth."""
    items: tuple[int, ...] = ()
    flag: bool = False
    permits: int = 1
    other: tuple[int, int] = (0, MISSING)
    """Steps of the other process, and what it read."""

    def holder(self, lock: str) -> tuple[int, int]:
        return next(((who, depth) for name, who, depth in self.locks if name == lock), (-1, 0))

    def with_lock(self, lock: str, who: int, depth: int) -> "State":
        rest = [one for one in self.locks if one[0] != lock]
        return replace(self, locks=tuple(sorted([*rest, (lock, who, depth)] if depth else rest)))


@dataclass
class Enumeration:
    """All endings of a program."""

    spec: Spec
    most: int
    finals: set[Any] = field(default_factory=set)
    halfway: set[Any] = field(default_factory=set)
    """Contents and notes that a crash of the process may leave."""
    deadlocks: bool = False
    complete: bool = True

    def __post_init__(self) -> None:
        self._ops = [tuple(flat(ops)) for ops in self.spec.threads]

    def run(self) -> None:
        strands = tuple(Strand(0, NEW, tuple(registers(i).items())) for i in range(len(self._ops)))
        begin = State(
            strands, tuple((name, 0) for name in VARIABLES), other=(0 if self.spec.other else 2, MISSING)
        )
        seen, left = {begin}, [begin]
        while left:
            state = left.pop()
            self.halfway.add((state.store, state.notes))
            following = list(self._following(state))
            if not following:
                self._end(state)
            for after in following:
                if after not in seen:
                    seen.add(after)
                    left.append(after)
            if len(seen) > self.most:
                self.complete = False
                return

    def _end(self, state: State) -> None:
        if any(strand.phase != ENDED for strand in state.strands):
            self.deadlocks = True
            return
        own = [dict(strand.own) for strand in state.strands]
        read = state.other[1] if self.spec.other else None
        self.finals.add(
            (memory_of(dict(state.variables), state.appended, own), state.store, state.notes, read)
        )

    def _following(self, state: State) -> Iterator[State]:
        steps, read = state.other
        if steps == 0:
            yield replace(state, other=(1, dict(state.store).get("a", MISSING)))
        elif steps == 1:
            yield replace(state, other=(2, read), store=_with(state.store, "b", 6))
        for who, strand in enumerate(state.strands):
            if strand.phase in (NEW, GAVE):
                yield self._go_on(state, who, strand)
            elif strand.phase == PENDING:
                landed = self._land(state, who, strand)
                if landed is not None:
                    yield landed
            elif strand.phase == LANDED:
                yield self._deliver(state, who, strand)

    def _land(self, state: State, who: int, strand: Strand) -> State | None:
        """The pending operation takes effect; None where it is not possible."""
        op = self._ops[who][strand.at]
        own, store = dict(strand.own), dict(state.store)
        answer = 0
        match op:
            case ("put", key, register):
                state = replace(
                    state, store=_with(state.store, key, 9 if register is None else own[register])
                )
            case ("get", _, key):
                answer = store.get(key, MISSING)
            case ("create", _, key):
                answer = 2 if key in store else 1
                if key not in store:
                    state = replace(state, store=_with(state.store, key, 3))
            case ("note", register):
                state = replace(state, notes=(*state.notes, own[register]))
            case ("acquire", lock) | ("try", _, lock):
                holder, depth = state.holder(lock)
                free = holder < 0 or (holder == who and self.spec.feature == "rlock" and lock != "c")
                if not free and op[0] == "acquire":
                    return None
                answer = 1 if free else 2
                if free:
                    state = state.with_lock(lock, who, depth + 1)
            case ("qget", _):
                if not state.items:
                    return None
                answer, state = state.items[0], replace(state, items=state.items[1:])
            case ("qtry", _):
                answer = state.items[0] if state.items else MISSING
                state = replace(state, items=state.items[1:])
            case ("qput", register):  # the queue is bounded
                if state.items:
                    return None
                state = replace(state, items=(own[register],))
            case ("ewait",):
                if not state.flag:
                    return None
            case ("sacquire",):
                if not state.permits:
                    return None
                state = replace(state, permits=state.permits - 1)
            case ("await", _):
                if strand.asleep != 2 or state.holder("c")[0] >= 0:
                    return None
                state, strand = state.with_lock("c", who, 1), replace(strand, asleep=0)
        return _put(state, who, replace(strand, phase=LANDED, answer=answer))

    def _deliver(self, state: State, who: int, strand: Strand) -> State:
        op = self._ops[who][strand.at]
        own = dict(strand.own)
        if op[0] in ("get", "create", "try", "qget", "qtry"):
            own[op[1]] = strand.answer
        at = strand.at + (op[0] != "await")
        return self._go_on(state, who, replace(strand, at=at, own=tuple(own.items()), answer=0))

    def _go_on(self, state: State, who: int, strand: Strand) -> State:
        """Run the code of a thread to its next operation, or to something that it gives."""
        ops, at, own = self._ops[who], strand.at, dict(strand.own)
        phase = ENDED
        while at < len(ops):
            op = ops[at]
            if op[0] in GIVES and not (op[0] == "qput" and self.spec.feature == "bounded"):
                state, inside = _give(state, who, op, own)
                at += 1
                if inside:  # a lock that is still held gives nothing
                    continue
                phase = GAVE
                break
            if op[0] == "await":
                if dict(state.variables)[op[1]]:
                    at += 1
                    continue
                state, strand = state.with_lock("c", -1, 0), replace(strand, asleep=1)
                phase = PENDING
                break
            if op[0] not in LOCAL:
                phase = PENDING
                break
            state = _locally(state, op, own)
            at += 1
        return _put(state, who, replace(strand, at=at, phase=phase, own=tuple(own.items())))


def _with(store: tuple[tuple[str, int], ...], key: str, number: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted({**dict(store), key: number}.items()))


def _put(state: State, who: int, strand: Strand) -> State:
    return replace(state, strands=(*state.strands[:who], strand, *state.strands[who + 1 :]))


def _give(state: State, who: int, op: Op, own: dict[str, int]) -> tuple[State, bool]:
    """Return the state, and True if nothing was given after all."""
    match op:
        case ("qput", register):
            return replace(state, items=(*state.items, own[register])), False
        case ("release", lock):
            _, depth = state.holder(lock)
            return state.with_lock(lock, who, depth - 1), depth > 1
        case ("srelease",):
            return replace(state, permits=state.permits + 1), False
        case _:
            return replace(state, flag=op[0] == "eset"), False


def _locally(state: State, op: Op, own: dict[str, int]) -> State:
    """Run a line that only touches memory; `own` changes in place."""
    variables = dict(state.variables)
    match op:
        case ("load", register, variable):
            own[register] = variables[variable]
        case ("append", register):
            return replace(state, appended=(*state.appended, own[register]))
        case ("store", variable, register, number):
            variables[variable] = number if register is None else (own[register] + number) % 10
        case ("assign", variable, number):
            variables[variable] = number
        case ("notify",):
            strands = [replace(one, asleep=2) if one.asleep else one for one in state.strands]
            return replace(state, strands=tuple(strands))
    return replace(state, variables=tuple(variables.items()))
