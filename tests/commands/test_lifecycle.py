"""`fencepost lifecycle`: rules in, objects gone, and what an operator sees and does."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle.blockers import Blockers, Count, Item
from fencepost.impl.lifecycle.opening import each_endpoint, open_lifecycle
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.store.requests import ANYTHING

from .running import Run

if TYPE_CHECKING:
    from tests.servers.moto_here import Here

SCHEMA = Path(__file__).parent.parent.parent / "docs/reference/schemas/lifecycle-status.json"
RULES: dict[str, Any] = {
    "Rules": [
        {
            "ID": "tmp",
            "Status": "Enabled",
            "Filter": {"Prefix": "tmp/"},
            "Expiration": {"Days": 1},
        }
    ]
}
XML = """<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><ID>tmp</ID>
<Filter><Prefix>tmp/</Prefix></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>
</LifecycleConfiguration>"""
AT_ONCE = ("--day", "1e-6", "--near", "1e-6", "--lookback", "1e-6")
"""Days so short that everything is due."""
DAY = "lifecycle/v1/day.json"
"""Without it, the next worker sets the length of a day."""
BUCKET = "logs"


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps(RULES))
    return str(path)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A directory of objects with one bucket, two of whose three objects match the rules."""
    buckets = Buckets(str(tmp_path / "objects"))
    buckets.create(BUCKET)
    for key in ("keep", "tmp/1", "tmp/2"):
        buckets.store(BUCKET).put(key, b"x", when=ANYTHING)
    buckets.close()
    return buckets.root


def block(store: str, key: str = "tmp/1") -> str:
    with open_lifecycle(store, SystemEnvironment()) as opened:
        blockers = Blockers(opened.context)
        blockers.block(f"walk/{BUCKET}", Item(key, BUCKET, key), "a broken disk", Count(5, 5, 1), 2)
        return blockers.every()[0].id


def found(ran: Run, *words: str) -> tuple[int, Any]:
    code, out, _ = ran("lifecycle", *words, "--json", "-")
    return code, json.loads(out)


def objects(store: str) -> list[str]:
    buckets = Buckets(store)
    listed = [key for key, _ in buckets.store(BUCKET).walk()]
    buckets.close()
    return sorted(listed)


def test_a_day_of_another_length_is_refused(ran: Run, store: str, rules: str) -> None:
    found(ran, "put", store, rules, "--bucket", BUCKET)
    assert found(ran, "run", store, "--once")[0] == 0
    for words in (("run", store, "--once"), ("scan", store)):
        code, _, error = ran("lifecycle", *words, *AT_ONCE)
        assert code == 2
        assert error.strip() == "fencepost: a day has 86400 seconds here, not 1e-06; give --day 86400"
    assert objects(store) == ["keep", "tmp/1", "tmp/2"]


def test_what_is_due_goes_and_the_rest_stays(ran: Run, store: str, rules: str) -> None:
    assert found(ran, "put", store, rules, "--bucket", BUCKET)[1]["rules"] == 1
    code, done = found(ran, "run", store, "--once", *AT_ONCE)
    assert (code, done["expired"]) == (0, {"expiration-days": 2})
    assert objects(store) == ["keep"]
    code, shown = found(ran, "status", store, *AT_ONCE)
    assert code == 0
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(shown)
    (action,) = shown["buckets"][0]["actions"]
    assert (action["mode"], action["reason"], action["rule"]) == ("event_driven", "NONE", "tmp")
    assert {one["key"] for one in shown["cursors"]} == {*action["cursors"]}
    assert "event_driven" in ran("lifecycle", "status", store)[1]


def test_a_scan_of_one_bucket_walks_no_other(ran: Run, store: str, rules: str) -> None:
    buckets = Buckets(store)
    buckets.create("other")
    buckets.store("other").put("tmp/1", b"x", when=ANYTHING)
    buckets.close()
    for name in (BUCKET, "other"):
        ran("lifecycle", "put", store, rules, "--bucket", name)
    found(ran, "run", store, "--once")

    def walked() -> dict[str, int]:
        return {one["name"]: one["walked_ns"] for one in found(ran, "status", store)[1]["buckets"]}

    before = walked()
    assert found(ran, "scan", store, "--bucket", "other")[0] == 0
    after = walked()
    assert after[BUCKET] == before[BUCKET]
    assert after["other"] > before["other"]


