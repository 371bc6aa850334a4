"""The server of a catalog over HTTP, and the client that has the calls of `Catalog`."""

import json
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.impl.environment import SeededEnvironment, SystemEnvironment
from fencepost.impl.http.limits import Limits
from fencepost.impl.http.tokens import Holder, Tokens, grants_file
from fencepost.impl.publish import (
    Catalog,
    Dangling,
    Draft,
    Invalid,
    Overdue,
    Pressure,
    Published,
    StaleView,
    StoreUnavailable,
    Unknown,
    verify,
)
from fencepost.impl.publish.service import app
from fencepost.impl.publish.service.client import open_served
from fencepost.impl.publish.service.committer import Committer
from fencepost.impl.store.memory import MemoryStore
from fencepost.impl.store.requests import ANYTHING

from .serving import Served, founded, order, serving

ROW = {"id": 1, "name": "a"}


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server that the tests share; each uses tables and requests of its own."""
    with serving(founded(20)) as server:
        yield server


def rows(store: MemoryStore, table: str) -> list[int]:
    with Catalog.open(store, mode="read") as reader:
        return [row["id"] for row in reader.snapshot().rows(table)]


def test_an_answered_commit_is_visible_to_every_reader() -> None:
    store = founded()
    with serving(store) as server:
        answer = server.post(order("r", "t0", ROW, author="ann", message="first"))
        assert answer.status_code == 200
        assert rows(store, "t0") == [1]
        assert answer.json() == {
            "request": "r",
            "branch": "main",
            "manifest": 4,
            "plan": answer.json()["plan"],
            "published": True,
        }
        assert server.post(order("r", "t0", ROW, author="ann", message="first")).json() == answer.json()
    with Catalog.open(store, mode="read") as reader:
        newest = next(iter(reader.log()))
        assert (newest.author, newest.message, newest.requests[0].id) == ("server", "ann: first", "r")


@pytest.mark.parametrize("count", [12, 100])
def test_all_writers_of_one_moment_commit(count: int) -> None:
    store = founded()
    with serving(store) as server, ThreadPoolExecutor(count) as pool:
        answers = list(
            pool.map(lambda n: server.post(order(f"r{n}", f"t{n % 3}", {"id": n, "name": "x"})), range(count))
        )
        figures = server.server.figures.to_json()
    assert {answer.status_code for answer in answers} == {200}
    assert sorted(id_ for n in range(3) for id_ in rows(store, f"t{n}")) == [*range(count)]
    assert figures["orders"] == count
    assert figures["commits"] < count / 2
    assert figures["repeats"] == 0


def test_two_servers_of_one_catalog_publish_each_request_once() -> None:
    """Every writer sends its change to both servers at the same moment."""
    store = founded()
    with serving(store) as one, serving(store) as two, ThreadPoolExecutor(24) as pool:

        def both(n: int) -> list[httpx.Response]:
            wanted = order(f"r{n}", "t0", {"id": n, "name": "x"})
            return list(pool.map(lambda server: server.post(wanted), (one, two)))

        with ThreadPoolExecutor(12) as writers:
            answers = list(writers.map(both, range(12)))
    for first, second in answers:
        assert first.status_code == second.status_code == 200
        assert first.json() == second.json(), "both name the one commit"
    assert rows(store, "t0") == [*range(12)]
    with Catalog.open(store, mode="read") as reader:
        ids = [one.id for manifest in reader.log() for one in manifest.requests]
        assert sorted(ids) == sorted({f"r{n}" for n in range(12)})
        assert verify(reader).faults == ()


@pytest.mark.parametrize(
    ("invalid", "status", "text"),
    [
        ({"request": "a b"}, 400, "request is a text"),
        ({"request": 7}, 400, "request is a text"),
        ({"since": -1}, 400, "since is the number"),
        ({"since": True}, 400, "since is the number"),
        ({"since": 999}, 422, "has no manifest 999"),
        ({"changes": []}, 400, "at least one change"),
        ({"changes": [{"table": "t0", "verb": "fly"}]}, 400, "known are"),
        ({"changes": [{"table": "*", "verb": "drop"}]}, 400, "name of a table"),
        ({"changes": [{"table": "t0", "verb": "append", "rows": [1]}]}, 400, "list of objects"),
        ({"changes": [{"table": "t0", "verb": "append", "rows": [{"id": [1]}]}]}, 400, "no value"),
        ({"changes": [{"table": "t0", "verb": "append", "rows": [{"id": {"bytes": "?"}}]}]}, 400, "base64"),
        ({"changes": [{"table": "t0", "verb": "drop", "rows": []}]}, 400, "does not have"),
        ({"changes": [{"table": "t0", "verb": "limit", "columns": ["id"], "at_most": 0}]}, 400, "at_most"),
        ({"changes": [{"table": "new", "verb": "create", "columns": [], "key": "id"}]}, 400, "columns is"),
        ({"changes": [{"table": "nowhere", "verb": "delete", "keys": [1]}]}, 422, "there is no table"),
        ({"changes": [{"table": "t0", "verb": "delete", "keys": [404]}]}, 422, "nothing to publish"),
        ({"snapshot": 0}, 400, "snapshot is"),
        ({"wait_s": 1e9}, 400, "wait_s is"),
        ({"message": "x" * 2001}, 400, "at most 2000"),
        ({"more": 1}, 400, "field 'more'"),
    ],
)
def test_an_invalid_order_is_one_clear_answer(
    served: Served, invalid: dict[str, Any], status: int, text: str
) -> None:
    answer = served.post({**order("invalid", "t0", ROW), **invalid})
    assert (answer.status_code, text in answer.json()["message"]) == (status, True), answer.text


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"since": NaN}', b"\xff", b"[" * 100_000, b'{"request": "\\ud800"}']
)
def test_a_body_that_is_no_order_is_refused(served: Served, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = served.client.post(f"{served.url}/v1/branches/main/commits", content=body, headers=headers)
    assert answer.status_code == 400


def test_a_branch_that_is_missing_or_misnamed_is_refused_and_not_kept(served: Served) -> None:
    for branch in ("nowhere", "a%2fb", "..%2fmain", "%00"):
        assert served.post(order("r", "t0", ROW), branch).status_code in (400, 404, 422)
    assert set(served.server._queues) <= {"main"}


@pytest.mark.parametrize(
    "path",
    [
        "objects/../secret",
        "objects/branch/../../etc/passwd",
        "objects/data/../../x",
        "objects/other/x",
        "objects//etc/passwd",
        "objects/branch/%2e%2e/x",
        "keys?prefix=",
        "keys?prefix=other/",
    ],
)
def test_only_objects_of_the_catalog_are_read(served: Served, path: str) -> None:
    served.server._setup.store.put("other/x", b"of somebody else", when=ANYTHING)
    assert served.client.get(f"{served.url}/v1/{path}").status_code in (400, 404)


def test_commits_beyond_the_bounds_wait_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-pressure: 429 to a client with too many, 503 when all are too many, both with Retry-After."""
    held, begun = threading.Event(), threading.Event()
    attempt = Committer.attempt

    def slowly(self: Committer, orders: Any) -> Any:
        begun.set()
        held.wait(60)
        return attempt(self, orders)

    monkeypatch.setattr(Committer, "attempt", slowly)
    for limits, status, kind in (
        (Limits(requests=2, client_requests=2), 503, "busy"),
        (Limits(requests=9, client_requests=2), 429, "too_many_requests"),
    ):
        held.clear()
        begun.clear()
        with serving(founded(), limits=limits) as server, ThreadPoolExecutor(2) as pool:
            inside = [pool.submit(server.post, order(f"r{n}", f"t{n}", ROW)) for n in range(2)]
            begun.wait(60)
            while server.server.gate.inside < 2:
                threading.Event().wait(0.001)
            answer = server.post(order("late", "t2", ROW))
            assert (answer.status_code, answer.json()["error"]) == (status, kind)
            assert answer.headers["retry-after"] == "1"
            large = order("large", "t2", {"id": 1, "name": "x" * 9_000_000})
            assert server.post(large).status_code == status, "refused before its body is read"
            held.set()
            assert [one.result().status_code for one in inside] == [200, 200]


