"""`fencepost catalog` as users see it: data in a directory, exit codes, one line per error."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.impl.publish import Catalog, Fenced, HeadAhead, StaleView, Unknown
from fencepost.impl.store import ANYTHING, open_store
from fencepost.impl.store.interface import Layer
from tests.commands.running import Run
from tests.impl.publish.scripted import Crashed, Scripted


@pytest.fixture
def catalog(ran: Run) -> Run:
    return partial(ran, "catalog")


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty place, and files to put, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("id,name,born\n1,Ada,1815\n2,Bob,\n")
    Path("knows.jsonl").write_text('{"id": "k", "a": 1, "b": 2}\n')
    return f"file://{tmp_path}/store?linger_ms=0"


@pytest.fixture
def graph(catalog: Run, url: str) -> str:
    """A catalog with people and edges between them."""
    assert catalog("init", url)[0] == 0
    edges = ("--edge", "a=person.id", "--edge", "knows.b=person.id", "--key", "id")
    code, out, err = catalog("put", url, "knows=knows.jsonl", "person=people.csv", *edges, "--author", "ann")
    assert (code, err) == (0, "")
    assert out == "published as manifest 2: append knows 1, person 2\n"
    return url


def result(catalog: Run, *arguments: str, code: int = 0) -> Any:
    exit_code, out, _ = catalog(*arguments, "--json", "-")
    assert exit_code == code
    return json.loads(out)


def test_several_tables_are_one_commit(catalog: Run, graph: str) -> None:
    commits = result(catalog, "log", graph)["commits"]
    assert [(commit["manifest"], commit["author"], commit["tables"]) for commit in commits] == [
        (2, "ann", ["knows", "person"]),
        (1, commits[1]["author"], []),
    ]
    found = result(catalog, "get", graph, "knows")
    assert (found["key"], found["edges"]) == ("id", {"a": "person", "b": "person"})
    assert found["columns"] == {"id": "string", "a": "int64", "b": "int64"}
    assert result(catalog, "get", graph, "person")["rows"][1] == {"id": 2, "name": "Bob", "born": None}


def test_a_table_for_people_and_files_for_programs(catalog: Run, graph: str) -> None:
    assert catalog("get", graph, "person")[1] == "id  name  born\n1   Ada   1815\n2   Bob\n"
    assert catalog("get", graph, "person", "--format", "csv")[1] == Path("people.csv").read_text()
    assert catalog("get", graph, "knows", "--format", "jsonl")[1] == Path("knows.jsonl").read_text()
    assert catalog("get", graph, "person", "--out", "p.parquet")[0] == 0
    assert pq.read_table("p.parquet").column("name").to_pylist() == ["Ada", "Bob"]
    (fragment,) = Path("store/data/person").glob("*.parquet")
    assert pq.read_table(fragment).num_rows == 2, "any reader can read the stored fragments"
    assert catalog("put", graph, "copy=p.parquet", "--key", "id")[0] == 0
    rows = result(catalog, "get", graph, "copy")["rows"]
    assert rows == result(catalog, "get", graph, "person")["rows"]
    assert not list(Path().glob(".*")), "no temporary file is left"


def test_modes_and_earlier_manifests(catalog: Run, graph: str) -> None:
    Path("more.csv").write_text("id,name,born\n2,Bea,1990\n3,Cyd,\n")
    code, _, err = catalog("put", graph, "person=more.csv")
    assert code == 2
    assert "has a row 2 already" in err
    assert catalog("put", graph, "person=more.csv", "--mode", "upsert")[0] == 0
    assert [row["name"] for row in result(catalog, "get", graph, "person")["rows"]] == ["Ada", "Bea", "Cyd"]
    assert len(result(catalog, "get", graph, "person", "--at", "2")["rows"]) == 2
    code, _, err = catalog("put", graph, "person=more.csv", "--mode", "overwrite")
    assert code == 2, "it would remove row 1, which an edge points at"
    assert "knows.a points at it" in err
    assert catalog("delete", graph, "knows", "k")[0] == 0
    assert catalog("put", graph, "person=more.csv", "--mode", "overwrite")[0] == 0
    assert [row["id"] for row in result(catalog, "get", graph, "person")["rows"]] == [2, 3]
    assert catalog("drop", graph, "knows")[0] == 0
    assert catalog("get", graph, "knows")[0] == 2


def test_columns_can_be_added(catalog: Run, graph: str) -> None:
    Path("wide.jsonl").write_text('{"id": 3, "name": "Cyd", "tall": 1.7}\n')
    code, _, err = catalog("put", graph, "person=wide.jsonl")
    assert code == 2
    assert "wide.jsonl, line 1: the table has no column 'tall'; add it with --add-columns" in err
    assert catalog("put", graph, "person=wide.jsonl", "--add-columns")[0] == 0
    assert [row["tall"] for row in result(catalog, "get", graph, "person")["rows"]] == [None, None, 1.7]


def test_branches(catalog: Run, graph: str) -> None:
    Path("more.csv").write_text("id,name\n3,Cyd\n")
    assert catalog("branch", "create", graph, "draft")[0] == 0
    assert catalog("put", graph, "person=more.csv", "--branch", "draft")[0] == 0
    assert len(result(catalog, "get", graph, "person")["rows"]) == 2
    assert len(result(catalog, "get", graph, "person", "--branch", "draft")["rows"]) == 3
    assert result(catalog, "branch", "list", graph)["branches"] == ["draft", "main"]
    assert catalog("branch", "merge", graph, "draft")[0] == 0
    assert len(result(catalog, "get", graph, "person")["rows"]) == 3
    assert catalog("branch", "delete", graph, "draft")[0] == 0
    assert result(catalog, "branch", "list", graph)["branches"] == ["main"]


def test_maintenance(catalog: Run, graph: str) -> None:
    Path("more.csv").write_text("id,name\n3,Cyd\n")
    assert catalog("put", graph, "person=more.csv")[0] == 0
    assert catalog("compact", graph)[1] == "knows: 1 runs, nothing to do\nperson: 2 runs, rewritten\n"
    assert result(catalog, "cleanup", graph, "--keep", "1")["manifests"] == 3
    assert catalog("verify", graph)[:2] == (0, "holds: 1 branches, 1 manifests, 0 faults\n")
    assert catalog("get", graph, "person", "--at", "2")[0] == 2
    assert result(catalog, "log", graph)["commits"][0]["tables"] is None, "the manifest before it is gone"
    assert result(catalog, "repair", graph)["settled"] == []


def test_damage_is_found(catalog: Run, graph: str) -> None:
    (fragment,) = Path("store/data/person").glob("*.parquet")
    with open_store(graph) as store:
        store.put(f"data/person/{fragment.name}", b"else", when=ANYTHING)
    found = result(catalog, "verify", graph, code=1)
    assert found["verdict"] == "violated"
    assert any(fragment.name in fault for fault in found["faults"])
    code, out, err = catalog("get", graph, "person")
    assert (code, out, len(err.splitlines())) == (1, "", 1)


ODD = "id,a,b\nx,1,9\n"
BAD = [
    (["put", "URL", "person=none.csv"], None, "cannot read none.csv"),
    (["put", "URL", "person=people.txt"], None, ".csv, .jsonl, .parquet"),
    (["put", "URL", "per/son=people.csv"], None, "table name 'per/son'"),
    (["put", "URL"], None, "name what to write"),
    (["put", "URL", "person"], None, "TABLE=FILE"),
    (["put", "URL", "new=people.csv"], None, "--key new=id"),
    (["put", "URL", "new=people.csv", "--key", "nr"], None, "people.csv has no column 'nr'"),
    (["put", "URL", "person=bad.csv"], "id,name\n3,Cyd\nx,Dan\n", "bad.csv, line 3: column id is int64"),
    (["put", "URL", "person=bad.csv"], "id,name\n,Dan\n", "bad.csv, line 2: the key id is empty"),
    (["put", "URL", "person=bad.csv"], "id,name\n3\n", "bad.csv, line 2 has 1 fields"),
    (["put", "URL", "person=bad.csv"], "id,name\n3,\udce9\n", "not UTF-8"),
    (["put", "URL", "person=bad.csv"], 'id,name\n3,"x\n', "cannot be read as CSV"),
    (["put", "URL", "person=bad.csv"], "", "first line must name the columns"),
    (["put", "URL", "person=bad.jsonl"], '{"id": 3}\n{"id": \n', "bad.jsonl, line 2 is not JSON"),
    (["put", "URL", "person=bad.jsonl"], "[3]\n", "bad.jsonl, line 1 is no object"),
    (
        ["put", "URL", "person=bad.jsonl"],
        '{"id": 3, "name": 4}\n',
        "bad.jsonl, line 1: column name is string",
    ),
    (["put", "URL", "person=bad.jsonl"], '{"id": 9223372036854775808}\n', "cannot hold 9223372036854775808"),
    (["put", "URL", "person=bad.parquet"], "no", "cannot be read as Parquet"),
    (["put", "URL", "knows=bad.csv"], ODD, "bad.csv, line 2: table knows, column b: person has no row 9"),
    (["put", "URL", "new=people.csv", "--key", "id", "--edge", "born=person.name"], None, "is id, not name"),
    (["put", "URL", "new=people.csv", "--key", "id", "--edge", "born=nobody.id"], None, "'nobody'"),
    (["put", "URL", "new=people.csv", "--key", "id", "--edge", "x=person.id"], None, "--edge x=person.id"),
    (["put", "URL", "new=people.csv", "--key", "id", "--edge", "person"], None, "TABLE.KEY"),
    (["put", "URL", "person=people.csv", "--key", "name"], None, "has the key id"),
    (["delete", "URL", "person", "2"], None, "row 2 of table person cannot be removed"),
    (["delete", "URL", "person", "7"], None, "has no row 7"),
    (["delete", "URL", "person", "x"], None, "whole numbers"),
    (["delete", "URL", "person"], None, "name the keys"),
    (["drop", "URL", "person"], None, "points at it"),
    (["get", "URL", "nobody"], None, "no table 'nobody'"),
    (["get", "URL", "person", "--at", "9"], None, "no manifest 9"),
    (["get", "URL", "person", "--branch", "x"], None, "no branch 'x'"),
    (["get", "URL", "person", "--branch", "x/y"], None, "branch name 'x/y'"),
    (["get", "URL", "person", "--format", "parquet"], None, "--out"),
    (["get", "URL", "person", "--out", "/no/folder/x.csv"], None, "/no/folder/x.csv"),
    (["init", "URL"], None, "a catalog at"),
    (["compact", "URL", "nobody"], None, "'nobody'"),
    (["branch", "merge", "URL", "nobody"], None, "no branch 'nobody'"),
    (["branch", "delete", "URL", "main"], None, "cannot be deleted"),
    (["branch", "create", "URL", "main"], None, "already"),
    (["get", "memory://", "person"], None, "nothing would remain"),
    (["init", "memory://"], None, "nothing would remain"),
    (["log", "URL", "--limit", "0"], None, "--limit"),
    (["log", "nope://x"], None, "nope://x"),
]


@pytest.mark.parametrize(("words", "file", "named"), BAD, ids=[" ".join(case[0]) for case in BAD])
def test_an_invalid_request_gets_one_line_and_changes_nothing(
    catalog: Run, graph: str, words: list[str], file: str | None, named: str
) -> None:
    if file is not None:
        name = next(word for word in words if "=bad." in word).partition("=")[2]
        Path(name).write_text(file, encoding="utf-8", errors="surrogateescape")
    code, out, err = catalog(*(graph if word == "URL" else word for word in words))
    assert (code, out) == (2, "")
    assert named in err
    assert len(err.splitlines()) == 1
    assert len(result(catalog, "log", graph)["commits"]) == 2


@pytest.mark.parametrize("words", [["get", "URL", "t"], ["put", "URL", "t=people.csv"], ["verify", "URL"]])
def test_a_missing_catalog_gets_a_line_with_the_command_to_make_one(
    catalog: Run, url: str, words: list[str]
) -> None:
    code, _, err = catalog(*(url if word == "URL" else word for word in words))
    assert code == 2
    assert f"there is no catalog at {url}; make one: fencepost catalog init" in err
    assert not Path("store").exists()


@pytest.mark.parametrize(
    ("error", "code", "named"),
    [
        (StaleView("others were first"), 3, "run the command again"),
        (Fenced("fenced"), 3, "run the command again"),
        (HeadAhead("ahead; run repair"), 1, "fencepost catalog repair"),
        (KeyboardInterrupt(), 3, "interrupted"),
    ],
)
def test_the_line_for_a_lost_race_names_what_to_do(
    catalog: Run, graph: str, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, named: str
) -> None:
    def write(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Catalog, "write", write)
    exit_code, out, err = catalog("put", graph, "person=people.csv")
    assert (exit_code, out) == (code, "")
    assert named in err
    assert len(err.splitlines()) == 1


PLAN = "01J8ZQ4V9W6X7Y8Z9A0B1C2D3E"


@pytest.mark.parametrize(("plan", "base"), [("P", "2"), (PLAN[:-1], "2"), (PLAN, "3")])
def test_a_plan_or_base_that_cannot_be_is_not_settled(catalog: Run, graph: str, plan: str, base: str) -> None:
    """It would be reported as never published, and be repeated, though its commit stands."""
    code, out, err = catalog("settle", graph, plan, "--base", base)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


def test_the_line_for_an_unknown_commit_names_what_settles_it(
    catalog: Run, graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "write", lambda *_, **__: Unknown(PLAN, "silence", 2))
        code, out, err = catalog("put", graph, "person=people.csv")
    assert (code, out) == (3, "")
    assert f"settle {graph} {PLAN} --base 2 --branch main" in err
    assert result(catalog, "settle", graph, PLAN, "--base", "2")["state"] == "never"
    plan = result(catalog, "log", graph)["commits"][0]["plan"]
    assert result(catalog, "settle", graph, plan, "--base", "1")["state"] == "published"


def test_a_missing_library_is_one_line(catalog: Run, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = catalog("get", graph, "person")
    assert code == 2
    assert "pip install 'fencepost[catalog]'" in err


def test_unusual_values_round_trip(catalog: Run, graph: str) -> None:
    values = pa.table({"id": ["a", "b"], "f": [float("inf"), None], "x": [b"\xff", b""], "y": [True, None]})
    pq.write_table(values, "odd.parquet")
    assert catalog("put", graph, "odd=odd.parquet", "--key", "id")[0] == 0
    assert catalog("get", graph, "odd", "--out", "odd.jsonl")[0] == 0
    assert catalog("put", graph, "odd=odd.jsonl", "--mode", "overwrite")[0] == 0
    assert catalog("get", graph, "odd", "--out", "back.parquet")[0] == 0
    assert pq.read_table("back.parquet").to_pylist() == values.to_pylist()


def test_numbers_that_are_names_stay_text(catalog: Run, graph: str) -> None:
    Path("codes.csv").write_text("id,zip,n,f,b\na,007,1_0,1.5,true\nb,12,,2,false\n")
    assert catalog("put", graph, "codes=codes.csv", "--key", "id")[0] == 0
    found = result(catalog, "get", graph, "codes")
    assert found["columns"] == {"id": "string", "zip": "string", "n": "string", "f": "float64", "b": "bool"}


def test_the_result_counts_what_the_store_was_asked(
    catalog: Run, graph: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures that the cost tests hold are those that people see in production."""
    steps: list[int] = []

    class Counting(Layer):
        def send(self, request: Any) -> Any:
            steps.append(1)
            return self.inner.send(request)

        def send_all(self, requests: Any) -> Any:
            steps.append(len(requests))
            return self.inner.send_all(requests)

    monkeypatch.setattr("fencepost.impl.publish.catalog.open_store", lambda *of: Counting(open_store(*of)))
    Path("one.csv").write_text("id,name\n9,Zoe\n")
    for words in (("put", graph, "person=one.csv", "--author", "ann"), ("get", graph, "person")):
        steps.clear()
        found = result(catalog, *words)["storage"]
        assert (found["requests"], found["serial_hops"]) == (sum(steps), len(steps))
        assert (found["bytes_sent"] > 500) == (words[0] == "put")
        assert found["bytes_received"] > 500


