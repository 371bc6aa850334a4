"""Replay on Spark and in this process agree, whatever the layout of the traces."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.examples.work_queue.refinement import QueueMap
from fencepost.impl.store.events import Event
from fencepost.model import Model
from fencepost.model.create_only_lock import CreateOnlyLock
from fencepost.properties.ingest import IngestRefinement
from fencepost.properties.publish import PublishRefinement
from fencepost.properties.refinement import Automaton, Refinement
from fencepost.results import to_json
from fencepost.sim.replay import spark as on_spark
from fencepost.sim.replay.judging import Judge
from fencepost.sim.replay.local import Outcome
from fencepost.sim.replay.local import replay as replay_here
from fencepost.sim.replay.parts import Part, plan
from fencepost.sim.replay.spark import Recipe
from fencepost.sim.replay.tables import VERDICTS
from fencepost.sim.trace import table_of, write_json_lines, write_parquet
from fencepost.sim.trace.grouping import Grouping, find_grouping
from tests.properties.refinement import maps
from tests.sim.replay.test_skewed import night
from tests.trust.test_continuity_mutations import mutants
from tests.trust.test_replay_requests import FULL, changed, committed, offers, where

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


def refinement() -> maps.LockMap:
    return maps.LockMap(Model(CreateOnlyLock))


def turns(run: str, count: int, *, violated_at: int = -1) -> list[Event]:
    """One client takes the lock and gives it back, so often; or does not give it back once."""
    made: list[Event] = []
    for turn in range(count):
        base = Event(run, 0, 0, f"{run}-ann", 0, turn, "landed", "put", f"locks/{run}", outcome="done")
        made.append(replace(base, trace_fields=f"take={turn % 3 + 70}"))
        made += [replace(base, kind="delete")] if turn != violated_at else []
    return [replace(event, seq=seq, t_ns=1000 * seq, op=seq) for seq, event in enumerate(made)]


def events() -> list[Event]:
    """Many small runs, a giant one, two that violate the model."""
    made = [event for number in range(300) for event in turns(f"run-{number:03d}", 2)]
    made += turns("run-100-giant", 1)
    made += turns("run-500", 2, violated_at=0) + turns("run-501", 3, violated_at=1)
    return made + turns("run-900", 1)[:1] + [replace(turns("run-901", 1)[0], phase="odd")]


def summary(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = to_json(outcome.result("publish", "local", 1.0))
    found["problems"].sort()
    return found


def compared(
    session: Any,
    tmp_path: Path,
    files: list[Path],
    by: Grouping = "run",
    refinement: Callable[[], Refinement] = refinement,
    *,
    skew_ns: int | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    problems: list[Any] = []
    parts = tmp_path / "parts"
    parts.mkdir()
    found = plan(files, by, parts, problems.append)
    judge = Judge(Automaton(refinement(), slots=4), by == "run")
    here = replay_here(
        judge, found.parts, verdicts=tmp_path / "verdicts-here", skew_ns=skew_ns, clocks=found.clocks
    )
    here.problems += problems
    here.left_out += found.left_out
    on_spark.ship(refinement)
    on_spark.ship(maps.LockMap)
    recipe = Recipe(refinement, 4, counted=True, whole=by == "run", token=str(tmp_path), skew_ns=skew_ns)
    there = on_spark.replay(session, recipe, files, by, tmp_path / "verdicts")
    return summary(here), summary(there)


def sorted_parquet(folder: Path) -> list[Path]:
    write_parquet(folder / "t.parquet", table_of(events()), rows=100)
    return [folder / "t.parquet"]


def lines_and_rubbish(folder: Path) -> list[Path]:
    all_ = events()
    write_json_lines(folder / "1.jsonl", table_of(all_[::2]))
    write_parquet(folder / "2.parquet", table_of(all_[1::2]))
    (folder / "3.parquet").write_bytes((folder / "2.parquet").read_bytes()[:-50])
    with (folder / "1.jsonl").open("a") as file:
        file.write("{no event\n")
    return sorted(folder.glob("[123].*"))


@pytest.mark.parametrize("lay", [sorted_parquet, lines_and_rubbish])
def test_the_same_verdicts(session: Any, tmp_path: Path, lay: Callable[[Path], list[Path]]) -> None:
    here, there = compared(session, tmp_path, lay(tmp_path))
    assert there == here
    assert (here["rejected"], here["undecided"], here["runs"]) == (2, 1, 305)
    assert [row["run"] for row in here["violations"]] == ["run-500", "run-501"]
    tables = [pq.read_table(tmp_path / name).sort_by("run") for name in ("verdicts", "verdicts-here")]
    assert tables[0].schema.remove_metadata() == VERDICTS
    assert tables[0].to_pylist() == tables[1].to_pylist()
    assert (len(tables[0]), tables[0]["verdict"].to_pylist().count("accepted")) == (305, 302)


def test_a_file_that_a_lost_task_left_behind_is_not_read(tmp_path: Path) -> None:
    """A task whose executor was lost has written its runs too; they must not be there twice."""
    folder, kept = tmp_path / "v.new", tmp_path / "v"
    folder.mkdir()
    row = {field.name: "" if field.type == pa.string() else 0 for field in VERDICTS}
    for attempt in (3, 7):
        table = pa.Table.from_pylist([{**row, "run": "run-1"}], schema=VERDICTS)
        pq.write_table(table, folder / f"part-00000-{attempt}.parquet")
    on_spark.keep_verdicts(folder, ["part-00000-7.parquet"], kept)
    assert [path.name for path in kept.iterdir()] == ["part-00000-7.parquet"]
    assert len(pq.read_table(kept)) == 1


def test_tasks_take_the_largest_parts_first_and_each_part_once() -> None:
    """A giant run that begins last would keep one core busy alone at the end."""
    sizes = [7, 90, 1, 3, 5, 2, 4, 6, 8]
    parts = [Part(((f"{size}", (0,)),), size) for size in sizes]
    tasks = on_spark.in_tasks(parts, cores=2)
    assert tasks[0] == (parts[1],)
    assert sorted(part.events for task in tasks for part in task) == sorted(sizes)
    assert [sum(part.events for part in task) for task in tasks] == [90, 21, 15]
    assert on_spark.in_tasks([], cores=2) == ()


@pytest.mark.parametrize(
    ("clock", "shift_ms", "skew_ns", "expected"),
    [
        ("a", -30, None, "violated"),
        ("b", -30, None, "undecided"),
        ("b", -5000, 10**10, "undecided"),
    ],
)
def test_clocks_explain_the_same_rejections(
    session: Any, tmp_path: Path, clock: str, shift_ms: int, skew_ns: int | None, expected: str
) -> None:
    """A run of two recorders is undecided here and there if another order of their clocks is accepted."""
    write_parquet(tmp_path / "1.parquet", table_of(night(clock, shift_ms)))
    files, by = [tmp_path / "1.parquet"], find_grouping(None, QueueMap.runs, QueueMap.keys)
    here, there = compared(session, tmp_path, files, by, QueueMap, skew_ns=skew_ns)
    assert there == here
    assert (here["verdict"], here["runs"]) == (expected, 1)


def test_runs_named_anew(session: Any, tmp_path: Path) -> None:
    here, there = compared(session, tmp_path, sorted_parquet(tmp_path), "locks/(run-[0-9]+)")
    assert there == here
    assert here["runs"] == 304


def test_request_rules_are_judged(session: Any, tmp_path: Path) -> None:
    """One set of rules: a write without its condition is rejected here and there, with one reason."""
    run = offers("publish", FULL, committed)
    bad = changed(run, where(run, "put", "/manifest/")[0][0], condition="anything")
    rows = [
        replace(event, run=name, seq=seq)
        for name, made in (("bad", bad), ("good", run))
        for seq, event in enumerate(made)
    ]
    path = tmp_path / "trace.parquet"
    write_parquet(path, [table_of(rows)])
    here, there = compared(session, tmp_path, [path], refinement=partial(PublishRefinement, 2, 2))
    assert here == there
    assert [row["run"] for row in there["violations"]] == ["bad"]
    assert "condition anything, not absent" in there["violations"][0]["reason"]
    assert "listings" in there["not_judged"]


def test_continuity_is_judged(session: Any, tmp_path: Path) -> None:
    """One function for both engines: the same findings, counts and sentences."""
    run = offers("publish", FULL, committed)
    bad = next(one.events for one in mutants(run) if one.change == "etag")
    rows = [
        replace(event, run=name, seq=seq)
        for name, made in (("bad", bad), ("good", run))
        for seq, event in enumerate(made)
    ]
    path = tmp_path / "trace.parquet"
    write_parquet(path, [table_of(rows)])
    here, there = compared(session, tmp_path, [path], refinement=partial(PublishRefinement, 2, 2))
    assert here == there
    assert there["verdict"] == "violated"
    assert {one["run"] for one in there["continuity"]["findings"]} == {"bad"}
    recipe = Recipe(None, 4, counted=True, whole=True, token="none")
    alone = summary(on_spark.replay(session, recipe, [path], "run", tmp_path / "alone"))
    assert alone["continuity"] == here["continuity"]


def by_hash_only() -> list[Event]:
    """Batches of two agents: blobs are collected, and one hash names no identity."""
    made: list[Event] = []
    for number, sha in enumerate(f"{n:02d}" * 32 for n in range(40)):
        identity = f"agent=0{number % 2}/boot=ff/{number:020d}-{number + 9:020d}"
        blob = f"raw-blobs/v1/sha256/{sha[:2]}/{sha[2:4]}/{sha}~0000000001.lmbatch"
        base = Event("service", 0, 0, "collector", 0, number, "landed", "put", blob, outcome="done")
        trace_fields = f"generation=0000000001 identity={identity} sha={sha}"
        made += (
            [replace(base, key=f"accepted/v1/{identity}.json", trace_fields=trace_fields)]
            if number % 10 == 9
            else []
        )
        made += [base, replace(base, key=f"accepted/v1/{identity}.json", trace_fields=trace_fields)]
    made += [replace(made[0], key="raw-blobs/v1/sha256/ff/ff/" + "f" * 64 + "~0000000001.lmbatch")] * 2
    made += [replace(made[0], key="cursors/v1/x.json")]
    return [replace(event, seq=seq, t_ns=1000 * seq, op=seq) for seq, event in enumerate(made)]


def test_identities_are_learnt_from_all_files_before_runs_are_named(session: Any, tmp_path: Path) -> None:
    """What a blob's hash belongs to stands in another file than the blob."""
    all_ = by_hash_only()
    blobs = [event for event in all_ if event.key.startswith("raw-blobs")]
    write_parquet(tmp_path / "1.parquet", table_of(blobs))
    write_parquet(tmp_path / "2.parquet", table_of([event for event in all_ if event not in blobs]))
    files = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    here, there = compared(session, tmp_path, files, IngestRefinement.runs, IngestRefinement)
    assert there == here
    assert (here["runs"], here["rejected"], here["left_out"]) == (40, 4, 3)