def test_a_body_that_is_too_large_is_refused(served: Served) -> None:
    answer = served.post(order("large", "t0", {"id": 1, "name": "x" * 9_000_000}))
    assert answer.status_code == 413


def test_a_server_that_stops_finishes_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    held, begun = threading.Event(), threading.Event()
    attempt = Committer.attempt

    def slowly(self: Committer, orders: Any) -> Any:
        begun.set()
        held.wait(60)
        return attempt(self, orders)

    monkeypatch.setattr(Committer, "attempt", slowly)
    store = founded()
    with serving(store) as server, ThreadPoolExecutor(3) as pool:
        first = pool.submit(server.post, order("r0", "t0", ROW))
        begun.wait(60)
        second = pool.submit(server.post, order("r1", "t1", ROW))
        while server.server.gate.inside < 2:
            threading.Event().wait(0.001)
        server.stop()
        held.set()
        assert (first.result().status_code, second.result().status_code) == (200, 200)
    assert rows(store, "t1") == [1]


def test_an_order_without_an_end_in_time_is_undecided_and_may_be_sent_again() -> None:
    """A plan of another is in the way for longer than the order waits. The same request succeeds later."""
    from tests.impl.publish.scripted import Crashed, Scripted

    store = founded()
    dying = Scripted(store)
    dying.crash_before("put", "branch/main/manifest/")
    with pytest.raises(Crashed), Catalog.open(dying, mode="join") as dead:
        dead.write(lambda txn: txn.append("t0", [{"id": 9, "name": "dead"}]))
    with serving(store, stuck_after_s=0.2) as server:
        answer = server.post(order("r", "t0", ROW, wait_s=0))
        assert (answer.status_code, answer.json()["error"]) == (503, "undecided")
        assert answer.headers["retry-after"] == "1"
        assert server.post(order("r", "t0", ROW)).status_code == 200
    assert rows(store, "t0") in ([1], [1, 9])


