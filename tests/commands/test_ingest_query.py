"""`fencepost ingest query`: tables, JSON, pages, and one clear line for a question that makes no sense."""

import json
from pathlib import Path

import pytest

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.ingest import Accepted, Authority, Identity, Point, encode, roll_up
from fencepost.impl.store import ANYTHING, open_store
from tests.commands.running import Run

NOW = 1_760_000_000_000_000_000
FROM, TO = "2025-10-09T08:00Z", "2025-10-09T11:00:00+02:00"
ENV = SystemEnvironment()


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Two batches, one rolled up."""
    url = f"file://{tmp_path}/store?linger_ms=0"
    (tmp_path / "store").mkdir()
    with open_store(url) as store:
        for number in (1, 2):
            ann = Authority(store, ENV, "ann")
            identity = Identity("agent-a", "boot-1", number, number)
            points = [Point("cpu.load", {"host": host}, NOW, float(number)) for host in "ab"]
            answer = ann.accept(identity, encode(identity, points))
            assert isinstance(answer, Accepted)
            ann.follow_up(answer.manifest)
            if number == 1:
                roll_up(store, ENV)
    return url


def test_tables(ran: Run, url: str) -> None:
    window = ("--store", url, "--from", FROM, "--to", TO)
    assert ran("ingest", "query", "metrics", *window)[:2] == (0, "cpu.load\n")
    code, out, _ = ran("ingest", "query", "sums", "cpu.load", *window, "--label", "host=b")
    assert code == 0
    assert out.splitlines()[1].split() == ["2025-10-09T08:00:00Z", "host=b", "2", "3.0", "1.0", "2.0", "0"]
    code, out, _ = ran("ingest", "query", "points", "cpu.load", *window, "--agent", "agent-a", "--limit", "3")
    assert code == 0
    assert len(out.splitlines()) == 5
    more = out.splitlines()[-1].partition("--after ")[2].strip("'")
    code, out, _ = ran(
        "ingest", "query", "points", "cpu.load", *window, "--agent", "agent-a", "--after", more
    )
    assert [line.split()[2] for line in out.splitlines()[1:]] == ["host=b"]


def test_json_and_a_batch_that_cannot_be_read(ran: Run, url: str) -> None:
    """Exit code 1: the sums lack accepted points."""
    window = ("--store", url, "--from", FROM, "--to", TO, "--json", "-")
    assert json.loads(ran("ingest", "query", "sums", "cpu.load", *window)[1])["uncounted_batches"] == 1
    with open_store(url) as store:
        for page in store.pages("raw-blobs/"):
            for info in page.objects:
                store.delete(info.key, when=ANYTHING)
    code, out, _ = ran("ingest", "query", "sums", "cpu.load", *window)
    found = json.loads(out)
    assert code == 1
    assert [row["count"] for row in found["sums"]] == [1, 1]
    assert "is missing, which accepted/v1/" in found["missing"][0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sums", "cpu.load", "--from", "yesterday", "--to", TO), "'yesterday' is no time"),
        (("sums", "cpu.load", "--from", "2025-10-09T08:00", "--to", TO), "names no time zone"),
        (("sums", "cpu.load", "--from", TO, "--to", TO), "the window is empty"),
        (("sums", "cpu.load", "--from", "0", "--to", TO), "at most 744"),
        (("sums", "cpu load", "--from", FROM, "--to", TO), "not the name of a metric"),
        (("sums", "cpu.load", "--from", FROM, "--to", TO, "--label", "host"), "write --label NAME=VALUE"),
        (("points", "cpu.load", "--from", FROM, "--to", TO, "--after", "x"), "is no position"),
        (("points", "cpu.load", "--from", FROM, "--to", TO, "--agent", "\n"), "control characters"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    ran: Run, url: str, words: tuple[str, ...], message: str
) -> None:
    code, _, err = ran("ingest", "query", *words, "--store", url)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
