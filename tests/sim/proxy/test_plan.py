"""What may be asked of a proxy, and the answer to a bad request."""

import math
import statistics

import pytest

from fencepost.impl.environment import SeededEnvironment
from fencepost.impl.store.faults import kind_of
from fencepost.sim.proxy import BadPlan, Delay, Plan, Upstream, read_delay
from fencepost.sim.proxy.plan import read_chances, read_delays

HERE = Upstream("127.0.0.1", 9, tls=False)


@pytest.mark.parametrize(
    ("method", "target", "kind"),
    [
        ("GET", "/b/k", "get"), ("GET", "/b/a/b?versionId=1", "get"), ("GET", "/b", "list"),
        ("GET", "/b/?list-type=2&prefix=a%2F", "list"), ("GET", "/", "list"), ("HEAD", "/b/k", "head"),
        ("HEAD", "/b", "head"), ("PUT", "/b/k", "put"), ("PUT", "/b", "other"), ("DELETE", "/b/k", "delete"),
        ("POST", "/b/k?uploads", "upload"), ("PUT", "/b/k?partNumber=1&uploadId=u", "upload"),
        ("POST", "/b/k?uploadId=u", "upload"), ("GET", "/b?uploads", "upload"),
        ("POST", "/b?delete", "other"),
        ("OPTIONS", "/b/k", "other"),
    ],
)  # fmt: skip
def test_kinds_are_recognised_by_the_first_line(method: str, target: str, kind: str) -> None:
    assert kind_of(method, target) == kind


def test_a_lognormal_delay_has_the_quantiles_it_was_given() -> None:
    chance = SeededEnvironment(3).stream("delays")
    drawn = sorted(read_delay("20ms/80ms").draw(chance) for _ in range(20_000))
    assert math.isclose(statistics.median(drawn), 0.020, rel_tol=0.03)
    assert math.isclose(drawn[int(len(drawn) * 0.99)], 0.080, rel_tol=0.08)
    assert read_delay("20ms").draw(chance) == 0.02


@pytest.mark.parametrize(
    ("text", "seconds"), [("20ms", 0.02), ("1.5s", 1.5), ("250us", 0.00025), ("0ms", 0.0)]
)
def test_delays_have_units(text: str, seconds: float) -> None:
    assert read_delay(text) == Delay(seconds, seconds)


@pytest.mark.parametrize(
    "text", ["", "20", "20 m", "-1ms", "1ms/", "80ms/20ms", "0ms/5ms", "1ms/2ms/3ms", "nanms"]
)
def test_a_bad_delay_is_refused(text: str) -> None:
    with pytest.raises(BadPlan, match=r"is no delay|the median must"):
        read_delay(text)


def test_options_are_by_kind() -> None:
    assert read_chances(["1%", "put=0.5"], "--reply-lost") == {"": 0.01, "put": 0.5}
    for words, output in (
        (["post=1%"], "no kind"),
        (["1%", "2%"], "twice"),
        (["x"], "no chance"),
        (["2"], "from 0"),
    ):
        with pytest.raises(BadPlan, match=output):
            read_chances(words, "--reply-lost")
    with pytest.raises(BadPlan, match=r"--latency: '7' is no delay"):
        read_delays(["put=7"], "--latency")


@pytest.mark.parametrize(
    ("url", "output"),
    [
        ("127.0.0.1:9", "no address"),
        ("ftp://h", "no address"),
        ("http://h:x", "cannot be read"),
        ("http://h/b", "only http"),
    ],
)
def test_a_bad_upstream_is_refused(url: str, output: str) -> None:
    with pytest.raises(BadPlan, match=output):
        Upstream.of(url)


def test_an_upstream_is_host_and_port() -> None:
    assert Upstream.of("https://s3.example") == Upstream("s3.example", 443, tls=True)
    assert Upstream.of("http://[::1]:9").url == "http://[::1]:9"


def test_chances_may_not_exceed_certainty() -> None:
    with pytest.raises(BadPlan, match=r"chances of put add up to 1\.1"):
        Plan(HERE, reply_lost={"": 0.4}, late={"put": 0.7})
    with pytest.raises(BadPlan, match="nothing through"):
        Plan(HERE, cap=0)


def test_a_plan_says_what_it_does() -> None:
    wanted = Plan(HERE, latency={"": Delay(0.02), "put": Delay(0.02, 0.08)}, cap=8, reply_lost={"put": 0.01})
    assert wanted.describe() == "20 ms there, put 20 ms (p99 80 ms) there, 8 at once, 0.01 put reply lost"
    assert Plan(HERE).describe() == "changing nothing"
