"""`fencepost replay`: verdicts, reasons and exit codes on good, broken and damaged traces."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fencepost.impl.store.events import Event
from fencepost.sim.trace import table_of, write_json_lines, write_parquet
from tests.commands.running import exit_of
from tests.properties.publish.test_refinement import history

MAP = """
from fencepost.model import Model
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.properties.refinement import COUNTED, STUTTER, Keys, Refinement, Role, where


class LockMap(Refinement):
    runs = "prefix:2"
    keys = (Keys("lock", "locks/[^/]+"),)
    roles = (Role("client", ("process",), most=1), Role("take", ("take",), COUNTED, most=2))
    hidden = ("look", "try_again", "crash", "trouble_ends")

    def __init__(self, clients=2):
        super().__init__(Model(CreateOnlyLock, {"clients": clients}))

    def hides(self, label):
        answer = dict(label.parameters).get("answer", "done")
        return super().hides(label) or answer not in ("done", "reply_lost")

    def actions(self, seen):
        if not seen.done:
            return STUTTER
        c = seen.rank("process")
        if seen.kind == "delete":
            gone = self.does("give_back", c=c), self.does("lands")
            return where("the lock is gone", lambda s: ~s.lock.is_there, *gone)
        taken = self.does("acquire", c=c), self.does("lands")
        return where("it is theirs", lambda s: s.lock.holds(owner=c, take=seen.rank("take")), *taken)
"""


def lock(key: str, *steps: str, outcome: str = "done") -> list[Event]:
    """`ann+1` takes the lock with number 1, `ann-` gives it back."""
    made = []
    for number, step in enumerate(steps):
        who, take, kind = step[:3], step[4:], "put" if step[3] == "+" else "delete"
        base = Event("service", 0, number, who, 0, 100 * number, "request", kind, key)
        made.append(replace(base, trace_fields=f"take={take}" if take else ""))
        made.append(replace(base, t_ns=number, phase="response", outcome=outcome))
    return made


def traced(*runs: list[Event]) -> list[Event]:
    """All in one trace; each process with a counter of its own for operations, all with one for events."""
    together = [event for events in runs for event in events]
    ops: dict[tuple[str, str, int], int] = {}
    return [
        replace(event, seq=seq, op=ops.setdefault((event.process, event.key, event.op), seq))
        for seq, event in enumerate(together)
    ]


GOOD = lock("locks/a", "ann+5", "ann-", "bob+6", "bob-")
BAD = lock("locks/b", "ann+1", "bob+2")


def replayed(tmp_path: Path, *words: str) -> tuple[int, dict[str, object]]:
    result = tmp_path / "result.json"
    command = ["replay", *words, "--json", str(result)]
    ended = exit_of(*command)
    return ended, json.loads(result.read_text()) if result.exists() else {}


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "lock_map.py").write_text(MAP)
    return f"{tmp_path}/lock_map.py:LockMap"


def test_one_bad_run_is_found_among_good_ones(
    tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json_lines(tmp_path / "t.jsonl", table_of(traced(GOOD, BAD, lock("locks/c", "cid+3"))))
    ended, found = replayed(tmp_path, str(tmp_path / "t.jsonl"), "--model", mine)
    assert ended == 1
    assert (found["accepted"], found["rejected"], found["undecided"], found["runs"]) == (2, 1, 0, 3)
    [error] = found["violations"]
    assert (error["run"], error["seq"]) == ("locks/b", 11)
    assert error["event"].startswith("bob: response put locks/b")
    reported = capsys.readouterr().out
    assert "REJECTED  run locks/b  event 11: bob: response put" in reported
    assert "violated: 3 runs: 2 accepted, 1 rejected, 0 undecided; 14 events" in reported
    assert found["coverage"]["taken"] > 0  # type: ignore[index]


def test_a_good_trace_holds_and_its_verdicts_are_a_table(tmp_path: Path, mine: str) -> None:
    write_parquet(tmp_path / "t.parquet", table_of(traced(GOOD)))
    out = tmp_path / "out"
    ended, found = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", mine, "--out", str(out))
    assert (ended, found["verdict"], found["events"], found["grouped_by"]) == (0, "holds", 8, "prefix:2")
    assert sorted(path.name for path in out.iterdir()) == [
        "summary.json",
        "verdicts.parquet",
        "violations.parquet",
    ]
    operations = found["statistics"]["operations"]  # type: ignore[index]
    assert operations["put"]["outcomes"] == {"done": 2}


def test_the_share_of_the_models_transitions_is_reported_and_the_way_to_what_never_was(
    tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lock's machine within its bound: every transition that there is, and those that some run took."""
    write_parquet(tmp_path / "t.parquet", table_of(traced(GOOD)))
    _, found = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", mine, "--gaps")
    reported = found["coverage"]["model"]  # type: ignore[index]
    assert (reported["runs"], reported["runs_beyond_the_bound"]) == (1, 0)
    assert 0 < reported["driven"] < reported["transitions"]
    assert sum(one["driven"] for one in reported["actions"].values()) == reported["driven"]
    assert (
        reported["actions"]["acquire"]["driven"] > 0
    )  # it landed somewhere between its request and its answer
    shown = capsys.readouterr().out
    assert f"{reported['driven']:,} of {reported['transitions']:,} transitions" in shown
    assert reported["gaps"][0]["label"] in shown
    _, without = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", mine)
    assert "model" not in without["coverage"]  # type: ignore[operator]