def test_an_operator_chooses_when_walks_begin(ran: Run, store: str, rules: str) -> None:
    ran("lifecycle", "put", store, rules, "--bucket", BUCKET)
    action = found(ran, "status", store)[1]["buckets"][0]["actions"][0]["action"]
    words = ("cadence", store, "--bucket", BUCKET, "--action", action)
    code, out, _ = ran("lifecycle", *words, "--every", "7200", "--hours", "22-2")
    assert (code, out.strip()) == (0, f"walks of {BUCKET} begin every 7200 s, in the hours 22-2, UTC")
    (shown,) = found(ran, "status", store)[1]["buckets"][0]["actions"]
    assert (shown["walk_every_s"], shown["walk_hours"]) == (7200, [22, 23, 0, 1])
    assert (
        f"tmp: {action} is walked every 7200 s, in the hours 22 23 0 1, UTC"
        in ran("lifecycle", "status", store)[1]
    )
    assert found(ran, *words)[1]["changed"]
    assert found(ran, "status", store)[1]["buckets"][0]["actions"][0]["walk_every_s"] == 7 * 86_400
    for refused in (("--every", "0"), ("--hours", "25-3"), ("--action", "nonsense")):
        assert ran("lifecycle", "cadence", store, "--bucket", BUCKET, *refused)[0] == 2
    assert ran("lifecycle", "cadence", store, "--every", "5")[2].count("--bucket") == 1


def test_a_put_names_the_actions_that_the_log_is_too_short_for(ran: Run, store: str, rules: str) -> None:
    assert found(ran, "put", store, rules, "--bucket", BUCKET)[1]["left_to_walks"] == []
    buckets = Buckets(store)
    buckets.log.keep(3600 * 10**9)
    buckets.close()
    code, out, error = ran("lifecycle", "put", store, rules, "--bucket", BUCKET, "--json", "-")
    result = json.loads(out)
    assert (code, result["left_to_walks"]) == (0, result["actions"])
    assert "keeps events for less time than it needs" in error


def test_a_scan_is_made_at_once(ran: Run, store: str, rules: str) -> None:
    ran("lifecycle", "put", store, rules, "--bucket", BUCKET)
    found(ran, "run", store, "--once")
    assert objects(store) == ["keep", "tmp/1", "tmp/2"]
    Path(store, ".objects", DAY).unlink()
    code, done = found(ran, "scan", store, *AT_ONCE)
    assert (code, done["expired"]) == (0, {"expiration-days": 2})


def test_rules_in_xml_and_json_are_the_same(
    ran: Run, store: str, tmp_path: Path, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rules.xml"
    path.write_text(XML)
    assert ran("lifecycle", "put", store, str(path), "--bucket", BUCKET)[0] == 0
    assert json.loads(ran("lifecycle", "get", store, "--bucket", BUCKET)[1]) == RULES
    assert ran("lifecycle", "put", store, "--remove", "--bucket", BUCKET)[0] == 0
    assert json.loads(ran("lifecycle", "get", store, "--bucket", BUCKET)[1]) == {"Rules": []}
    with Path(rules).open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert ran("lifecycle", "put", store, "-", "--bucket", BUCKET)[0] == 0
    assert json.loads(ran("lifecycle", "get", store, "--bucket", BUCKET)[1]) == RULES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Expiration": {"Days": 0}}, "InvalidArgument: 'Days' for Expiration action must be a positive"),
        ({"Expiration": {}}, "MalformedXML"),
        ({"Status": "On"}, "MalformedXML"),
        ({"Expiration": {"Days": "1"}}, "MalformedXML: Days is '1', which is no integer"),
        ({"Expires": 1}, "MalformedXML: Rules has Expires, which is unknown"),
        ({"Expiration": {"Date": "2026-01-01T01:00:00Z"}}, "'Date' must be at midnight GMT"),
    ],
)
def test_rules_are_refused_as_s3_refuses_them(
    change: dict[str, Any], message: str, ran: Run, store: str, tmp_path: Path
) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"Rules": [{**RULES["Rules"][0], **change}]}))
    code, _, error = ran("lifecycle", "put", store, str(path), "--bucket", BUCKET)
    assert code == 2
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("status", "{missing}"), "is no directory of objects"),
        (("status", "memory://"), "neither a directory nor s3://"),
        (("status", "s3://bucket/prefix"), "names a prefix"),
        (("status", "{store}", "--state-store", "file:///tmp/x"), "--state-store is for s3"),
        (("get", "{store}"), "name one: --bucket NAME"),
        (("get", "{store}", "--bucket", "other-bucket"), "NoSuchBucket"),
        (("put", "{store}", "--bucket", BUCKET), "name a FILE with rules"),
        (("put", "{store}", "{missing}", "--bucket", BUCKET), "cannot read"),
        (("put", "{store}", "--own", "--bucket", BUCKET), "has no rules of its own"),
        (("reseed", "{store}"), "no such action is left to scans"),
        (("retry", "{store}", "abc"), "there is no blocker abc"),
        (("quarantine", "{store}", "abc", "--reason", "x"), "there is no blocker abc"),
        (("pause", "{store}", "--reason", ""), "give a reason"),
        (("pause", "{store}", "--reason", "x", "--action", "ab/abort-mpu"), "--action needs --bucket"),
        (("resume", "{store}", "--bucket", BUCKET, "--action", "ab/x"), "is no action"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: tuple[str, ...], message: str, ran: Run, store: str, tmp_path: Path
) -> None:
    places = {"store": store, "missing": str(tmp_path / "nothing")}
    code, _, error = ran("lifecycle", *(word.format(**places) for word in words))
    assert (code, len(error.splitlines())) == (2, 1)
    assert message in error