def test_a_command_that_removes_takes_as_many_hops_as_one_that_adds(catalog: Run, url: str) -> None:
    """Six and the delete of its sidecar, of a table alone; one more where edges connect it with others, which
    the manifest names."""
    Path("one.csv").write_text("id,name\n1,Ada\n2,Bob\n3,Cyd\n")
    Path("more.csv").write_text("id,name\n4,Dan\n")
    Path("edges.csv").write_text("id,of\n1,1\n2,2\n")
    assert catalog("init", url)[0] == 0
    assert catalog("put", url, "alone=one.csv", "--key", "id")[0] == 0
    edge = ("--key", "id", "--edge", "points.of=person.id")
    assert catalog("put", url, "person=one.csv", "points=edges.csv", *edge)[0] == 0

    def hops(*words: str) -> int:
        return int(result(catalog, *words)["storage"]["serial_hops"])

    assert hops("put", url, "alone=more.csv") == 7
    assert hops("delete", url, "alone", "4") == 7
    assert hops("delete", url, "alone", "--where", "name=Cyd") == 7
    assert hops("constrain", url, "alone", "name") == 7
    assert hops("constrain", url, "alone", "name", "--drop") == 7
    assert hops("drop", url, "alone") <= 7
    assert hops("put", url, "points=edges.csv", "--mode", "upsert") == 8
    assert hops("delete", url, "points", "1") == 8
    assert hops("delete", url, "person", "3") == 8
    assert hops("delete", url, "person", "2", "--cascade") == 8
    assert hops("drop", url, "points") <= 8
    assert result(catalog, "verify", url)["verdict"] == "holds"