def test_publish_ships(tmp_path: Path) -> None:
    good = history()
    bad = [replace(event, run="z") for event in good if "recovery" not in event.key]
    write_parquet(tmp_path / "t.parquet", table_of([*good, *bad]))
    ended, found = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", "publish")
    assert (ended, found["accepted"], found["rejected"]) == (1, 1, 1)
    reason = found["violations"][0]["reason"]  # type: ignore[index]  # parsed JSON
    assert 'is not possible: s.writer[w].at == "heads" (publish_observed.py:' in reason


def test_a_violation_names_file_line_time_action_and_the_false_guard_with_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an operator needs at night; and at most ten of the actions that were possible instead."""
    bad = [
        replace(event, t_ns=1_700_000_000_000_000_000) for event in history() if "recovery" not in event.key
    ]
    file = tmp_path / "t.jsonl"
    write_json_lines(file, table_of(bad))
    file.write_text("no event\n{\n" + file.read_text())
    ended, found = replayed(tmp_path, str(file), "--model", "publish")
    assert ended == 1
    (row,) = found["violations"]  # type: ignore[misc]
    lines = file.read_text().splitlines()
    assert json.loads(lines[row["line"] - 1])["seq"] == row["seq"]
    assert (row["file"], row["time"]) == (str(file), "2023-11-14T22:13:20.000Z")
    assert "is not possible: " in row["reason"]
    assert "; writer.at: [new, new, " in row["reason"]
    assert row["possible"].count("(") <= 10
    assert found["damaged_lines"] == 2
    shown = capsys.readouterr().out
    assert f"  at {file}:{row['line']}, 2023-11-14T22:13:20.000Z" in shown
    assert "DAMAGED  2 lines could not be read as events" in shown
    assert sum("coverage" in line for line in shown.splitlines()) == 1


def test_a_place_in_a_parquet_file_is_its_row(tmp_path: Path) -> None:
    bad = [event for event in history() if "recovery" not in event.key]
    write_parquet(tmp_path / "t.parquet", table_of(bad))
    _, found = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", "publish")
    (row,) = found["violations"]  # type: ignore[misc]
    assert row["file"].endswith("t.parquet")
    assert row["line"] == [event.seq for event in bad].index(row["seq"]) + 1


def test_a_place_is_found_where_each_process_numbers_its_own_events(tmp_path: Path) -> None:
    """The event is then numbered anew; its line in its own file is still the right one."""
    bad = [event for event in history() if "recovery" not in event.key]
    counts: dict[str, int] = {}
    for name in {event.process for event in bad}:
        own = [replace(event, seq=at) for at, event in enumerate(e for e in bad if e.process == name)]
        write_json_lines(tmp_path / f"{name}.jsonl", table_of(own))
        counts[name] = len(own)
    _, found = replayed(tmp_path, *(str(tmp_path / f"{name}.jsonl") for name in counts), "--model", "publish")
    (row,) = found["violations"]  # type: ignore[misc]
    line = json.loads(Path(row["file"]).read_text().splitlines()[row["line"] - 1])
    assert row["event"].startswith(f"{line['process']}: {line['phase']} {line['kind']} {line['key']}")


def test_damage_is_named_hides_nothing_and_leaves_it_undecided(
    tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    write_parquet(folder / "good.parquet", table_of(traced(GOOD)))
    whole = (folder / "good.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[:-100])
    strange = [replace(event, key="locks/z", phase="later") for event in traced(GOOD)[:1]]
    unheard = [replace(event, key="locks/y", kind="rename") for event in traced(GOOD)[:1]]
    orphan = [replace(event, key="locks/x", op=999, process="cid") for event in traced(GOOD)[1:2]]
    write_json_lines(folder / "odd.jsonl", table_of([*strange, *unheard, *orphan]))
    with (folder / "odd.jsonl").open("a") as file:
        file.write("{broken\n")
    (folder / "packed.gz").write_bytes(gzip.compress((folder / "odd.jsonl").read_bytes())[:-9])
    ended, found = replayed(tmp_path, str(folder), "--model", mine)
    assert ended == 3
    assert (found["accepted"], found["rejected"], found["undecided"]) == (1, 0, 3)
    reasons = {row["run"]: row["reason"] for row in found["undecided_runs"]}  # type: ignore[attr-defined]
    assert "the phase 'later' is unknown" in reasons["locks/z"]
    assert "the kind 'rename' is unknown" in reasons["locks/y"]
    assert "whose request is missing" in reasons["locks/x"]
    reported = capsys.readouterr().out
    for name in ("cut.parquet", "odd.jsonl, line 4", "packed.gz"):
        assert f"NOT READ  {folder}/{name}" in reported


def test_damage_does_not_hide_a_violation(tmp_path: Path, mine: str) -> None:
    write_parquet(tmp_path / "bad.parquet", table_of(traced(BAD)))
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    files = [str(tmp_path / "bad.parquet"), str(tmp_path / "cut.parquet")]
    ended, found = replayed(tmp_path, *files, "--model", mine)
    assert (ended, found["rejected"], len(found["problems"])) == (1, 1, 1)  # type: ignore[arg-type]


def test_nothing_judged_is_not_decided(tmp_path: Path, mine: str) -> None:
    (tmp_path / "t.jsonl").write_text("")
    ended, found = replayed(tmp_path, str(tmp_path / "t.jsonl"), "--model", mine)
    assert (ended, found["verdict"], found["runs"]) == (3, "undecided", 0)


def test_a_trace_that_the_map_does_not_read_is_not_decided(
    tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any model accepts events of another system: it takes no step."""
    write_parquet(tmp_path / "t.parquet", table_of(history()))
    ended, found = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", mine, "--runs", "run")
    assert (ended, found["verdict"], found["accepted"], found["events_read"]) == (3, "undecided", 1, 0)
    assert "no event is one that the map of this model reads" in capsys.readouterr().out


