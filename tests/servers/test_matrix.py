"""The table of S3 servers: no row of a probe and no server is missing, and a bad verdict is not hidden.

If this fails, a server reads as safe in a column of which one row is not, or is left out without a word.
"""

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.sim.probe import FEATURES
from tests.servers import matrix, processes
from tests.servers.endpoint import Endpoint
from tests.servers.matrix import COLUMNS, OURS, VERSIONED, Row, Server


def feature(name: str, verdict: str = "safe", detail: str = "", **others: Any) -> dict[str, Any]:
    row = {"name": name, "verdict": verdict, "detail": detail, "applies": True, "rounds": 0, "bad": 0}
    return {**row, **others}


def all_safe(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each feature of a probe; `changes` by name, with underscores."""
    return [changes.get(one.name.replace("-", "_")) or feature(one.name) for one in FEATURES]


def cells(page: str, server: str) -> dict[str, str]:
    lines = [line for line in page.splitlines() if line.startswith("|")]
    split = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    found = next(row for row in split if row[0] == server)
    return dict(zip(split[0], found, strict=True))


def notes(page: str) -> str:
    return page.split("## Notes")[1].split("##")[0]


def test_each_row_of_the_probe_is_in_one_column() -> None:
    counts = Counter(name for names in COLUMNS.values() for name in names)
    assert counts == Counter(one.name for one in FEATURES)


@pytest.mark.parametrize("name", [one.name for one in FEATURES])
@pytest.mark.parametrize("verdict", ["unsafe", "undecided", "unsupported"])
def test_one_row_that_is_not_safe_makes_its_column_so(name: str, verdict: str) -> None:
    rows = all_safe(**{name.replace("-", "_"): feature(name, verdict, "two winners", rounds=9, bad=1)})
    page = matrix.page([Row("one", "1.0", "2026-11-20", features=rows)], ["--quick"], 0.5)
    found = cells(page, "one")
    assert [column for column in COLUMNS if not found[column].startswith("safe")] == [
        column for column, names in COLUMNS.items() if name in names
    ]
    assert f"{verdict} [1]" in found.values()
    assert f"1. one, `{name}`: {verdict}, 1 bad of 9 rounds: two winners" in notes(page)


def test_the_worst_verdict_of_a_column_is_its_own() -> None:
    rows = all_safe(
        create_only_put=feature("create-only-put", "unsupported"),
        racing_creates_threads=feature("racing-creates-threads", "undecided"),
        racing_creates_processes=feature("racing-creates-processes", "unsafe", "a | b\nc"),
    )
    page = matrix.page([Row("one", features=rows), Row("two", features=rows)], ["--quick"], 0.5)
    assert cells(page, "one")["create-only put"] == "unsafe [1][2][3]"
    assert cells(page, "two")["create-only put"] == "unsafe [4][5][6]"
    assert "3. one, `racing-creates-processes`: unsafe: a | b c\n" in page


def test_a_cell_counts_rounds_and_has_the_forms_of_a_put() -> None:
    rows = all_safe(
        racing_creates_threads=feature("racing-creates-threads", rounds=1_000),
        racing_creates_processes=feature("racing-creates-processes", rounds=20),
        etag_forms=feature("etag-forms", detail="put: quoted, unquoted; delete: none"),
        versioned_bucket=feature(VERSIONED, "unsupported", applies=False),
    )
    found = cells(matrix.page([Row("one", features=rows)], ["--quick"], 0.5), "one")
    assert found["create-only put"] == "safe (0 bad of 1,020)"
    assert found["forms of If-Match"] == "safe: quoted, unquoted"
    assert found["versions"] == "-"
    assert found["quirks"] == "-"


def test_a_row_names_the_quirks_that_our_server_has_too() -> None:
    rows = all_safe(
        create_only_put=feature("create-only-put", detail="safe"),
        racing_creates_threads=feature("racing-creates-threads", "unsafe"),
        listing_order=feature("listing-order", "unsupported", "complete, but not in byte order: ..."),
        versioned_bucket=feature(VERSIONED, "unsupported", "...", applies=False),
    )
    page = matrix.page([Row("one", features=rows), Row("two", reason="it has a weak ETag")], ["--quick"], 0.5)
    assert cells(page, "one")["quirks"] == "`conditions-raced`, `listing-unordered`"
    assert cells(page, "two")["quirks"] == "`weak-etags`"


@contextlib.contextmanager
def missing(_: Path) -> Iterator[Endpoint]:
    raise processes.Missing("pip install it")
    yield


@contextlib.contextmanager
def failing(_: Path) -> Iterator[Endpoint]:
    raise AssertionError("no server at http://127.0.0.1:1; its log ends:\nthe disk is full\n")
    yield


class Running(Endpoint):
    def bucket(self, *, versioned: bool = False) -> str:
        return "s3://versioned" if versioned else "s3://plain"


@contextlib.contextmanager
def running(_: Path) -> Iterator[Endpoint]:
    yield Running("http://127.0.0.1:1")


def no_version() -> str:
    raise processes.Missing("")


SERVERS = {
    OURS: Server("`pip`", running, lambda: "1.0"),
    "first": Server("`pip`", missing, no_version),
    "second": Server("`npm`", failing, lambda: "2.0"),
}


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Set the results of probes by URL; a text is an error."""
    results: dict[str, Any] = {
        "s3://plain": all_safe(versioned_bucket=feature(VERSIONED, "unsupported", applies=False)),
        "s3://versioned": [feature(VERSIONED)],
    }

    def result_of(url: str, *_: str, **__: Any) -> dict[str, Any]:
        if isinstance(results[url], str):
            raise AssertionError(results[url])
        return {"features": results[url]}

    monkeypatch.setattr(matrix, "result_of", result_of)
    monkeypatch.setattr(matrix, "SERVERS", SERVERS)
    return results


def test_a_server_that_does_not_start_is_a_row_with_the_reason(
    probed: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / "matrix.md"
    assert matrix.main([str(path)]) == 0
    page = path.read_text()
    assert cells(page, OURS)["versions"] == "safe"
    assert cells(page, "first")["probed"] == "not probed [1]"
    assert cells(page, "first")["create-only put"] == "-"
    assert cells(page, "second")["version"] == "2.0"
    assert "1. first: pip install it" in notes(page)
    assert "2. second: no server at http://127.0.0.1:1; its log ends: the disk is full" in notes(page)
    assert "first : pip install it" in capsys.readouterr().out


def test_versions_that_a_bucket_does_not_keep_are_not_offered(probed: dict[str, Any], tmp_path: Path) -> None:
    probed["s3://versioned"] = [feature(VERSIONED, "unsupported", applies=False)]
    row = matrix.row_of("one", SERVERS[OURS], tmp_path, [])
    found = cells(matrix.page([row], ["--quick"], 0.5), "one")
    assert (found["versions"], found["quirks"]) == ("unsupported [1]", "`versions-missing`")


def test_a_probe_without_a_result_is_a_row_with_the_reason(probed: dict[str, Any], tmp_path: Path) -> None:
    probed["s3://versioned"] = "the probe was stopped after 600 s"
    row = matrix.row_of("one", SERVERS[OURS], tmp_path, [])
    assert (row.reason, row.features) == ("the probe was stopped after 600 s", [])


def test_only_our_server_can_fail_the_session(
    probed: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "matrix.md")
    probed["s3://yours"] = all_safe(multipart=feature("multipart", "unsafe"))
    words = [path, "--also", "yours=s3://yours", "--only", OURS]
    assert matrix.main(words) == 0
    assert cells(Path(path).read_text(), "yours")["all else"] == "unsafe [1]"
    probed["s3://plain"] = all_safe(multipart=feature("multipart", "undecided"))
    assert matrix.main(words) == 1
    assert f"{OURS}: multipart is undecided\n" in capsys.readouterr().out
    probed["s3://plain"] = "it does not answer"
    assert matrix.main(words) == 1
    assert f"{OURS}: it does not answer\n" in capsys.readouterr().out


def test_a_run_that_is_stopped_leaves_the_rows_that_it_has(
    probed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stop before the last server must not lose the others, nor leave out what was not reached."""

    @contextlib.contextmanager
    def stopped(_: Path) -> Iterator[Endpoint]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(matrix, "SERVERS", {**SERVERS, "first": Server("`pip`", stopped, no_version)})
    with pytest.raises(KeyboardInterrupt):
        matrix.main([str(tmp_path / "matrix.md")])
    page = (tmp_path / "matrix.md").read_text()
    assert cells(page, OURS)["create-only put"] == "safe"
    assert "first: the run was stopped before" in notes(page)
    assert "second: the run was stopped before" in notes(page)


def test_an_own_server_is_a_name_and_a_url() -> None:
    url = "s3://bucket/p?endpoint=http://127.0.0.1:9000&region=x"
    assert matrix.also(f"mine={url}") == ("mine", url)
    for bad in ("mine", "=s3://bucket", "mine=http://127.0.0.1:9000", "mine=s3://", f"moto={url}"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"NAME=s3://bucket|moto is a row"):
            matrix.also(bad)


@pytest.mark.parametrize("words", [["--also", "mine"], ["--only", "minio"], ["--budget", "0"]])
def test_a_word_without_sense_starts_nothing(
    words: list[str], probed: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        matrix.main([str(tmp_path / "matrix.md"), *words])
    assert ended.value.code == 2
    assert words[1] in capsys.readouterr().err
    assert not (tmp_path / "matrix.md").exists()


def test_a_program_is_missing_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(processes.Missing, match="npm install it"):
        processes.program("no-such-server", "npm install it")
    monkeypatch.setenv("NO-SUCH-SERVER", "/opt/server")
    assert processes.program("no-such-server", "npm install it") == "/opt/server"


@pytest.mark.server
def test_a_program_that_ends_is_a_row_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "s3rver"
    script.write_text(f"#!{sys.executable}\nraise SystemExit('the disk is full')\n")
    script.chmod(0o700)
    monkeypatch.setenv("S3RVER", str(script))
    row = matrix.row_of("s3rver", matrix.SERVERS["s3rver"], tmp_path / "data", [])
    assert row.reason.startswith("no server at http://127.0.0.1:")
    assert row.reason.endswith("its log ends: the disk is full")