def test_writers_are_slowed_and_refused_while_cleanup_lags(catalog: Run, graph: str) -> None:
    Path("one.csv").write_text("id,name\n9,Zoe\n")
    put = ("put", graph, "person=one.csv", "--mode", "upsert")
    assert result(catalog, *put)["debt"] == {"manifests": 3, "plans": 0, "slowed_s": 0}
    code, _, err = catalog(*put, "--refuse-after", "3")
    assert code == 3
    assert err.count("\n") == 1
    assert "3 manifests of branch main" in err
    assert "fencepost catalog cleanup" in err
    code, _, err = catalog(*put, "--slow-after", "2")
    assert code == 0
    assert "slowed by 1 s: 4 manifests" in err
    assert catalog(*put, "--refuse-after", "0")[0] == 0
    assert catalog("cleanup", graph, "--keep", "1")[0] == 0
    assert result(catalog, *put, "--refuse-after", "3")["debt"]["manifests"] == 2
    assert catalog(*put, "--slow-after", "-1")[0] == 2


def test_maintenance_runs_once_for_all_that_is_to_be_done(catalog: Run, graph: str) -> None:
    Path("one.csv").write_text("id,name\n9,Zoe\n")
    for _ in range(3):
        assert catalog("put", graph, "person=one.csv", "--mode", "upsert")[0] == 0
    limits = ("--keep", "1", "--compact-from", "2", "--deletes", "1", "--tables", "1")
    found = result(catalog, "maintain", graph, "--once", *limits)
    assert found["compacted"] == ["main/person"]
    assert found["cleaned"]["manifests"] >= 4
    assert found["debts"] == {"main": {"manifests": 1, "plans": 0}}
    assert (found["lost"], found["more"]) == ([], False)
    assert found["storage"]["requests"] > 20
    code, out, _ = catalog("maintain", graph, "--once")
    assert (code, out) == (0, "deleted 0 manifests, 0 versions, 0 fragments\n")
    assert result(catalog, "verify", graph)["verdict"] == "holds"
    code, _, err = catalog("maintain", f"{graph[:8]}/nowhere/else", "--once")
    assert code == 2
    assert "there is no catalog" in err


