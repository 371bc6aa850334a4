"""Latencies have the percentiles they were given, and every stream its own numbers."""

import pytest

from fencepost.sim.des import Constant, Empirical, Lognormal, Profile
from fencepost.sim.des.latency import draw
from tests.sim.des.parts import MS


def sample(latency: object, seed: str = "s", count: int = 20_000) -> list[int]:
    next_ = draw(latency, seed)  # type: ignore[arg-type]
    return sorted(next_() for _ in range(count))


def test_a_constant_is_one() -> None:
    assert set(sample(Constant(7), count=100)) == {7}


def test_a_lognormal_has_its_two_percentiles() -> None:
    found = sample(Lognormal(15 * MS, 80 * MS))
    assert found[len(found) // 2] == pytest.approx(15 * MS, rel=0.03)
    assert found[len(found) * 99 // 100] == pytest.approx(80 * MS, rel=0.06)


def test_equal_percentiles_are_a_constant() -> None:
    assert set(sample(Lognormal(5 * MS, 5 * MS), count=100)) == {5 * MS}


def test_a_measured_profile_is_drawn_between_its_quantiles() -> None:
    quantiles = tuple(float(at * at) for at in range(101))
    found = sample(Empirical(quantiles))
    assert found[0] >= 0
    assert found[-1] <= 10_000
    for share in (10, 50, 90, 99):
        assert found[len(found) * share // 100] == pytest.approx(share * share, rel=0.06)


def test_a_stream_repeats_and_another_differs() -> None:
    latency = Lognormal(MS, 5 * MS)
    assert sample(latency, "a", 100) == sample(latency, "a", 100) != sample(latency, "b", 100)


def test_kinds_without_their_own_have_the_default() -> None:
    profile = Profile(Constant(1), {"put": Constant(2)}, byte_ns=3.0, kinds_byte_ns={"get": 4.0})
    assert (profile.of("put"), profile.of("get")) == (Constant(2), Constant(1))
    assert (profile.per_byte_ns("put"), profile.per_byte_ns("get")) == (3.0, 4.0)