def test_tokens_decide_who_writes_which_branch_and_who_reads(tmp_path: Path) -> None:
    env = SystemEnvironment()
    file = grants_file(tmp_path / "tokens.json", "fencepost catalog enrol")
    writer = file.enrol(Holder("ann", (("/main", frozenset({"append"})),)), env)
    reader = file.enrol(Holder("bob", (("/", frozenset({"read"})),)), env)
    store = founded()
    with Catalog.open(store, mode="join") as catalog:
        catalog.create_branch("dev")
    with serving(store, tokens=Tokens(file)) as server:
        path = f"{server.url}/v1/keys?prefix=data/"
        for token, branch, status in (
            ("", "main", 401),
            ("invalid", "main", 401),
            (reader, "main", 403),
            (writer, "dev", 403),
            (writer, "main", 200),
        ):
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = server.post(order("r", "t0", ROW, author="eve"), branch, **headers)
            assert answer.status_code == status, answer.text
        assert server.client.get(path).status_code == 401
        assert server.client.get(path, headers={"authorization": f"Bearer {writer}"}).status_code == 403
        with Catalog.open(server.url, mode="read", token=reader) as catalog:
            assert catalog.snapshot().rows("t0") == [ROW]
            assert next(iter(catalog.log())).message == "ann", "the token names the author"
        with pytest.raises(Invalid, match="give a token"):
            Catalog.open(server.url)


def test_metrics_count_requests_stages_and_groups(served: Served) -> None:
    before = {name: served.metric(f"{name}_total") for name in ("storage_ops", "storage_stages", "commits")}
    assert served.post(order("metered", "t19", ROW)).status_code == 200
    after = {name: served.metric(f"{name}_total") for name in before}
    grown = {name: after[name] - before[name] for name in before}
    assert grown["commits"] == 1
    assert grown["storage_stages"] >= 3
    assert grown["storage_ops"] >= 6
    text = served.client.get(f"{served.url}/metrics").text
    assert 'fencepost_catalog_groups_total{orders="1"}' in text
    assert "fencepost_catalog_commit_hops_total{hops=" in text


def test_a_server_refuses_while_cleanup_lags() -> None:
    """A request whose reply was lost gets its commit: an answer that nothing was published would be false."""
    store = founded()
    with Catalog.open(store, mode="join") as writer:
        for number in range(5):
            writer.write(lambda txn, at=number: txn.append("t0", [{"id": at, "name": ""}]))
    published = order("before", "t1", {"id": 7, "name": ""})
    with serving(store) as unlimited:
        before = unlimited.post(published).json()["manifest"]
    with serving(store, pressure=Pressure(0, 5)) as served, Catalog.open(served.url) as client:
        with pytest.raises(Overdue, match="wait for cleanup"):
            client.write(lambda txn: txn.append("t1", [{"id": 1, "name": ""}]))
        answer = served.post(order("a", "t1", {"id": 1, "name": ""}))
        assert (answer.status_code, answer.json()["error"]) == (409, "overdue")
        again = served.post(published)
        assert (again.status_code, again.json()["manifest"]) == (200, before)
        with Catalog.open(store, mode="join") as operator:
            operator.cleanup(keep=1)
        client.write(lambda txn: txn.append("t1", [{"id": 1, "name": ""}]))
        assert client.snapshot().get("t1", 1) is not None


