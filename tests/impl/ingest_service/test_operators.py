"""The interface for operators over HTTP: conflicts, decisions, and their effect on agents."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from .serving import Served, batch, frame, query, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as served:
        yield served


def request(served: Served, method: str, path: str, token: str = "ops", **options: Any) -> httpx.Response:
    return served.client.request(method, f"{served.url}{path}", headers=served.auth(token), **options)


def conflict(served: Served, start: int = 1) -> dict[str, Any]:
    """Another frame under an accepted identity: its record, as an operator sees it."""
    identity = batch(start, start)
    assert served.post(identity, frame(identity)).status_code == 200
    assert served.post(identity, frame(identity, 2.0)).status_code == 409
    found = request(served, "GET", "/v1/conflicts?limit=1000").json()["conflicts"]
    return next(one for one in found if one["seq_start"] == start)


def named(seen: dict[str, Any]) -> dict[str, Any]:
    names = ("agent_id", "boot_id", "seq_start", "seq_end", "submitted_frame_sha256")
    return {name: seen[name] for name in names}


def test_a_conflict_is_shown_and_resolved_once(served: Served) -> None:
    seen = conflict(served)
    assert seen["accepted_frame_sha256"] != seen["submitted_frame_sha256"]
    assert seen["resolution"] is None
    question = f"/v1/resolution?{query(batch(1, 1))}&submitted_frame_sha256={seen['submitted_frame_sha256']}"
    assert request(served, "GET", question, "agent-a").json() == {"resolution": None}
    done = request(served, "POST", "/v1/conflicts/resolve", json={**named(seen), "note": "an old disk"})
    assert done.status_code == 200
    decided = done.json()["resolution"]
    assert (decided["decision"], decided["by"], decided["note"]) == (
        "accept-existing-and-drop",
        "ops",
        "an old disk",
    )
    assert request(served, "GET", question, "agent-a").json() == {"resolution": decided}
    again = request(served, "POST", "/v1/conflicts/resolve", json={**named(seen), "note": "no, another"})
    assert again.json()["resolution"] == decided, "the first decision is final"
    assert request(served, "GET", "/v1/conflicts").json() == {"conflicts": [], "more": False}
    (shown,) = request(served, "GET", "/v1/conflicts?state=all").json()["conflicts"]
    assert shown == {**seen, "resolution": decided}


def test_pages_of_conflicts(served: Served) -> None:
    for start in (1, 2, 3):
        conflict(served, start)
    found = request(served, "GET", "/v1/conflicts?limit=2").json()
    assert ([one["seq_start"] for one in found["conflicts"]], found["more"]) == ([1, 2], True)
    found = request(served, "GET", "/v1/conflicts?limit=3").json()
    assert (len(found["conflicts"]), found["more"]) == (3, False)
    assert request(served, "GET", "/v1/conflicts?agent_id=agent-b").json()["conflicts"] == []


def test_an_agent_reads_only_its_own_resolutions(served: Served) -> None:
    question = f"/v1/resolution?{query(batch(1, 1))}&submitted_frame_sha256={'0' * 64}"
    assert request(served, "GET", question, "agent-b").json()["error"] == "foreign_agent"
    assert request(served, "GET", question, "ops").status_code == 403
    assert request(served, "GET", question, "agent-a").json() == {"resolution": None}


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, Any]]]:
    """A conflict that stays undecided."""
    with serving(tmp_path_factory.mktemp("standing")) as served:
        seen = conflict(served)
        served.collector.wait_idle()
        yield served, seen


def decide(served: Served, body: bytes) -> httpx.Response:
    return served.client.post(
        f"{served.url}/v1/conflicts/resolve",
        content=body,
        headers={**served.auth("ops"), "content-type": "application/json"},
    )


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"seq_start": 5, "seq_end": 5}, 404, "no_such_conflict"),
        ({"submitted_frame_sha256": "0" * 64}, 404, "no_such_conflict"),
        ({"submitted_frame_sha256": "A" * 64}, 400, "bad_request"),
        ({"submitted_frame_sha256": "../x"}, 400, "bad_request"),
        ({"seq_start": 2}, 422, "bad_sequence"),
        ({"seq_start": -1}, 400, "bad_identity"),
        ({"seq_start": "1"}, 400, "bad_request"),
        ({"seq_start": True}, 400, "bad_request"),
        ({"seq_start": 1.0}, 400, "bad_request"),
        ({"agent_id": ""}, 400, "bad_identity"),
        ({"agent_id": "\ud800"}, 400, "bad_identity"),
        ({"note": "a\nb"}, 400, "bad_request"),
        ({"note": "x" * 1001}, 400, "bad_request"),
        ({"note": None}, 400, "bad_request"),
        ({"force": True}, 400, "bad_request"),
    ],
)
def test_invalid_decisions(
    standing: tuple[Served, dict[str, Any]], changes: dict[str, Any], status: int, kind: str
) -> None:
    served, seen = standing
    before = served.listing()
    answer = decide(served, json.dumps({**named(seen), **changes}).encode())
    assert (answer.status_code, answer.json()["error"]) == (status, kind), answer.text
    assert served.listing() == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 16_000, b"\xff", b'{"a": 1e999}', b"nul"])
def test_bodies_that_are_not_an_object(standing: tuple[Served, dict[str, Any]], body: bytes) -> None:
    answer = decide(standing[0], body)
    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")


@pytest.mark.parametrize("boot", [None, "boot-1"])
def test_a_quarantined_agent_is_refused_until_released(served: Served, boot: str | None) -> None:
    whom = {"agent_id": "agent-a"} | ({"boot_id": boot} if boot else {})
    assert request(served, "POST", "/v1/blocks", json={**whom, "note": "two machines"}).json()["by"] == "ops"
    before = served.listing()
    refused = served.post(batch(), frame())
    assert (refused.status_code, refused.json()["error"]) == (403, "quarantined")
    assert served.listing() == before
    other = batch(boot="boot-2")
    assert served.post(other, frame(other)).status_code == (200 if boot else 403)
    assert served.post(batch(agent="agent-b"), frame(batch(agent="agent-b")), "agent-b").status_code == 200
    (block,) = request(served, "GET", "/v1/blocks").json()["blocks"]
    assert (block["agent"], block["boot"], block["note"]) == ("agent-a", boot, "two machines")
    assert request(served, "DELETE", "/v1/blocks", params=whom).json() == {"released": True}
    assert request(served, "DELETE", "/v1/blocks", params=whom).json() == {"released": False}
    assert served.post(batch(), frame()).status_code == 200


def test_other_collectors_read_quarantines_from_the_bucket(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        request(one, "POST", "/v1/blocks", json={"agent_id": "agent-a"})
        (tmp_path / "two").mkdir()
        with serving(tmp_path / "two", store=one.store) as two:
            assert two.post(batch(), frame()).json()["error"] == "quarantined"


def test_methods_of_a_path(served: Served) -> None:
    answer = request(served, "PATCH", "/v1/blocks")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST", "DELETE"}
