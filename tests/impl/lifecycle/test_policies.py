"""Rules that are put: where they are kept, and that a put looks at no object, however many there are."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.impl.context import Context
from fencepost.impl.environment import SystemEnvironment
from fencepost.impl.lifecycle.documents import Documents
from fencepost.impl.lifecycle.opening import RETRY
from fencepost.impl.lifecycle.policies import (
    DirectoryPolicies,
    EndpointPolicies,
    Policies,
    Refusal,
    format_configuration,
    parse_configuration,
    without_transitions,
)
from fencepost.impl.objects.buckets import Buckets
from fencepost.impl.store.memory import MemoryStore

BUCKET = "logs"
RULE: dict[str, Any] = {"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    found = Buckets(str(tmp_path))
    found.create(BUCKET)
    yield found
    found.close()


def on_an_endpoint() -> EndpointPolicies:
    env = SystemEnvironment()
    return EndpointPolicies(Documents(Context(MemoryStore(env=env), env, retry=RETRY)), BUCKET)


@pytest.mark.parametrize("make", [DirectoryPolicies, lambda _: on_an_endpoint()])
def test_rules_come_back_and_can_be_removed(make: Callable[[Buckets], Policies], buckets: Buckets) -> None:
    policies = make(buckets)
    assert policies.get(BUCKET) == []
    policies.put(BUCKET, [RULE])
    assert policies.get(BUCKET) == [RULE]
    with pytest.raises(Refusal, match="positive integer"):
        policies.put(BUCKET, [{**RULE, "Expiration": {"Days": 0}}])
    assert policies.get(BUCKET) == [RULE]
    policies.put(BUCKET, [])
    assert policies.get(BUCKET) == []
    with pytest.raises(Refusal, match="NoSuchBucket"):
        policies.put("another-bucket", [RULE])


def test_a_put_looks_at_no_object(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it costs the same for every bucket."""
    monkeypatch.setattr(buckets, "store", lambda _: pytest.fail("the objects were opened"))
    monkeypatch.setattr(buckets, "index", None)
    monkeypatch.setattr(buckets, "log", None)
    DirectoryPolicies(buckets).put(BUCKET, [RULE])


def test_a_put_through_the_server_is_noticed(buckets: Buckets) -> None:
    before = DirectoryPolicies(buckets).revision()
    other = Buckets(buckets.root)
    DirectoryPolicies(other).put(BUCKET, [RULE])
    other.close()
    assert DirectoryPolicies(buckets).revision() != before


def test_a_date_comes_back_from_json() -> None:
    date = '{"Rules": [{"Status": "Enabled", "Filter": {}, "Expiration": {"Date": "2030-01-01"}}]}'
    rules = parse_configuration(date.encode())
    assert parse_configuration(str(format_configuration(rules)).replace("'", '"').encode()) == rules


def test_transitions_are_left_out_and_named() -> None:
    """Rules of a bucket elsewhere have them; what deletes is not lost with them."""
    moves = {"Transitions": [{"Days": 30, "StorageClass": "GLACIER"}]}
    both = {"ID": "both", "Status": "Enabled", "Prefix": "a/", "Expiration": {"Days": 90}, **moves}
    only = {"Status": "Enabled", "Prefix": "b/", **moves}
    kept, unsupported = without_transitions([both, only])
    assert kept == [{"ID": "both", "Status": "Enabled", "Prefix": "a/", "Expiration": {"Days": 90}}]
    assert unsupported == ["both: Transitions", "rule 2: Transitions"]
    plain = [{"Status": "Enabled", "Prefix": "", "Expiration": {"Days": 1}}]
    assert without_transitions(plain) == (plain, [])