def test_the_description_names_every_route_and_kind(served: Served) -> None:
    found = served.client.get(f"{served.url}/openapi.json").json()
    assert {"/v1/branches/{branch}/commits", "/v1/branches/{branch}", "/v1/objects/{key}", "/v1/keys"} <= set(
        found["paths"]
    )
    assert found["components"]["schemas"]["Refusal"]["properties"]["error"]["enum"] == list(
        app.CatalogRefusal.kinds
    )
    shown = served.client.get(f"{served.url}/v1/branches/main").json()
    assert shown["tables"]["t0"] == {"key": "id", "edges": {}}


# The client.


def test_a_client_has_the_calls_of_a_catalog(served: Served) -> None:
    with Catalog.open(served.url, author="ann") as catalog:
        ended = catalog.write(lambda txn: txn.append("t1", [ROW]), message="hello")
        assert isinstance(ended, Published)
        assert catalog.snapshot().rows("t1") == [ROW], "it reads its own write"
        assert catalog.snapshot().get("t1", 1) == ROW
        assert catalog.snapshot().scan("t1").arrow().num_rows == 1
        with catalog.transaction("more") as txn:
            txn.upsert("t1", [{"id": 2, "name": "b"}])
        assert isinstance(txn.result, Published)
        assert catalog.write(lambda txn: txn.delete_where("t1", lambda row: row["id"] == 2))
        assert [row["id"] for row in catalog.snapshot().rows("t1")] == [1]
        assert catalog.snapshot(ended.id).rows("t1") == [ROW]
        assert [one.message for one in catalog.log()][:2] == ["ann", "ann: more"]
        assert catalog.compact("t1").done
        assert catalog.settle(Unknown("never", "lost", ended.id)) == Unknown("never", "lost", ended.id)
        with pytest.raises(Invalid, match="has a row 1 already"):
            catalog.write(lambda txn: txn.append("t1", [ROW]))
        with pytest.raises(Invalid, match="open the store itself"):
            catalog.create_branch("dev")
        with pytest.raises(Invalid, match="open the store itself"):
            catalog.cleanup(keep=1)
    with Catalog.open(served.url, mode="read") as reader, pytest.raises(Invalid, match="opened for reading"):
        reader.publish(Draft())


def test_every_kind_of_change_and_value_crosses_the_wire(served: Served) -> None:
    columns = {"id": "string", "i": "int64", "f": "float64", "b": "bool", "x": "bytes", "to": "int64"}
    values = {"id": "k", "i": 2**63 - 1, "f": -math.inf, "b": True, "x": b"\x00\xff", "to": None}
    with Catalog.open(served.url) as catalog:
        with catalog.transaction() as txn:
            txn.create_table("wide", columns, key="id")
            txn.append("wide", [values, {**values, "id": "n", "f": math.nan, "x": None}])
            txn.add_edge("wide", "to", "t2")
            txn.add_column("wide", "late", "string")
            txn.limit("wide", ["late"], 2)
        found = catalog.snapshot().rows("wide")
        assert found[0] == {**values, "late": None}
        assert math.isnan(found[1]["f"])
        with pytest.raises(Dangling) as caught:
            catalog.write(lambda txn: txn.upsert("wide", [{**values, "to": 5}]))
        assert (caught.value.table, caught.value.column, caught.value.value) == ("wide", "to", 5)
        with catalog.transaction() as txn:
            txn.drop_edge("wide", "to")
            txn.drop_constraint("wide(late) at most")
            txn.drop_column("wide", "late")
            txn.overwrite("wide", [values])
            txn.delete("wide", ["k"])
        assert catalog.snapshot().rows("wide") == []
        catalog.write(lambda txn: txn.drop_table("wide"))
        assert "wide" not in catalog.snapshot().tables


def test_a_change_that_has_read_begins_again_when_that_was_changed(served: Served) -> None:
    with Catalog.open(served.url) as one, Catalog.open(served.url) as two:
        one.write(lambda txn: txn.append("t3", [{"id": 1, "name": ""}]))
        two.refresh()
        old = two.draft()
        old.upsert("t3", [{"id": 1, "name": old.read("t3")[0]["name"] + "late"}])

        def longer(txn: Any) -> None:
            txn.upsert("t3", [{"id": 1, "name": txn.read("t3")[0]["name"] + "+"}])

        for _ in range(3):
            one.write(longer)
        with pytest.raises(StaleView):
            two.publish(old)
        two.write(longer)
        assert two.snapshot().get("t3", 1) == {"id": 1, "name": "++++"}


class Losing(httpx.BaseTransport):
    """Loses the answers to the first commits, or the requests themselves, or answers for the server."""

    def __init__(self, lose: list[Callable[[httpx.Request, httpx.BaseTransport], httpx.Response]]) -> None:
        self.inner = httpx.HTTPTransport()
        self.lose = lose

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST" and self.lose:
            return self.lose.pop(0)(request, self.inner)
        return self.inner.handle_request(request)

    def close(self) -> None:
        self.inner.close()


