"""An agent and a collector together: what leaves the spool is in the bucket; nothing stays without reason."""

import contextlib
import logging
from pathlib import Path

import pytest

from fencepost.impl.ingest import Identity, Point, encode, keys
from fencepost.impl.ingest.service.sending import Sender, Sent, Timeouts
from fencepost.impl.ingest.service.spool import Batch, Spool

from .serving import Served, serving

AT_NS = 1_760_000_000_000_000_000


def add(spool: Spool, value: float = 1.0) -> Batch:
    def make(start: int, end: int) -> bytes:
        identity = Identity(spool.agent_id, spool.boot_id, start, end)
        return encode(identity, [Point("cpu.load", {}, AT_NS, value)] * 20)

    return spool.add(1, make)


def drained(spool: Spool, served: Served) -> Sent:
    with sender(spool, served) as one:
        return one.drain(60)


def sender(spool: Spool, served: Served) -> contextlib.closing[Sender]:
    one = Sender(spool, [served.url], served.tokens["agent-a"], timeouts=Timeouts(pause_s=0.001))
    return contextlib.closing(one)


def accepted(served: Served) -> list[int]:
    return [Identity.of_key(key).seq_start for key in served.listing() if key.startswith(keys.ACCEPTED)]


@pytest.mark.parametrize("damage", ["empty", "half", "flipped", "grown"])
def test_a_torn_batch_is_parked_and_later_ones_are_sent(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that lost power may keep a name without its bytes: that must not stop the queue for ever."""
    with serving(tmp_path) as served, Spool(tmp_path / "spool", "agent-a") as spool:
        torn, *_ = [add(spool, float(at)) for at in range(3)]
        file = tmp_path / "spool" / "queue" / torn.name
        body = file.read_bytes()
        middle = len(body) // 2
        flipped = body[:middle] + bytes([body[middle] ^ 255]) + body[middle + 1 :]
        file.write_bytes({"empty": b"", "half": body[:middle], "flipped": flipped, "grown": body * 2}[damage])
        with caplog.at_level(logging.ERROR, "fencepost.ingest"):
            sent = drained(spool, served)
        assert (sent.accepted, sent.parked, sent.left) == (2, 1, 0)
        assert accepted(served) == [2, 3]
        assert "parked" in caplog.text, "an operator sees it"
        assert [one.name for one in spool.parked()] == [torn.name]
        assert spool.why(torn)["answer"]["error"] == "bad_frame"


def test_a_removal_that_a_crash_lost_is_made_up_for(tmp_path: Path) -> None:
    """The batch comes back with its file, is sent as a duplicate, and goes."""
    with serving(tmp_path) as served:
        with Spool(tmp_path / "spool", "agent-a") as spool:
            batch = add(spool)
            frame = spool.frame(batch)
            assert drained(spool, served).accepted == 1
        (tmp_path / "spool" / "queue" / batch.name).write_bytes(frame)
        with Spool(tmp_path / "spool", "agent-a") as spool:
            sent = drained(spool, served)
            assert (sent.accepted, sent.duplicates, sent.left, spool.bytes_used) == (0, 1, 0, 0)
        assert accepted(served) == [1]


def test_a_conflict_is_parked_outside_the_order_and_survives_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        with Spool(tmp_path / "spool", "agent-a") as spool:
            first = add(spool)
            identity = Identity("agent-a", spool.boot_id, first.seq_start, first.seq_end)
            other = encode(identity, [Point("cpu.load", {}, AT_NS, 666.0)])
            assert served.post(identity, other).status_code == 200
            add(spool)
            sent = drained(spool, served)
            assert (sent.accepted, sent.parked, sent.left) == (1, 1, 0)
        with Spool(tmp_path / "spool", "agent-a") as spool:
            assert len(spool) == 0
            assert [one.seq_start for one in spool.parked()] == [1]
            with sender(spool, served) as one:
                assert one.settle() == 0, "nobody has decided"
