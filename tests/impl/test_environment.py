"""The environment is the only source of time, randomness and identifiers."""

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment


def test_seeded_time_passes_only_in_sleep() -> None:
    """A test that depends on real time is a test that fails on a slow day."""
    env = SeededEnvironment(seed=1, start_ns=10)
    assert (env.now_ns(), env.monotonic_ns()) == (10, 0)
    env.sleep(1.5)
    assert (env.now_ns(), env.monotonic_ns()) == (1_500_000_010, 1_500_000_000)
    env.sleep(-1)
    assert env.monotonic_ns() == 1_500_000_000


def test_one_seed_repeats_and_another_differs() -> None:
    """Both halves matter: a constant would pass the first alone."""
    draws = [
        [env.stream("a").random() for _ in range(3)]
        for env in (SeededEnvironment(1), SeededEnvironment(1), SeededEnvironment(2))
    ]
    assert draws[0] == draws[1]
    assert draws[0] != draws[2]


def test_another_actor_changes_no_stream() -> None:
    """Adding a process to a simulation must not change what the others do."""
    alone, together = SeededEnvironment(1), SeededEnvironment(1)
    together.stream("b").random()
    assert alone.stream("a").random() == together.stream("a").random()


def test_identifiers_sort_by_time_and_do_not_repeat() -> None:
    env = SeededEnvironment(seed=3)
    early = [env.new_id() for _ in range(50)]
    env.sleep(1)
    late = [env.new_id() for _ in range(50)]
    assert max(early) < min(late)
    assert len({*early, *late}) == 100
    assert {len(name) for name in early + late} == {26}
    assert len({SystemEnvironment().new_id() for _ in range(100)}) == 100


def test_the_system_clock_moves() -> None:
    env = SystemEnvironment()
    before = env.monotonic_ns()
    env.sleep(0.001)
    assert env.monotonic_ns() - before >= 1_000_000
    assert env.now_ns() > 1_700_000_000_000_000_000
