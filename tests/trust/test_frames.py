"""States whose processes hold the same are explored once, and nothing is lost by it.

If this fails, an audit says "holds" of a program that it did not explore: two states were taken for equal
although a process would go on in another way. Each program here differs in one thing that a process holds;
random programs mix them. The oracle is the same search without merging.
"""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fencepost.impl.store import ABSENT, ANYTHING, Matches
from fencepost.reports.audit_text import cost_lines
from fencepost.sim.explore import audit
from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.explore.states import StateCache
from fencepost.sim.world import NO_FAULTS, Budget, World, frames
from fencepost.sim.world.deadlines import Deadlines
from fencepost.sim.world.stamps import STAMPED
from tests.generators import batches

pytestmark = pytest.mark.skipif(not frames.IS_SUPPORTED, reason="this interpreter shows no values of frames")

CRASH = Budget(crash=1, reply_lost=0, request_lost=0, pause=0)
LOST = Budget(crash=0, reply_lost=1, request_lost=1, pause=0)
RUNS_MAX = 1_500


@pytest.fixture(autouse=True)
def _every_state_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StateCache, "worth_keeping", lambda *_: True)


def endings(program: Callable[[World], None], budget: Budget, *, merge: bool) -> tuple[set[Any], int]:
    """Return all endings of a program, and the number of runs that were given up at a known state."""
    found: set[Any] = set()
    search = ReducedSearch(
        Setting(program, budget),
        first_only=False,
        observe=lambda world: found.add(final_state(world)),
        merge=merge,
        timed=STAMPED,
    )
    search.explore()
    assert search.exhausted
    return found, search.merged


def loses_something(program: Callable[[World], None], budget: Budget = NO_FAULTS) -> bool:
    return endings(program, budget, merge=True)[0] != endings(program, budget, merge=False)[0]


# One thing that a process holds, each.


def read(store: Any, key: str) -> str:
    body = store.get(key).body
    return "" if body is None else body.decode()


def write(store: Any, key: str, text: str) -> None:
    store.put(key, text.encode(), when=ANYTHING)


class Box:
    def __init__(self) -> None:
        self.text = ""


def variable(store: Any) -> None:
    text = read(store, "x")
    read(store, "y")
    write(store, "out", text)


def stack(store: Any) -> None:
    write(store, "out", read(store, "x") + read(store, "y"))


def iterator(store: Any) -> None:
    for key in (read(store, "x"), "y"):
        read(store, key or "y")
        read(store, "y")


def turns(store: Any) -> None:
    """Only the iterator has the number of rounds."""
    for _ in range(2 if read(store, "x") else 1):
        write(store, "count", read(store, "count") + "1")


def pending(store: Any) -> None:
    store.put("out", store.get("x").body or b"nothing", when=ANYTHING)


def attribute(store: Any) -> None:
    box = Box()
    box.text = read(store, "x")
    read(store, "y")
    write(store, "out", box.text)


def same_object(store: Any) -> None:
    one = ["1"]
    other = one if read(store, "x") else ["1"]
    read(store, "y")
    one.append("2")
    write(store, "out", "".join(other))


def closure(store: Any) -> None:
    text = read(store, "x")

    def later() -> str:
        return text

    read(store, "y")
    write(store, "out", later())


def written_in_c(store: Any) -> None:
    found = sorted(["x", "y"], key=lambda key: read(store, key) or "m")
    write(store, "out", "".join(found))


def drawn(store: Any) -> None:
    if read(store, "x"):
        store.env.new_id()
    read(store, "y")
    write(store, "out", store.env.new_id())


def default(store: Any) -> None:
    text = read(store, "x")

    def later(text: str = text) -> str:
        return text

    read(store, "y")
    write(store, "out", later())


def handled(store: Any) -> None:
    try:
        raise ValueError(read(store, "x"))
    except ValueError as error:
        read(store, "y")
        write(store, "out", str(error))


def generated(store: Any) -> None:
    def texts() -> Any:
        text = read(store, "x")
        read(store, "y")
        yield text

    write(store, "out", "".join(texts()))


