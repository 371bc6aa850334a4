"""On files, reduced exploration must see what plain enumeration sees: the same endings, the same violations.

If this fails, the footprint of some system call is too small, or a power loss is left out somewhere, and
"every schedule" in a verdict is not true.
"""

import fcntl
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.sim.explore.plain import Plain
from fencepost.sim.explore.reduced import ReducedSearch
from fencepost.sim.explore.reduction import RaceTracker
from fencepost.sim.explore.runs import Setting, final_state
from fencepost.sim.filesystem.survival import PROFILES
from fencepost.sim.world import NO_FAULTS, Budget, Footprints, World
from fencepost.sim.world.located import AuditError
from tests.sim.filesystem.programs import NAMES, ON_NAMES, OTHERS, WATCHES, Code, program_of

PLAIN_MAX = 1_000
NONE: dict[str, int] = {"crash": 0, "reply_lost": 0, "request_lost": 0, "pause": 0}
BUDGETS = [
    NO_FAULTS,
    Budget(**{**NONE, "crash": 1}),
    Budget(**{**NONE, "crash": 1}, restart=0),
    Budget(**NONE, power_loss=1),
    Budget(**NONE, power_loss=1, restart=0),
    Budget(**{**NONE, "crash": 1}, power_loss=1, restart=0),
]
STEPS = st.one_of(st.tuples(st.sampled_from(ON_NAMES), st.sampled_from(NAMES)), st.sampled_from(OTHERS))
CODES = st.lists(st.lists(STEPS, min_size=1, max_size=2), min_size=2, max_size=3)


def seen_by(search: Any) -> tuple[set[Any], set[str]]:
    endings: set[Any] = set()
    search._observe = lambda world: endings.add(final_state(world))
    search.explore(lambda s: s.schedules > PLAIN_MAX)
    return endings, {str(failure.violation) for failure in search.failures}


def compare(codes: list[Code], budget: Budget, watch: str, profile: str, **options: Any) -> tuple[int, int]:
    """Explore both ways; the numbers of schedules. (0, 0) when there is too much to enumerate."""
    promise = options.pop("promise", False)
    kinds = {name: options.pop(name) for name in ("volatile", "after_crash") if name in options}
    plain = Plain(Setting(program_of(codes, watch, profile, **kinds), budget), first_only=False)
    endings, broken = seen_by(plain)
    if not plain.exhausted:
        return 0, 0
    setting = Setting(program_of(codes, watch, profile, promise=promise, **kinds), budget)
    reduced = ReducedSearch(setting, first_only=False, **options)
    fewer_endings, fewer_broken = seen_by(reduced)
    assert reduced.exhausted
    assert fewer_endings == endings
    assert fewer_broken == broken
    return plain.schedules, reduced.runs


@pytest.mark.slow
@pytest.mark.parametrize("merge", [True, False])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    codes=CODES,
    budget=st.sampled_from(BUDGETS),
    watch=st.sampled_from(WATCHES),
    profile=st.sampled_from(PROFILES),
    promise=st.booleans(),
)
def test_random_programs_end_alike(
    merge: bool, codes: list[Code], budget: Budget, watch: str, profile: str, promise: bool
) -> None:
    compare(codes, budget, watch, profile, merge=merge, promise=promise)


def random_codes(draw: Random) -> list[Code]:
    return [
        [
            (draw.choice(ON_NAMES), draw.choice(NAMES)) if draw.random() < 0.7 else draw.choice(OTHERS)
            for _ in range(draw.randint(1, 2))
        ]
        for _ in range(draw.choice([2, 2, 3]))
    ]


POWER = Budget(**NONE, power_loss=1, restart=0)
DECISIVE: dict[str, tuple[list[Code], Budget, str]] = {
    "inode": ([[("append", "a")], [("read", "a")]], NO_FAULTS, "strict"),
    "entry": ([[("unlink", "a")], [("read", "a")]], NO_FAULTS, "strict"),
    "folder": ([[("create", "b")], [("list", "")]], NO_FAULTS, "strict"),
    "links": ([[("link", "a")], [("size", "a")]], NO_FAULTS, "strict"),
    "flock": ([[("try", "a")], [("try", "a")]], NO_FAULTS, "strict"),
    "shared flock": ([[("share", "a")], [("try", "a")]], NO_FAULTS, "strict"),
    "journal": ([[("create", "b")], [("unlink", "a")]], POWER, "ext4"),
}
"""For each kind of object a program whose endings depend on the order of what touches it."""


@pytest.mark.parametrize("profile", PROFILES)
def test_a_file_that_gets_a_lasting_name_is_lost_at_every_state_of_its_content(profile: str) -> None:
    """What is written to a file counts for a power loss once its name lasts, in both orders of the two."""
    codes: list[Code] = [[("rename", "d/x")], [("durable", "d/x")]]
    plain, reduced = compare(codes, POWER, "nothing", profile, volatile=True)
    assert 1 < reduced < plain


def test_names_in_a_volatile_directory_are_lost_with_the_power() -> None:
    codes: list[Code] = [[("sync", "d"), ("sync", "")], [("link", "d/x")]]
    search = ReducedSearch(Setting(program_of(codes, "nothing", volatile=True), POWER), first_only=False)
    found = [processes[-1] for _, processes, _, _ in seen_by(search)[0]]
    after = [result for _, state, result, _ in found if state == "done"]
    assert after, "power was lost in some run"
    assert not [result for result in after if "'x'" in result]