def test_a_blocker_is_shown_and_holds_up_the_walk(ran: Run, store: str, rules: str) -> None:
    ran("lifecycle", "put", store, rules, "--bucket", BUCKET)
    blocker = block(store)
    assert found(ran, "blockers", store) == (1, {"blockers": [shown_blocker(blocker)]})
    assert found(ran, "run", store, "--once", *AT_ONCE)[0] == 1
    code, done = found(ran, "scan", store, *AT_ONCE)
    assert (code, done["unfinished"]) == (3, [BUCKET])
    code, shown = found(ran, "status", store)
    assert (code, shown["buckets"][0]["blockers"]) == (1, [blocker])
    assert objects(store) == ["keep", "tmp/1", "tmp/2"]
    assert found(ran, "resume", store, blocker) == (0, {"blocker": blocker, "resumed": True})
    assert found(ran, "run", store, "--once", *AT_ONCE)[1]["expired"] == {"expiration-days": 2}


def shown_blocker(blocker: str) -> dict[str, Any]:
    return {
        "id": blocker, "stream": "bootstrap", "key": f"walk/{BUCKET}", "item": "tmp/1", "bucket": BUCKET,
        "object": "tmp/1", "reason": "a broken disk", "tries": 5, "first_ns": 1, "last_ns": 2,
    }  # fmt: skip


def test_a_blocked_item_is_retried_or_given_up(ran: Run, store: str, rules: str) -> None:
    ran("lifecycle", "put", store, rules, "--bucket", BUCKET)
    assert found(ran, "retry", store, block(store), *AT_ONCE)[1]["outcome"] == "resolved"
    assert objects(store) == ["keep", "tmp/2"]
    given_up = found(ran, "quarantine", store, block(store, "tmp/2"), "--reason", "lost")
    assert (given_up[0], given_up[1]["object"]) == (0, "tmp/2")
    code, shown = found(ran, "status", store)
    assert (code, shown["quarantined"]) == (0, 1)


def test_a_pause_ends_with_resume(ran: Run, store: str, rules: str) -> None:
    ran("lifecycle", "put", store, rules, "--bucket", BUCKET)
    action = found(ran, "status", store)[1]["buckets"][0]["actions"][0]["action"]
    words = ("--bucket", BUCKET, "--action", action)
    assert found(ran, "pause", store, "--reason", "migration", *words)[0] == 0
    shown = found(ran, "status", store)[1]["buckets"][0]["actions"][0]
    assert (shown["reason"], shown["paused_for"]) == ("OPERATOR_PAUSED", "migration")
    assert found(ran, "run", store, "--once", *AT_ONCE)[1]["expired"] == {}
    assert found(ran, "resume", store, *words) == (0, {"resumed": True})
    assert found(ran, "resume", store, *words) == (0, {"resumed": False})
    assert found(ran, "run", store, "--once", *AT_ONCE)[1]["expired"] == {"expiration-days": 2}