def reply_lost(request: httpx.Request, inner: httpx.BaseTransport) -> httpx.Response:
    assert inner.handle_request(request).status_code == 200
    raise httpx.ReadTimeout("lost", request=request)


def request_lost(request: httpx.Request, inner: httpx.BaseTransport) -> httpx.Response:
    raise httpx.ReadError("lost", request=request)


def busy(request: httpx.Request, inner: httpx.BaseTransport) -> httpx.Response:
    return httpx.Response(503, headers={"retry-after": "7"}, json={"error": "busy", "message": "full"})


def test_a_lost_reply_and_a_retry_do_not_commit_twice() -> None:
    store = founded()
    env = SeededEnvironment(1)
    with serving(store) as server:
        client = httpx.Client(transport=Losing([reply_lost, request_lost, busy, reply_lost]))
        began = env.monotonic_ns()
        with open_served(server.url, env=env, client=client) as catalog:
            assert isinstance(catalog.write(lambda txn: txn.append("t0", [ROW])), Published)
        assert env.monotonic_ns() - began >= 7e9, "Retry-After was honoured"
    assert rows(store, "t0") == [1]
    with Catalog.open(store, mode="read") as reader:
        assert sum(len(manifest.requests) for manifest in reader.log()) == 1


def test_a_client_whose_server_dies_goes_on_at_another_one_and_then_alone(tmp_path: Path) -> None:
    """The last place is the store itself. The change that was sent before the death is not repeated."""
    url = f"file://{tmp_path}/shop?linger_ms=0"
    with Catalog.open(url, create=True) as catalog, catalog.transaction() as txn:
        txn.create_table("t0", {"id": "int64", "name": "string"}, key="id")
    store = catalog.context.store
    env = SeededEnvironment(1)
    with serving(store) as two:
        with serving(store) as one:
            client = httpx.Client(transport=Losing([]))
            catalog = open_served([one.url, two.url, url], env=env, client=client, author="ann")
            catalog.write(lambda txn: txn.append("t0", [{"id": 1, "name": "one"}]))
        catalog.write(lambda txn: txn.append("t0", [{"id": 2, "name": "two"}]))
        assert two.server.figures.to_json()["orders"] == 1
        draft = Draft()
        draft.append("t0", [{"id": 3, "name": "three"}])
        first = catalog.publish(draft)
    again = catalog.publish(draft)
    assert isinstance(again, Published)
    assert again.id == first.id, "its own handle finds what the server committed"
    catalog.write(lambda txn: txn.append("t0", [{"id": 4, "name": "alone"}]))
    assert [row["id"] for row in catalog.snapshot().rows("t0")] == [1, 2, 3, 4]
    catalog.close()


def test_without_any_server_nothing_was_published_and_the_error_says_so(served: Served) -> None:
    env = SeededEnvironment(1)
    with open_served(served.url, env=env, wait_s=1.0) as catalog:
        catalog._servers[0].url = "http://127.0.0.1:9"
        with pytest.raises(StoreUnavailable, match="nothing was published"):
            catalog.write(lambda txn: txn.append("t4", [ROW]))


def test_an_answer_that_never_comes_is_unknown_and_can_be_settled(served: Served) -> None:
    env = SeededEnvironment(1)
    client = httpx.Client(transport=Losing([reply_lost, *[request_lost] * 1000]))
    with open_served(served.url, env=env, wait_s=1.0, client=client) as catalog:
        ended = catalog.write(lambda txn: txn.append("t5", [ROW]))
        assert isinstance(ended, Unknown)
        assert isinstance(catalog.settle(ended), Published)


@pytest.mark.parametrize(
    "url", ["http://", "http://u:p@127.0.0.1:1", "http://127.0.0.1:1?x=1", "http://[", ""]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="address of a server") as caught:
        Catalog.open([url] if url else [])
    assert "u:p" not in str(caught.value)


def test_no_secret_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = grants_file(tmp_path / "tokens.json", "fencepost catalog enrol")
    token = file.enrol(Holder("ann", (("/", frozenset({"read", "append"})),)), SystemEnvironment())
    caplog.set_level("DEBUG")
    with serving(founded(), tokens=Tokens(file)) as server, Catalog.open(server.url, token=token) as catalog:
        catalog.write(lambda txn: txn.append("t0", [ROW]))
    assert token not in caplog.text
    assert json.dumps(token) not in json.dumps(server.server.figures.to_json())