def deep(store: Any) -> None:
    def inner(text: str) -> str:
        read(store, "y")
        return text[:1]

    write(store, "out", inner(read(store, "x")) + "!")


DEFAULT = ["default"]
ONE, OTHER = object(), object()


def of_a_module(store: Any) -> None:
    found = DEFAULT if read(store, "x") else ["default"]
    read(store, "y")
    write(store, "out", "the same" if found is DEFAULT else "equal")


def mark(store: Any) -> None:
    found = ONE if read(store, "x") else OTHER
    read(store, "y")
    write(store, "out", "one" if found is ONE else "other")


HOLDERS = [
    of_a_module,
    mark,
    variable,
    stack,
    iterator,
    turns,
    pending,
    attribute,
    same_object,
    closure,
    written_in_c,
    drawn,
    default,
    handled,
    generated,
    deep,
]


def change(store: Any) -> None:
    for key in ("x", "y", "out"):
        write(store, key, key)


def beside_a_writer(hold: Callable[[Any], None]) -> Callable[[World], None]:
    """Return a program whose process reads `x` before or after it changes, and meets the writer later on."""

    def program(world: World) -> None:
        store = world.store()
        world.spawn(hold, store, name="holder")
        world.spawn(change, store, name="writer")

    return program


@pytest.mark.parametrize("hold", HOLDERS)
def test_what_a_process_holds_is_part_of_the_state(hold: Callable[[Any], None]) -> None:
    assert not loses_something(beside_a_writer(hold))
    assert not loses_something(beside_a_writer(hold), CRASH)


def keeps_its_argument(store: Any, kept: list[str]) -> None:
    if not kept:
        kept.append(read(store, "x") or "nothing")
        write(store, "y", "begun")
    write(store, "out", kept[0])


def program_with_an_argument(world: World) -> None:
    store = world.store()
    world.spawn(keeps_its_argument, store, [], name="holder")
    world.spawn(change, store, name="writer")


def test_an_argument_that_outlives_a_crash_is_part_of_the_state() -> None:
    assert not loses_something(program_with_an_argument, CRASH)


def draws_in_each_life(store: Any) -> None:
    write(store, "y", "begun")
    write(store, "out", store.env.new_id())


def program_of_lives(world: World) -> None:
    store = world.store()
    world.spawn(draws_in_each_life, store, name="holder")
    world.spawn(change, store, name="writer")


def test_the_number_of_the_life_is_part_of_the_state() -> None:
    assert not loses_something(program_of_lives, CRASH)


LIBRARY = """
remembered = []

def remember(text):
    remembered[:] = [text]

def recall():
    return remembered[0]

class Cache:
    __slots__ = ("_text",)

    def __init__(self):
        self._text = ""

    def remember(self, text):
        self._text = text

    def recall(self):
        return self._text
"""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """An installed library that remembers something where nothing looks."""
    made = types.ModuleType("a_library_with_memory")
    made.__file__ = str(Path(pytest.__file__).parent / "a_library_with_memory.py")
    exec(compile(LIBRARY, made.__file__, "exec"), vars(made))
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


library_memory: Any = None
"""Set by tests: what processes keep something in."""


def through_a_library(store: Any) -> None:
    library_memory.remember(read(store, "x"))
    read(store, "y")
    write(store, "out", library_memory.recall())


@pytest.mark.parametrize("make", [lambda library: library, lambda library: library.Cache()])
def test_code_that_leads_to_a_library_with_a_memory_has_its_history_as_memory(
    make: Callable[[Any], Any], library: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "library_memory", make(library))
    assert not loses_something(beside_a_writer(through_a_library))


# Deliberate breaks.


def ignored(kind: Any) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a break: objects of this kind are all alike."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(frames._ENCODERS, kind, lambda *_: None)

    return apply


def _all_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames.liveness(variable.__code__).__class__, "after", lambda *_: 0)