def test_nothing_is_scanned_while_all_are_paused(ran: Run, store: str, rules: str) -> None:
    ran("lifecycle", "put", store, rules, "--bucket", BUCKET)
    assert found(ran, "pause", store, "--reason", "migration")[0] == 0
    code, _, error = ran("lifecycle", "scan", store, *AT_ONCE)
    assert (code, "everything is paused (migration)" in error) == (2, True)
    assert objects(store) == ["keep", "tmp/1", "tmp/2"]
    assert found(ran, "resume", store)[0] == 0
    assert found(ran, "scan", store, *AT_ONCE)[1]["expired"] == {"expiration-days": 2}


def test_an_endpoint_is_walked(ran: Run, honest_moto: "Here", rules: str) -> None:
    url = honest_moto.bucket()
    bucket, client = url.removeprefix("s3://").partition("?")[0], honest_moto.client()
    for key in ("keep", "tmp/1"):
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert "has no rules of its own" in ran("lifecycle", "put", url, "--own")[2]
    client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=RULES)
    assert found(ran, "put", url, "--own")[1]["bucket"] == bucket
    assert found(ran, "get", url)[1]["Rules"] == RULES["Rules"]
    code, shown = found(ran, "status", url)
    assert (code, shown["has_log"], shown["buckets"][0]["actions"][0]["mode"]) == (0, False, "scan_only")
    assert found(ran, "run", url, "--once")[1]["expired"] == {}
    _pass_a_second()
    client.delete_object(Bucket=bucket, Key=DAY)
    assert found(ran, "scan", url, *AT_ONCE)[1]["expired"] == {"expiration-days": 1}
    left = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert [key for key in left if not key.startswith("lifecycle/v1/")] == ["keep"]


def test_requests_go_to_the_endpoints_that_answer(ran: Run, honest_moto: "Here", rules: str) -> None:
    """Of two one is down: of the first two looks one fails, and nothing is lost."""
    one = honest_moto.bucket()
    bucket, client = one.removeprefix("s3://").partition("?")[0], honest_moto.client()
    url = f"s3://{bucket}?endpoint=http://127.0.0.1:1&{one.partition('?')[2]}"
    assert len(each_endpoint(url)) == 2
    for number in range(4):
        client.put_object(Bucket=bucket, Key=f"tmp/{number}", Body=b"x")
    assert found(ran, "put", url, rules)[0] == 0
    _pass_a_second()
    assert found(ran, "scan", url, *AT_ONCE)[1]["expired"] == {"expiration-days": 4}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b?endpoint=http://a:1", ["s3://b?endpoint=http://a:1"]),
        ("s3://b", ["s3://b"]),
        (
            "s3://b?endpoint=http://a:1&region=r&endpoint=http://c:2",
            ["s3://b?endpoint=http://a:1&region=r", "s3://b?endpoint=http://c:2&region=r"],
        ),
    ],
)
def test_a_url_may_name_several_endpoints(url: str, expected: list[str]) -> None:
    assert each_endpoint(url) == expected


def _pass_a_second() -> None:
    """A store shows whole seconds, so an object is due a second later at most."""
    SystemEnvironment().sleep(1.1)


# Sources of events.


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--events", "sqs://q"), "is no source of its own name"),
        (("--events", "a=ftp://q"), "is no queue"),
        (("--events", "a=sqs://q/path"), "is no queue"),
        (("--events", "a=sqs://q", "--events", "a=sqs://r"), "is no source of its own name"),
        (("--events", "../a=sqs://q"), "is no source of its own name"),
        (("--events", "a=http"), "go together"),
        (("--receive", "127.0.0.1:0"), "go together"),
        (("--events", "a=http", "--receive", "127.0.0.1:0"), "go together"),
    ],
)
def test_a_source_that_makes_no_sense_is_one_line(words: tuple[str, ...], line: str, ran: Run) -> None:
    code, _, err = ran("lifecycle", "run", "s3://b-one?endpoint=http://127.0.0.1:1", "--once", *words)
    assert (code, line in err) == (2, True)
    assert "Traceback" not in err


def test_a_directory_has_its_own_log(tmp_path: Path, ran: Run) -> None:
    code, _, err = ran("lifecycle", "run", str(tmp_path), "--once", "--events", "a=sqs://q")
    assert (code, "a directory has its own log" in err) == (2, True)
