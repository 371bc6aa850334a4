"""`POST /v1/batches` as agents see it: once, twice, in conflict, and without a store."""

import hashlib
import json
from pathlib import Path

from fencepost.impl.ingest import keys
from fencepost.impl.store.memory import MemoryStore

from .serving import answer_of, batch, frame, listing, serving


def test_a_first_a_second_and_a_conflicting_batch(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        first = served.post(batch(), frame())
        assert first.status_code == 200
        reply = first.json()
        assert reply["duplicate"] is False
        assert (reply["agent_id"], reply["boot_id"], reply["seq_start"], reply["seq_end"]) == (
            "agent-a",
            "boot-1",
            1,
            2,
        )
        assert reply["frame_sha256"] == hashlib.sha256(frame()).hexdigest()
        again = served.post(batch(), frame())
        assert (again.status_code, again.json()) == (200, {**reply, "duplicate": True})
        other = served.post(batch(), frame(value=2.0))
        assert (other.status_code, other.json()["error"]) == (409, "identity_conflict")
        assert other.json()["accepted_frame_sha256"] == reply["frame_sha256"]
        assert other.json()["submitted_frame_sha256"] == hashlib.sha256(frame(value=2.0)).hexdigest()
        assert served.store.get(other.json()["conflict_key"]).done
        manifest = json.loads(served.store.get(keys.accepted_key(batch())).body)
        assert manifest["frame_sha256"] == reply["frame_sha256"]
        assert served.store.get(manifest["raw_blob_key"]).body == frame()
        text = served.client.get(f"{served.url}/metrics").text
        for result in ("accepted", "duplicate", "conflict"):
            assert f'fencepost_ingest_batches_total{{result="{result}"}} 1.0\n' in text


def test_index_objects_are_written_after_the_response(tmp_path: Path) -> None:
    store = MemoryStore()
    with serving(tmp_path, store=store) as served:
        for start in range(1, 41):
            assert served.post(batch(start, start), frame(batch(start, start))).status_code == 200
    found = listing(store)
    for prefix in (keys.ACCEPTED, keys.BY_TIME, keys.BY_BLOB, keys.RAW):
        assert sum(key.startswith(prefix) for key in found) == 40, prefix


def test_chunked_or_with_expect_it_is_the_same_batch(tmp_path: Path) -> None:
    """In any form of sending: in one piece, in chunks of a byte, or with Expect: 100-continue."""
    body = frame()
    with serving(tmp_path) as served:
        with served.raw() as expecting:
            expecting.sendall(served.head(body, "expect: 100-continue"))
            assert answer_of(expecting)[0] == 100
            expecting.sendall(body)
            status, _, reply = answer_of(expecting)
            assert (status, json.loads(reply)["duplicate"]) == (200, False)
        with served.raw() as chunked:
            chunked.sendall(served.head(-1, "transfer-encoding: chunked"))
            for at in range(len(body)):
                chunked.sendall(b"1\r\n" + body[at : at + 1] + b"\r\n")
            chunked.sendall(b"0\r\n\r\n")
            status, _, reply = answer_of(chunked)
            assert (status, json.loads(reply)["duplicate"]) == (200, True)


def test_head_and_options(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        answer = served.client.head(f"{served.url}/healthz")
        assert (answer.status_code, answer.content) == (200, b"")
        assert served.client.options(f"{served.url}/v1/batches").status_code == 405
        assert served.client.get(f"{served.url}/healthz").status_code == 200
        assert served.client.get(f"{served.url}/healthz").headers["cache-control"] == "no-store"