@pytest.mark.parametrize("option", [("--grace", "0"), ("--stuck-after", "0.1")])
def test_a_killed_writer_holds_its_tables_while_others_are_patient(
    catalog: Run, graph: str, option: tuple[str, str]
) -> None:
    """A command waits for the writer in its way, and then goes on."""
    with open_store(graph) as store:
        dying = Scripted(store)
        writer = Catalog.open(dying, mode="join")
        dying.crash_before("put", "branch/main/manifest/")
        with pytest.raises(Crashed):
            writer.write(lambda txn: txn.upsert("person", [{"id": 1, "name": "dead"}]))
    Path("one.csv").write_text("id,name\n1,Ann\n")
    put = ("put", graph, "person=one.csv", "--mode", "upsert", "--author", "ann")
    code, _, err = catalog(*put, *option)
    assert code == 0, err
    assert result(catalog, "verify", graph)["verdict"] == "holds"
    rows = result(catalog, "get", graph, "person")["rows"]
    assert next(row for row in rows if row["id"] == 1)["name"] == "Ann"


def test_rows_are_removed_by_what_they_hold(catalog: Run, graph: str) -> None:
    Path("more.csv").write_text("id,name,born\n3,Cyd,1900\n4,,1950\n5,Eve,2000\n")
    assert catalog("put", graph, "person=more.csv", "--author", "ann")[0] == 0
    delete = ("delete", graph, "person", "--author", "ann")
    assert (
        catalog(*delete, "--where", "born>=1900", "--where", "name!=Eve")[1]
        == "published as manifest 4: removed 2\n"
    )
    assert [row["id"] for row in result(catalog, "get", graph, "person")["rows"]] == [1, 2, 5]
    assert catalog(*delete, "--where", "born>=1900", "--where", "name=Eve")[0] == 0
    assert [row["id"] for row in result(catalog, "get", graph, "person")["rows"]] == [1, 2]