def test_the_judging_machine_and_the_properties_of_its_verdict_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An accepted run keeps the properties of the observed machine, which are fewer than the model has."""
    write_parquet(tmp_path / "t.parquet", table_of(history()))
    _, found = replayed(tmp_path, str(tmp_path / "t.parquet"), "--model", "objects")
    assert (found["model"], found["judged_by"]) == ("objects", "objects-observed")
    assert found["properties"] == ["one_winner", "cas_exact", "ack_durable", "list_true"]
    assert found["properties_not_judged"] == ["untorn", "event_complete", "event_true", "served"]
    reported = " ".join(capsys.readouterr().out.split())
    assert "judged by objects-observed: one_winner, cas_exact, ack_durable, list_true" in reported
    assert "NOT JUDGED by objects-observed: untorn, event_complete, event_true, served" in reported


def line(second: int, operation: str, key: str, status: int) -> str:
    when = f"18/Nov/2026:10:00:{second:02d} +0000"
    return (
        f'o bkt [{when}] 192.0.2.1 arn R REST.{operation}.OBJECT {key} "X /{key} HTTP/1.1" {status} - - '
        '10 20 5 "-" "agent" -\n'
    )


def test_access_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = "accepted/v1/agent=1/boot=2/3-4.json"
    log = tmp_path / "log"
    log.write_text(line(1, "PUT", key, 200) + line(2, "PUT", key, 412) + line(5, "GET", key, 200))
    words = [str(log), "--from", "access-log", "--layout", "ingest"]
    assert replayed(tmp_path, *words)[0] == 0
    log.write_text(log.read_text() + line(9, "DELETE", key, 204))
    ended, found = replayed(tmp_path, *words)
    assert ended == 1
    assert [one["rule"] for one in found["violations"]] == ["never-deleted"]  # type: ignore[attr-defined]
    reported = capsys.readouterr().out
    assert f"REJECTED  never-deleted  event 7: arn@192.0.2.1: delete {key} -> done" in reported
    assert "violated: 1 broken promise, 0 undecided; 4 requests" in reported
    assert found["statistics"]["rates"]["412"] == 0.25  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "name the traces"),
        (["t", "--slots", "4"], "--slots needs a model"),
        (["t", "--coverage"], "--coverage needs a model"),
        (["--model", "publish"], "name the traces"),
        (["t", "--model", "nope"], "no model is called 'nope'; known: publish"),
        (["nowhere", "--model", "publish"], "there is no file or folder nowhere"),
        (["t", "--model", "publish", "--set", "writers"], "must read NAME=N"),
        (["t", "--model", "publish", "--set", "writers=many"], "'many' is not a whole number"),
        (["t", "--model", "publish", "--set", "writers=2", "--set", "writers=3"], "gives writers twice"),
        (["t", "--model", "publish", "--set", "dogs=2"], "cannot be created so"),
        (["t", "--model", "publish", "--set", "a-b=2"], "cannot be created so"),
        (["t", "--model", "publish", "--set", "writers=0"], "publish: "),
        (["t", "--model", "publish", "--runs", "("], "is no pattern"),
        (["t", "--model", "publish", "--master", "local[1]"], "--master belongs to --engine spark"),
        (["t", "--model", "publish", "--layout", "publish"], "--layout belongs to"),
        (["t", "--model", "publish", "--coverage", "--engine", "spark"], "need traces and --engine local"),
        (["t", "--from", "access-log"], "needs --layout"),
        (["t", "--from", "access-log", "--layout", "publish", "--slots", "4"], "--slots is for traces"),
        (["t", "--from", "access-log", "--layout", "publish", "--model", "publish"], "leave out --model"),
        (["t", "--from", "access-log", "--layout", "publish", "--engine", "spark"], "--engine local only"),
        (["t", "--from", "access-log", "--layout", "nope"], "no layout is called 'nope'"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("")
    assert exit_of("replay", *words) == 2
    reported = capsys.readouterr().err
    assert why in reported
    assert reported.count("\n") == 1


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of("replay", "--list") == 0
    assert "publish  many tables" in capsys.readouterr().out


def a_stale_read() -> list[Event]:
    """Ann writes an object twice and then reads what she wrote first."""
    base = Event("service", 0, 0, "ann", 0, 0, "request", "put", "head", condition="absent", hash="h1")
    steps = (
        base,
        replace(base, phase="response", outcome="done", etag="e1", hash=""),
        replace(base, op=1, condition="matches", etag="e1", hash="h2"),
        replace(base, op=1, phase="response", outcome="done", etag="e2", hash=""),
        replace(base, op=2, kind="get", condition="", hash=""),
        replace(base, op=2, kind="get", phase="response", condition="", outcome="done", etag="e1", hash="h1"),
    )
    return [replace(event, seq=seq, t_ns=seq) for seq, event in enumerate(steps)]


@pytest.mark.parametrize("models", [(), ("--model", "mine")])
def test_a_stale_read_is_found_with_and_without_a_model(
    tmp_path: Path, mine: str, capsys: pytest.CaptureFixture[str], models: tuple[str, ...]
) -> None:
    write_json_lines(tmp_path / "t.jsonl", table_of(a_stale_read()))
    words = [mine if word == "mine" else word for word in models]
    ended, found = replayed(tmp_path, str(tmp_path / "t.jsonl"), *words, "--runs", "run")
    assert (ended, found["verdict"]) == (1, "violated")
    continuous: dict[str, Any] = found["continuity"]  # type: ignore[assignment]  # of the JSON
    assert (continuous["requests"], continuous["judged"], continuous["violated"]) == (3, 3, 1)
    [finding] = continuous["findings"]
    assert (finding["rule"], finding["key"], finding["seq"], finding["other_seq"]) == (
        "stale-read",
        "head",
        5,
        3,
    )
    assert (finding["file"], finding["line"]) == (str(tmp_path / "t.jsonl"), 6)
    assert finding["reason"] == (
        "the read found ETag e1 after event 3 had written ETag e2, and nothing wrote ETag e1 since"
    )
    reported = capsys.readouterr().out
    assert "CONTINUITY  stale-read  head  run service  event 5: ann: response get head" in reported
    assert "continuity: judged 3 of 3 requests about 1 object" in reported


def test_the_report_counts_the_requests_that_continuity_could_not_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json_lines(tmp_path / "t.jsonl", table_of(replace(one, etag="") for one in a_stale_read()))
    ended, found = replayed(tmp_path, str(tmp_path / "t.jsonl"))
    assert (ended, found["verdict"]) == (3, "undecided")
    assert "continuity: judged 0 of 3 requests about 1 object; 3 carry no ETag" in capsys.readouterr().out


def test_an_etag_that_nothing_wrote_is_a_violation_where_the_trace_has_all_writers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = [replace(one, etag="other") if one.seq == 5 else one for one in a_stale_read()]
    foreign = [replace(one, hash="") for one in foreign]
    write_json_lines(tmp_path / "t.jsonl", table_of(foreign))
    assert replayed(tmp_path, str(tmp_path / "t.jsonl"))[0] == 3
    assert "written outside the trace: 1 ETag; with --all-writers" in capsys.readouterr().out
    ended, found = replayed(tmp_path, str(tmp_path / "t.jsonl"), "--all-writers")
    continuous: dict[str, Any] = found["continuity"]  # type: ignore[assignment]  # of the JSON
    assert (ended, continuous["findings"][0]["rule"]) == (1, "never-written")


def test_a_folder_that_grows_is_followed_and_continued(tmp_path: Path, mine: str) -> None:
    """Two commands one after the other: the second goes on where the first ended."""
    traces, out = tmp_path / "traces", str(tmp_path / "out")
    traces.mkdir()
    words = ("--model", mine, "--follow", "--idle", "0", "--out", out)
    ended, found = replayed(tmp_path, str(traces), *words)
    assert (ended, found["verdict"], found["events"]) == (3, "undecided", 0)
    write_json_lines(traces / "1.jsonl", table_of(traced(GOOD)))
    ended, found = replayed(tmp_path, str(traces), *words)
    assert (ended, found["verdict"], found["events"]) == (0, "holds", 8)
    ended, found = replayed(tmp_path, str(traces), *words)
    assert (ended, found["verdict"], found["events"]) == (0, "holds", 8)
    assert len(pq.read_table(tmp_path / "out" / "verdicts.parquet")) == found["runs"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--follow", "--engine", "spark"), "--engine local"),
        (("--follow", "--coverage", "--model", "publish"), "--coverage"),
        (("--idle", "1"), "--idle belongs to --follow"),
    ],
)
def test_follow_refuses_what_needs_a_whole_trace(
    tmp_path: Path, words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json_lines(tmp_path / "1.jsonl", table_of(traced(GOOD)))
    assert exit_of("replay", str(tmp_path), *words) == 2
    assert why in capsys.readouterr().err
