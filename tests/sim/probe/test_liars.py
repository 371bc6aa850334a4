"""Every store that lies is called unsafe, by the features that ought to notice; honest ones are not."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fencepost.impl.store.errors import Unusable
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import Outcome
from fencepost.sim.probe import Plan, Probe, ProbeResult, Verdict
from fencepost.sim.probe.bench import ROUNDS_MIN
from tests import liars

SMALL = Plan(rounds=12, seconds=30, keys=250, page=100, samples=2, operations=800, threads=6, body_bytes=8192)


def probed(store: MemoryStore, opener: Any = None, **bounds: Any) -> ProbeResult:
    return Probe(store, SMALL, opener=opener, **bounds).run()


def verdicts(report: ProbeResult) -> dict[str, str]:
    return {finding.name: finding.verdict.value for finding in report.features}


@pytest.mark.parametrize("liar", liars.LIARS, ids=lambda liar: liar.__name__)
def test_every_liar_is_called_unsafe(liar: Callable[[], MemoryStore]) -> None:
    """By each feature named for it, with the history that shows it, and nothing is left behind."""
    store = liar()
    report = probed(store)
    found = verdicts(report)
    assert report.verdict is Verdict.UNSAFE
    missed = {name for name in liars.LIARS[liar] if found[name] != "unsafe"}
    assert not missed, {name: found[name] for name in missed}
    for finding in report.features:
        if finding.verdict is Verdict.UNSAFE:
            assert finding.history, f"{finding.name} shows nothing"
            assert finding.detail
    assert not store.contents()


@pytest.mark.parametrize("make", liars.HONEST, ids=lambda make: make.__name__)
def test_honest_stores_are_not_called_liars(make: Callable[[], MemoryStore]) -> None:
    store = make()
    report = probed(store)
    found = verdicts(report)
    assert "unsafe" not in found.values(), found
    assert report.verdict is Verdict.SAFE, found
    for name, verdict in liars.HONEST[make].items():
        assert found[name] == verdict
    assert not store.contents()


@pytest.mark.parametrize("liar", liars.LOOSE_LIARS, ids=lambda liar: liar.__name__)
def test_a_comparison_that_is_not_equality_is_unsafe(liar: Callable[[], MemoryStore]) -> None:
    store = liar()
    row = liars.LOOSE_LIARS[liar]
    report = probed(store, only=[row])
    assert verdicts(report) == {row: "unsafe"}
    assert "a part is compared" in report.features[0].detail
    assert not store.contents()


@pytest.mark.parametrize("liar", liars.LIARS_OF_FORMS)
def test_a_form_of_an_etag_that_drops_the_condition_is_unsafe(liar: Callable[[], MemoryStore]) -> None:
    store = liar()
    assert verdicts(probed(store, only=["etag-forms"])) == {"etag-forms": "unsafe"}
    assert not store.contents()


@pytest.mark.parametrize("make", liars.FORMS_OF)
def test_the_forms_that_a_store_accepts_are_named(make: Callable[[], MemoryStore]) -> None:
    store = make()
    (row,) = probed(store, only=["etag-forms"]).features
    assert row.verdict is Verdict.SAFE, row.detail
    forms = liars.FORMS_OF[make]
    assert row.detail.startswith(f"put: {forms}; delete: {forms}; completion: {forms}")
    assert ("unquoted_etags=true" in row.detail) == (forms == "unquoted")
    assert not store.contents()


def test_a_store_without_http_has_no_forms() -> None:
    (row,) = probed(MemoryStore(), only=["etag-forms"]).features
    assert not row.applies


@pytest.mark.parametrize("make", [MemoryStore, liars.LosesUpdates])
def test_a_probe_without_time_does_the_least_rounds_of_every_row(make: Callable[[], MemoryStore]) -> None:
    """On a busy machine: few rounds decide, instead of none."""
    plan = replace(SMALL, seconds=0, rounds=100)
    report = Probe(make(), plan).run()
    assert Verdict.UNDECIDED not in {row.verdict for row in report.features}
    assert report.verdict is (Verdict.SAFE if make is MemoryStore else Verdict.UNSAFE)
    assert {row.rounds for row in report.features if row.rounds and not row.bad} == {ROUNDS_MIN}


def test_a_versioned_bucket_is_swept_with_all_its_versions() -> None:
    store = MemoryStore(versioned=True)
    report = probed(store)
    assert report.verdict is Verdict.SAFE
    assert verdicts(report)["versioned-bucket"] == "safe"
    assert not store.list_versions().versions
    assert not store.list_uploads().uploads


def test_a_store_without_if_match_is_unsupported_and_says_so() -> None:
    report = probed(liars.RefusesIfMatch())
    found = verdicts(report)
    assert report.verdict is Verdict.UNSUPPORTED
    assert found["if-match-put"] == found["counter-threads"] == "unsupported"
    assert found["create-only-put"] == found["racing-creates-threads"] == found["linearizability"] == "safe"


def test_only_the_features_asked_for_decide() -> None:
    """Who never uses if-match may be well served by a store without it."""
    report = probed(liars.RefusesIfMatch(), only=["create-only-put", "racing-creates-threads"])
    assert report.verdict is Verdict.SAFE
    assert len(report.features) == 2
    report = probed(liars.RefusesIfMatchOnDelete(), only=["if-match-delete"])
    assert report.verdict is Verdict.UNSUPPORTED


def test_a_reader_elsewhere_sees_a_cache() -> None:
    """Looking only through the writer's own connection would miss it."""
    store = liars.ReadsStaleElsewhere()
    plan = Plan(rounds=3, seconds=30)
    report = Probe(store, plan, opener=store.reader, only=["read-after-write"]).run()
    assert report.verdict is Verdict.UNSAFE
    assert "another reader" in report.features[0].detail