def test_a_cascade_removes_the_edges_of_removed_rows(catalog: Run, graph: str) -> None:
    """Without it the rows are refused; with it no edge is left without its row."""
    delete = ("delete", graph, "person", "--where", "name=Bob", "--author", "ann")
    code, _, err = catalog(*delete)
    assert code == 2
    assert "points at it" in err
    assert len(result(catalog, "get", graph, "person")["rows"]) == 2
    found = result(catalog, *delete, "--cascade")
    assert found["removed_by_table"] == {"knows": 1, "person": 1}
    assert result(catalog, "verify", graph)["verdict"] == "holds"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "or --where CONDITION"),
        (("1", "--where", "id=1"), "or --where CONDITION"),
        (("--where", "born"), "is no condition"),
        (("--where", "age=1"), "there is no column 'age'; the table has id, name, born"),
        (("--where", "born=soon"), "the column is int64, and 'soon' is no such value"),
        (("--where", "born<"), "< needs a value"),
        (("--where", "born=1"), "no row of table person fits born=1; nothing was removed"),
    ],
)
def test_a_condition_that_removes_nothing_is_refused(
    catalog: Run, graph: str, words: tuple[str, ...], message: str
) -> None:
    code, _, err = catalog("delete", graph, "person", *words, "--author", "ann")
    assert code == 2
    assert message in err
    assert len(result(catalog, "log", graph)["commits"]) == 2


