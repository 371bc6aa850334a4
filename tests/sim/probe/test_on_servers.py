"""Probing stores that speak HTTP, from threads and from processes: honest ones, known ones, and liars."""

import functools
from typing import TYPE_CHECKING, Any

import pytest

from fencepost.impl.store import open_store
from fencepost.sim.probe import Plan, Probe, ProbeResult, Verdict

if TYPE_CHECKING:
    from tests.servers.endpoint import Endpoint

PUTS = (
    "create-only-put",
    "if-match-put",
    "racing-creates-threads",
    "racing-creates-processes",
    "counter-threads",
    "counter-processes",
)


def probed(url: str, *, only: Any = (), **bounds: Any) -> ProbeResult:
    plan = Plan(
        **{"rounds": 12, "seconds": 60.0, "keys": 250, "page": 100, "samples": 4, "operations": 400} | bounds
    )
    with open_store(url) as store:
        return Probe(store, plan, opener=functools.partial(open_store, url), only=only).run()


def verdicts(report: ProbeResult) -> dict[str, str]:
    return {finding.name: finding.verdict.value for finding in report.features}


def history(report: ProbeResult, name: str) -> list[str]:
    finding = next(finding for finding in report.features if finding.name == name)
    return [f"{step.worker} {step.request} -> {step.outcome}" for step in finding.history]


def left_behind(endpoint: "Endpoint", url: str) -> list[Any]:
    bucket = url.removeprefix("s3://").partition("?")[0]
    client = endpoint.client()
    try:
        return [
            *client.list_object_versions(Bucket=bucket).get("Versions", []),
            *client.list_object_versions(Bucket=bucket).get("DeleteMarkers", []),
            *client.list_multipart_uploads(Bucket=bucket).get("Uploads", []),
        ]
    finally:
        client.close()


@pytest.mark.server
@pytest.mark.parametrize("versioned", [False, True])
def test_honest_moto_has_a_complete_table(honest_moto_process: "Endpoint", versioned: bool) -> None:
    """All is well but what moto really does not do: it ignores if-match on a completion."""
    url = honest_moto_process.bucket(versioned=versioned)
    report = probed(url)
    found = verdicts(report)
    unsafe = {name for name, verdict in found.items() if verdict == "unsafe"}
    assert unsafe == {"etag-forms", "if-match-complete", "racing-completes-if-match"}
    others = {name: verdict for name, verdict in found.items() if name not in unsafe and verdict != "safe"}
    assert others == ({} if versioned else {"versioned-bucket": "unsupported"})
    assert {"put", "get", "list", "put-1mib"} <= set(report.latency)
    assert not report.left
    assert not left_behind(honest_moto_process, url)


@pytest.mark.server
def test_lying_moto_is_found_out(lying_moto: "Endpoint") -> None:
    """It checks and then writes; with threads that switch all the time, two rivals get through."""
    url = lying_moto.bucket()
    only = ["racing-creates-threads", "counter-threads", "racing-completes"]
    report = probed(url, only=only, rounds=400, seconds=90.0)
    assert report.verdict is Verdict.UNSAFE
    name = next(name for name, verdict in verdicts(report).items() if verdict == "unsafe")
    assert sum("-> done etag" in line and " get " not in line for line in history(report, name)) > 1
    assert not left_behind(lying_moto, url)


@pytest.mark.server
def test_seaweedfs_puts_are_safe_and_completions_are_not(seaweedfs: "Endpoint") -> None:
    url = seaweedfs.bucket()
    report = probed(url, only=[*PUTS, "racing-completes", "puts-against-completes"], rounds=40, seconds=60.0)
    found = verdicts(report)
    assert {name: found[name] for name in PUTS} == dict.fromkeys(PUTS, "safe")
    assert report.verdict is Verdict.UNSAFE
    assert found["racing-completes"] == "unsafe"
    lines = history(report, "racing-completes")
    assert sum("complete-upload" in line and "if absent" in line and "-> done" in line for line in lines) > 1
    assert not left_behind(seaweedfs, url)


LIES = {
    "ignores_if_none_match": {"create-only-put", "racing-creates-threads", "racing-creates-processes"},
    "checks_then_acts": {"racing-creates-threads", "racing-creates-processes"},
    "loses_updates": {"counter-threads", "counter-processes"},
    "lists_stale": {"list-after-write", "list-after-delete"},
}


@pytest.mark.server
@pytest.mark.parametrize("lie", LIES)
def test_liars_over_http_are_caught_from_threads_and_from_processes(lie: str, credentials: None) -> None:
    from tests import lying_http

    with lying_http.lying_endpoint(getattr(lying_http, lie)) as endpoint:
        url = endpoint.bucket()
        report = probed(
            url, only=["if-match-put", "create-only-put", *sorted(LIES[lie] - {"create-only-put"})]
        )
        found = verdicts(report)
        assert {name for name, verdict in found.items() if verdict == "unsafe"} == LIES[lie]
        for name in LIES[lie]:
            assert history(report, name)
        if lie != "lists_stale":
            assert not left_behind(endpoint, url)


def test_a_probe_over_http_in_this_process(honest_moto: Any) -> None:
    """The same path, small enough for every run."""
    url = honest_moto.bucket()
    only = ["create-only-put", "racing-creates-threads", "list-after-write", "ranges", "conditional-get"]
    report = probed(url, only=only, rounds=3, samples=1, threads=3)
    assert report.verdict is Verdict.SAFE, verdicts(report)
    assert not left_behind(honest_moto, url)


def test_a_lost_reply_does_not_decide_anything(honest_moto: Any) -> None:
    """The first reply is lost: the feature is asked again with new keys, and nobody is accused."""
    url = honest_moto.bucket()
    with open_store(url) as store:
        probe = Probe(store, Plan(rounds=2, samples=1), only=["create-only-put"])

        def watch(name: str, number: int, total: int) -> None:
            if name == "create-only-put":
                honest_moto.lose_reply("PUT")

        report = probe.run(watch)
    assert report.verdict is Verdict.SAFE
    assert not left_behind(honest_moto, url)