def test_rounds_without_a_winner_are_counted_not_condemned() -> None:
    report = probed(liars.LosersConflict(), only=["counter-threads"])
    assert report.verdict is Verdict.SAFE
    assert "answers conflict" in report.features[0].detail


def test_a_history_tells_who_did_what() -> None:
    report = probed(liars.IgnoresIfNoneMatch(), only=["create-only-put"])
    steps = report.features[0].history
    assert [step.number for step in steps] == [1, 2]
    assert steps[0].request.startswith("put create-only-put/existing-")
    assert steps[1].request.endswith("if absent 'second'")
    assert steps[1].outcome.startswith("done")


def test_a_race_shows_only_its_first_bad_round() -> None:
    report = probed(liars.ChecksThenActs(), only=["racing-creates-threads"])
    finding = report.features[0]
    puts = [step for step in finding.history if step.request.startswith("put")]
    assert 2 <= len(puts) <= SMALL.threads
    assert sum(step.outcome.startswith("done") for step in puts) > 1
    assert len({step.request.split()[1] for step in finding.history}) == 1
    assert finding.bad > 0
    assert "winners" in finding.detail


class LosesReplies(MemoryStore):
    """After a while no reply of a write arrives any more, though all are applied."""

    answered = 40

    def send(self, request: Any) -> Any:
        reply = super().send(request)
        if request.reads or request.kind == "delete":
            return reply
        self.answered -= 1
        return reply if self.answered > 0 else request.ends(Outcome.UNKNOWN, "read timed out")


def test_lost_replies_leave_it_undecided() -> None:
    """Silence is no evidence of anything, least of all of safety."""
    store = LosesReplies()
    report = probed(store)
    found = verdicts(report)
    assert report.verdict is Verdict.UNDECIDED
    assert found["create-only-put"] == "safe"
    assert found["racing-creates-threads"] == "undecided"
    assert "unsafe" not in found.values()
    assert not store.contents()


class Interrupts(MemoryStore):
    """Somebody presses Ctrl-C in the middle of a race."""

    left = 300

    def send(self, request: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().send(request)


def test_an_interrupt_leaves_nothing_behind() -> None:
    for left in (1, 40, 300, 900):
        store = Interrupts()
        store.left = left
        with contextlib.suppress(KeyboardInterrupt):
            probed(store)
            pytest.fail("was not interrupted")
        assert not store.contents()
        assert not store.list_uploads().uploads


class ForbidsUploads(MemoryStore):
    """One permission is missing."""

    def send(self, request: Any) -> Any:
        if request.kind == "create-upload":
            raise Unusable("403 AccessDenied: s3:AbortMultipartUpload is missing")
        return super().send(request)


def test_a_missing_permission_leaves_its_features_open_and_the_rest_decided() -> None:
    report = probed(ForbidsUploads())
    found = verdicts(report)
    assert found["multipart"] == found["racing-completes"] == "undecided"
    assert found["create-only-put"] == found["counter-threads"] == "safe"
    assert report.verdict is Verdict.UNDECIDED
    assert "403" in next(row.detail for row in report.features if row.name == "multipart")


class FillsUp(MemoryStore):
    room = 20

    def send(self, request: Any) -> Any:
        self.room -= request.kind == "put"
        if self.room < 0 and request.kind == "put":
            raise Unusable("no space left")
        return super().send(request)


def test_a_store_that_has_become_unusable_is_not_asked_further() -> None:
    asked: list[str] = []
    store = FillsUp()
    with pytest.raises(Unusable, match="no space left"):
        Probe(store, SMALL).run(lambda name, number, total: asked.append(name))
    assert asked == ["create-only-put", "if-match-put", "removing what was written"]
    assert not store.contents()


class WillNotDelete(MemoryStore):
    """Deletes under the probe's prefix are throttled for ever, once the features are through."""

    def send(self, request: Any) -> Any:
        if request.kind == "delete" and "latency" in request.key:
            return request.ends(Outcome.THROTTLED)
        return super().send(request)


def test_what_could_not_be_removed_is_named() -> None:
    store = WillNotDelete()
    report = probed(store, only=["create-only-put"])
    assert report.left
    assert all("latency" in line for line in report.left)
    assert all("latency" in key for key in store.contents())