def test_a_constraint_is_declared_kept_and_dropped(catalog: Run, graph: str) -> None:
    constrain = ("constrain", graph, "person", "name", "--author", "ann")
    assert catalog(*constrain)[1] == "published as manifest 3: declared person(name) at most 1\n"
    Path("more.csv").write_text("id,name,born\n3,Ada,1900\n")
    code, out, err = catalog("put", graph, "person=more.csv", "--author", "ann")
    assert (code, out) == (2, "")
    assert (
        "table person: more than 1 row with name 'Ada'; constraint 'person(name) at most' forbids it" in err
    )
    (row,) = result(catalog, "get", graph, "_constraints")["rows"]
    assert (row["table"], row["columns"], row["at_most"]) == ("person", "name", 1)
    assert catalog(*constrain, "--drop")[1] == "published as manifest 4: dropped person(name) at most\n"
    assert catalog("put", graph, "person=more.csv", "--author", "ann")[0] == 0
    code, _, err = catalog(*constrain)
    assert code == 2
    assert "more than 1 row with name 'Ada'" in err
    assert catalog(*constrain, "--at-most", "2")[0] == 0
    code, _, err = catalog("constrain", graph, "person", "born", "--drop")
    assert code == 2
    assert err == "fencepost: there is no constraint 'person(born) at most'; nothing was removed\n"
    assert result(catalog, "verify", graph)["verdict"] == "holds"


def test_a_declared_cascade_needs_no_option(catalog: Run, graph: str) -> None:
    for column in ("a", "b"):
        assert catalog("constrain", graph, "knows", column, "--cascade")[0] == 0
    code, _, err = catalog("constrain", graph, "knows", "a", "b", "--cascade")
    assert code == 2
    assert "--cascade takes one column" in err
    code, _, err = catalog("constrain", graph, "person", "name", "--cascade")
    assert code == 2
    assert "the column is no edge" in err
    found = result(catalog, "delete", graph, "person", "2")
    assert found["published"] is True
    assert result(catalog, "get", graph, "knows")["rows"] == []