def _no_stack(patch: pytest.MonkeyPatch) -> None:
    made = frames._Frame.__init__

    def begin(self: Any, frame: Any) -> None:
        made(self, frame)
        self.stack = range(0)

    patch.setattr(frames._Frame, "__init__", begin)


def _no_pending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames, "_record", lambda *_: None)


def _no_numbers(patch: pytest.MonkeyPatch) -> None:
    add = frames._Encoder.add

    def forget(self: Any, value: Any) -> None:
        self._numbers.pop(id(value), None)
        add(self, value)

    patch.setattr(frames._Encoder, "add", forget)


def _no_attributes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames, "_attributes_of", lambda _: {})


def _no_streams(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames, "_add_streams", lambda *_: None)


def _any_library(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames.Surroundings, "_look_up", lambda *_: True)


def _no_globals(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(frames._Encoder, "check", lambda *_: None)


def _only_the_inner(patch: pytest.MonkeyPatch) -> None:
    """Only the innermost function of the user's counts."""
    found = frames._add_frame

    def add(to: Any, frame: Any, read_: Any) -> None:
        if not any(one is frames._ENDED for one in to.tokens):
            found(to, frame, read_)
            if frame.f_globals["__name__"] == __name__:
                to.tokens.append(frames._ENDED)

    patch.setattr(frames, "_ENDED", object(), raising=False)
    patch.setattr(frames, "_add_frame", add)


BREAKS: list[tuple[Callable[[pytest.MonkeyPatch], None], Callable[[Any], None]]] = [
    (_all_dead, variable),
    (_no_stack, stack),
    (_no_pending, pending),
    (_no_numbers, same_object),
    (_no_attributes, attribute),
    (_no_streams, drawn),
    (ignored(types.CellType), closure),
    (_only_the_inner, deep),
    (_no_globals, of_a_module),
]


@pytest.mark.parametrize(("damage", "hold"), BREAKS)
def test_a_part_that_is_left_out_is_noticed(
    damage: Callable[[pytest.MonkeyPatch], None], hold: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check of the checks above."""
    damage(monkeypatch)
    assert loses_something(beside_a_writer(hold))


def test_an_argument_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(frames._ENCODERS, list, lambda *_: None)
    assert loses_something(program_with_an_argument, CRASH)


def test_a_library_that_is_trusted_is_noticed(
    library: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "library_memory", library)
    _any_library(monkeypatch)
    assert loses_something(beside_a_writer(through_a_library))


# Loops.


def swap(store: Any, names: list[str]) -> None:
    """Add names to a register, again and again until it was not changed meanwhile."""
    for name in names:
        while True:
            found = store.get("register")
            there = found.body.decode()
            if name in there:
                break
            if store.put("register", f"{there} {name}".encode(), when=Matches(found.info.etag)).done:
                break


def swappers(count: int) -> Callable[[World], None]:
    def program(world: World) -> None:
        store = world.store()
        store.put("register", b"", when=ABSENT)
        for number in range(count):
            world.spawn(swap, store, [f"n{number}"], name=f"p{number}")

    return program


def test_a_loop_that_tries_again_has_forgotten_its_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, loops cost as many schedules as there are ways to fail."""
    found, _ = endings(swappers(3), NO_FAULTS, merge=True)
    assert found == endings(swappers(3), NO_FAULTS, merge=False)[0]
    search = ReducedSearch(Setting(swappers(4), NO_FAULTS))
    search.explore()
    monkeypatch.setattr(frames, "IS_SUPPORTED", False)
    histories = ReducedSearch(Setting(swappers(4), NO_FAULTS))
    histories.explore()
    assert search.exhausted
    assert histories.exhausted
    assert 2 * search.runs < histories.runs


def test_costs_that_were_not_all_found_are_not_called_the_highest() -> None:
    """If this fails, "at most" is printed of a loop that may try once more."""
    quick = audit(swappers(3), budget=NO_FAULTS)
    exact = audit(swappers(3), budget=NO_FAULTS, exact_costs=True)
    without = ReducedSearch(Setting(swappers(3), NO_FAULTS), merge=False)
    without.explore()
    assert {row.get("exact", True) for row in quick.cost().values()} == {False}
    assert {row.get("exact", True) for row in exact.cost().values()} == {True}
    most = {name: row["requests"] for name, row in without.coverage.costs.table().items()}
    assert {name: row["requests"] for name, row in exact.cost().items()} == most
    assert any("requests/hops seen" in line for line in cost_lines(quick.result()))


def test_costs_are_exact_where_no_way_cost_more() -> None:
    found = audit(beside_a_writer(variable), budget=NO_FAULTS)
    assert {row.get("exact", True) for row in found.cost().values()} == {True}


# Pauses.


def sleepers(world: World) -> None:
    store = world.store()

    def sleep_and_write(name: str) -> None:
        store.env.sleep(3)
        write(store, "out", read(store, "out") + name)

    for name in "ab":
        world.spawn(sleep_and_write, name, name=name)


def test_pauses_are_left_out_where_no_process_knows_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """They change nothing: sleeps end at any step."""
    pause = Budget(crash=0, reply_lost=0, request_lost=0, pause=1)
    few, _ = endings(sleepers, pause, merge=True)
    assert few == endings(sleepers, NO_FAULTS, merge=True)[0]
    monkeypatch.setattr(World, "forbid", lambda *_: None)
    monkeypatch.setattr("fencepost.sim.world.run.RunState.forbid", lambda *_: None)
    assert few == endings(sleepers, pause, merge=True)[0]


def lease(world: World) -> None:
    store, env = world.store(), world.env

    def hold() -> None:
        since = env.now_ns()
        write(store, "lease", "held")
        if env.now_ns() - since > 60 * 10**9:
            write(store, "lease", "too late")

    world.spawn(hold, name="holder")
    world.spawn(write, store, "other", "x", name="other")


def test_pauses_are_tried_once_a_process_has_read_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = Budget(crash=0, reply_lost=0, request_lost=0, pause=1)
    found = endings(lease, pause, merge=True)[0]
    assert found > endings(lease, NO_FAULTS, merge=True)[0]
    monkeypatch.setattr(Deadlines, "show", lambda *_: None)
    assert endings(lease, pause, merge=True)[0] < found


# Random programs.

_TEMPLATES = (
    "{v} = read(store, {k})",
    "{v} = {w} + read(store, {k})",
    "{v} = {w}[:1]",
    "{v} = ''",
    "items.append(read(store, {k}))",
    "other = items",
    "other = list(items)",
    "other.append({v}[:2])",
    "box.text = read(store, {k})",
    "{v} = box.text",
    "write(store, {k}, name + {v}[:3])",
    "write(store, name + {k}, {v}[:3])",
    "store.put({k}, name.encode(), when=ABSENT)",
    "world.note('seen', ({v}[:2], len(items)))",
    "{v} = ''.join(sorted(('a', 'b'), key=lambda key: read(store, key)))",
    "{v} = store.env.new_id()[-2:]",
)
_BLOCKS = (
    "for key in ('a', {k}):",
    "for _ in range(2):",
    "while len(items) < 2:\n    items.append('')",
    "if {v}:",
    "try:\n    int({v})\nexcept ValueError as error:\n    {v} = str(error)[-4:]\nif {w}:",
)
KEYS = ("'a'", "'b'", "name")


def source_of(draw: Random) -> str:
    """Return the source of one function, which all processes of a program run."""
    lines = ["def work(world, store, name, box):", "    u = v = ''", "    items = []", "    other = []"]
    indent = 1
    for _ in range(draw.randint(3, 7)):
        names = {"v": draw.choice("uv"), "w": draw.choice("uv"), "k": draw.choice(KEYS)}
        if draw.random() < 0.25 and indent < 3:
            block = draw.choice(_BLOCKS).format(**names).split("\n")
            lines += ["    " * indent + line for line in block]
            if block[0].startswith("while"):
                continue
            indent += 1
            names["v"] = draw.choice("uv")
        lines.append("    " * indent + draw.choice(_TEMPLATES).format(**names))
        if indent > 1 and draw.random() < 0.5:
            indent -= 1
    shown = draw.choice(("u", "v", "len(items)", "u + v", "''.join(other)", "None"))
    return "\n".join([*lines, f"    return {shown}"])


def random_program(seed: int) -> tuple[Callable[[World], None], Budget, str]:
    draw = Random(seed)
    source = source_of(draw)
    made = types.ModuleType("tests.trust.a_program")
    made.__file__ = __file__
    vars(made).update(read=read, write=write, ABSENT=ABSENT)
    exec(compile(source, __file__, "exec"), vars(made))
    work = vars(made)["work"]
    many = draw.choice((2, 2, 3))

    def program(world: World) -> None:
        sys.modules[made.__name__] = made
        store = world.store()
        store.put("a", b"1", when=ABSENT)
        for number in range(many):
            world.spawn(work, world, store, f"p{number}", Box(), name=f"p{number}", may_raise=(Exception,))

    return program, draw.choice((NO_FAULTS, NO_FAULTS, CRASH, LOST)), source


def compared(seed: int) -> tuple[bool, int]:
    """Return True if merging loses nothing in a random program, and the number of runs merged."""
    program, budget, _ = random_program(seed)
    expected: set[Any] = set()
    oracle = ReducedSearch(
        Setting(program, budget),
        first_only=False,
        observe=lambda world: expected.add(final_state(world)),
        merge=False,
        timed=STAMPED,
    )
    oracle.explore(lambda at: at.runs > RUNS_MAX)
    if not oracle.exhausted:
        return True, 0
    found, merged = endings(program, budget, merge=True)
    if oracle.runs < RUNS_MAX // 10 and budget is NO_FAULTS:
        plainly: set[Any] = set()
        plain = Plain(
            Setting(program, budget), first_only=False, observe=lambda at: plainly.add(final_state(at))
        )
        plain.explore(lambda at: at.schedules > RUNS_MAX)
        assert not plain.exhausted or plainly == expected, seed
    return found == expected, merged


def test_random_programs_end_in_the_same_ways_with_and_without_merging() -> None:
    results = [compared(seed) for seed in range(12)]
    assert [seed for seed, (same, _) in enumerate(results) if not same] == []
    assert sum(merged for _, merged in results) > 20


@pytest.mark.slow
@pytest.mark.parametrize("seeds", batches(1_500), ids=str)
def test_many_random_programs_end_in_the_same_ways(seeds: range) -> None:
    assert [seed for seed in seeds if not compared(1_000 + seed)[0]] == []


# The SDK.


def swap_with_the_sdk(s3: Any, names: list[str]) -> None:
    from botocore.exceptions import ClientError

    for name in names:
        while True:
            found = s3.get_object(Bucket="b", Key="register")
            there = found["Body"].read().decode()
            if name in there:
                break
            try:
                s3.put_object(Bucket="b", Key="register", Body=f"{there} {name}", IfMatch=found["ETag"])
                break
            except ClientError as error:
                if error.response["Error"]["Code"] != "PreconditionFailed":
                    raise


def swappers_with_the_sdk(world: World) -> None:
    world.boto3_bucket("b")
    world.boto3_client("s3").put_object(Bucket="b", Key="register", Body="")
    for name in ("ann", "bob"):
        names = [name, f"{name} again"]
        world.spawn(swap_with_the_sdk, world.boto3_client("s3"), names, name=name, may_raise=(Exception,))


def test_calls_that_are_remembered_have_the_memory_of_those_that_are_made() -> None:
    """If this fails, how much a search explores depends on what was explored before."""
    from fencepost.sim.boto import calls

    calls._memos.clear()
    counts = []
    for _ in range(2):
        search = ReducedSearch(Setting(swappers_with_the_sdk, NO_FAULTS))
        search.explore()
        counts.append((search.runs, search.merged, search.steps))
    assert counts[0] == counts[1]
    assert counts[0][1]
    assert not loses_something(swappers_with_the_sdk)
