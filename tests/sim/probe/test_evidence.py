"""What a finding shows: numbered steps, tokens, the bound, and the verdict on the whole."""

import itertools

import pytest

from fencepost.impl.store import requests as ask
from fencepost.impl.store.requests import ABSENT, Matches, Outcome
from fencepost.sim.probe.history import STEPS_MAX, History, answered, asked, body_of, token_of
from fencepost.sim.probe.verdict import Finding, Verdict, bound_of, overall


@pytest.mark.parametrize("size", [0, 1, 3, 100, 4096, 65_537])
def test_a_body_tells_who_wrote_it(size: int) -> None:
    body = body_of("w3.12", size)
    assert token_of(body) == "w3.12"
    assert len(body) == max(size, 6)


def test_a_mix_of_two_bodies_is_seen_as_torn() -> None:
    """However little of one is left."""
    one, other = body_of("w1.1", 1000), body_of("w2.1", 1000)
    for cut in (2, 5, 500, 996):
        assert token_of(one[:cut] + other[cut:]) == "torn(w1.1..., 1000 bytes)"
    assert token_of(b"") == ""


def test_requests_read_as_people_would_say_them() -> None:
    etag = "0123456789abcdef0123456789abcdef"
    lines = [
        asked(ask.Put("p/k", body_of("w1.1"), ABSENT), "p/"),
        asked(ask.Put("p/k", body_of("w1.1"), Matches(etag)), "p/"),
        asked(ask.Delete("p/k", Matches(etag)), "p/"),
        asked(ask.Get("p/k", 5, 10), "p/"),
        asked(ask.Get("p/k", unless=etag), "p/"),
        asked(ask.List("p/"), "p/"),
        asked(ask.CompleteUpload("p/k", "upload-000123", ((1, "e"),), ABSENT), "p/"),
    ]
    assert lines == [
        "put k if absent 'w1.1'",
        "put k if match 01234567~ef 'w1.1'",
        "delete k if match 01234567~ef",
        "get k bytes 5..10",
        "get k unless 01234567~ef",
        "list everything",
        "complete-upload k if absent upload ..000123",
    ]
    info = ask.ObjectInfo("k", etag, 5, 0)
    assert answered(ask.GetReply(Outcome.DONE, body=body_of("x"), info=info)) == "done 'x' etag 01234567~ef"
    assert answered(ask.PutReply(Outcome.EXISTS)) == "exists"


def test_steps_are_numbered_by_when_they_were_issued_and_the_last_are_kept() -> None:
    history = History("p/")
    times = list(range(100, 100 + 2 * STEPS_MAX))
    for at in reversed(times):
        history.add(
            "w1", ask.Head(f"p/{at}"), ask.HeadReply(Outcome.MISSING), at * 1_000_000, at * 1_000_000 + 5
        )
    steps = history.steps()
    assert [step.number for step in steps] == list(range(1, STEPS_MAX + 1))
    assert all(left.started_ms < right.started_ms for left, right in itertools.pairwise(steps))
    assert steps[-1].request == f"head {times[-1]}"
    assert steps[0].started_ms == 0
    assert history.requests == len(times)


def test_the_bound_is_the_rate_that_one_probe_in_twenty_would_miss() -> None:
    assert bound_of(0) is None
    for rounds in (1, 10, 100, 490):
        bound = bound_of(rounds)
        assert bound is not None
        assert (1 - bound) ** rounds == pytest.approx(0.05)
    assert bound_of(490) == pytest.approx(0.0061, abs=1e-4)


def row(verdict: Verdict, *, core: bool = True, applies: bool = True) -> Finding:
    return Finding("x", verdict, "", core=core, applies=applies)


SAFE, UNSAFE, UNSUPPORTED, UNDECIDED = Verdict.SAFE, Verdict.UNSAFE, Verdict.UNSUPPORTED, Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([row(SAFE), row(SAFE)], SAFE),
        ([row(SAFE), row(UNSAFE, core=False), row(UNDECIDED)], UNSAFE),
        ([row(SAFE), row(UNSUPPORTED, core=False)], SAFE),
        ([row(SAFE), row(UNSUPPORTED)], UNSUPPORTED),
        ([row(SAFE), row(UNSUPPORTED, applies=False)], SAFE),
        ([row(SAFE), row(UNDECIDED, core=False)], UNDECIDED),
        ([row(UNSUPPORTED), row(UNDECIDED)], UNDECIDED),
        ([row(SAFE, core=False)], UNDECIDED),
        ([], UNDECIDED),
    ],
)
def test_the_verdict_on_the_whole(rows: list[Finding], verdict: Verdict) -> None:
    assert overall(rows) is verdict