@pytest.mark.parametrize("promise", [False, True])
@pytest.mark.parametrize("codes", [[[("append", "a")], [("unlink", "a")]], [[("link", "a")], [("try", "a")]]])
def test_what_starts_after_a_crash_finds_everything_that_a_crash_may_leave(
    codes: list[Code], promise: bool
) -> None:
    budget = Budget(**{**NONE, "crash": 1}, restart=0)
    plain, reduced = compare(codes, budget, "nothing", "strict", after_crash=True, promise=promise)
    assert 1 < reduced < plain


@pytest.mark.parametrize("family", DECISIVE)
def test_every_kind_of_object_has_a_program_that_needs_its_footprint(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, budget, profile = DECISIVE[family]
    plain, reduced = compare(codes, budget, "nothing", profile)
    assert 1 < reduced <= plain

    def bit(self: Footprints, of: str, name: str, real: Any = Footprints.bit) -> int:
        return 0 if of == family else int(real(self, of, name))

    monkeypatch.setattr(Footprints, "bit", bit)
    with pytest.raises(AssertionError):
        compare(codes, budget, "nothing", profile)


def test_power_is_lost_in_every_state_that_some_order_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers of different names never conflict; only the observer's races reach each alone."""
    codes: list[Code] = [[("create", "b")], [("mkdir", "d")]]
    assert compare(codes, POWER, "nothing", "strict")[1] > 1
    monkeypatch.setattr(RaceTracker, "reverse", lambda *_: None)
    with pytest.raises(AssertionError):
        compare(codes, POWER, "nothing", "strict")


def watched(*bodies: Any, after: Any = None, budget: Budget = NO_FAULTS, plain: bool = True) -> set[Any]:
    """What the processes noted in the runs of a search, by topic; with `plain` that is compared."""

    def program(world: World) -> None:
        root = world.filesystem()
        (root / "a").write_bytes(b"first")
        (root / "d").mkdir()
        for number, body in enumerate(bodies):
            world.spawn(body, world, root, name=f"p{number}", restart=False)
        if after is not None:
            world.spawn(after, world, root, name="after", after_power_loss=True)

    def notes(search: Any) -> set[Any]:
        seen: set[Any] = set()
        search._observe = lambda world: seen.add(
            tuple(
                sorted((topic, *(str(value) for _, value in found)) for topic, found in world.noted.items())
            )
        )
        search.explore()
        return seen

    found = notes(ReducedSearch(Setting(program, budget)))
    assert not plain or found == notes(Plain(Setting(program, budget)))
    return found


def write_durably(world: World, root: Path) -> None:
    with (root / "a").open("wb", buffering=0) as raw:
        raw.write(b"second")
        os.fsync(raw.fileno())


def test_when_a_file_was_modified_outlives_a_power_loss() -> None:
    """Two states of the disk that differ only in a time of modification are two states."""

    def look(world: World, root: Path) -> None:
        world.note("at", (root / "a").stat().st_mtime_ns - world.start_ns)

    found = watched(write_durably, lambda world, _: world.env.now_ns(), after=look, budget=POWER)
    assert {notes for notes in found if notes} == {(("at", "0"),), (("at", "1000000000"),)}


def test_a_step_property_over_files_is_refused() -> None:
    def program(world: World) -> None:
        root = world.filesystem()
        world.spawn((root / "a").write_bytes, b"", name="writer")
        world.step_property("kept", lambda before, after: before.file("a") is None or after.file("a"))

    with pytest.raises(AuditError, match="a step property sees no files"):
        ReducedSearch(Setting(program, NO_FAULTS)).explore()


def test_time_passes_between_the_program_and_the_first_write_of_a_process() -> None:
    def look(world: World, root: Path) -> None:
        os.close(os.open(root / "b", os.O_CREAT | os.O_WRONLY))
        world.note("newer", (root / "b").stat().st_mtime_ns > (root / "a").stat().st_mtime_ns)

    assert watched(look) == {(("newer", "False"),), (("newer", "True"),)}


def test_a_directory_is_modified_with_its_names() -> None:
    def look(world: World, root: Path) -> None:
        before = (root / "d").stat().st_mtime_ns
        world.env.sleep(5)
        world.note("modified", (root / "d").stat().st_mtime_ns > before)

    found = watched(look, lambda _, root: (root / "d/x").write_bytes(b""))
    assert found == {(("modified", "False"),), (("modified", "True"),)}


def test_a_lock_that_changes_its_mode_is_released_first() -> None:
    """As flock(2) says: an attempt that fails loses what it had, so somebody else may get it."""

    def attempt(world: World, root: Path) -> None:
        fd = os.open(root / "a", os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_SH)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            world.note("order", "lost")
            world.note("order", "still running")

    def alone(world: World, root: Path) -> None:
        first, second = os.open(root / "a", os.O_RDWR), os.open(root / "a", os.O_RDWR)
        fcntl.flock(first, fcntl.LOCK_SH)
        fcntl.flock(first, fcntl.LOCK_UN)
        fcntl.flock(second, fcntl.LOCK_EX)
        world.note("order", "alone")

    found = watched(attempt, alone, plain=False)
    assert (("order", "lost", "alone", "still running"),) in found


def test_files_that_differ_in_content_alone_are_two_states() -> None:
    """The writers learn nothing of each other, so that only the content distinguishes their orders."""

    def writes(body: bytes, place: int) -> Any:
        def write(_world: World, root: Path) -> None:
            fd = os.open(root / "a", os.O_WRONLY)
            os.pwrite(fd, body, place)

        return write

    def read(world: World, root: Path) -> None:
        world.note("read", (root / "a").read_bytes())

    found = watched(writes(b"12", 0), writes(b"34", 1), read, plain=False)
    bodies = {str(notes[0][1]) for notes in found}
    assert bodies == {"b'first'", "b'12rst'", "b'f34st'", "b'134st'", "b'124st'"}
