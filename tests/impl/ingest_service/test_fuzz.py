"""The collector against its own OpenAPI document: it accepts what the document allows, and refuses the rest.

schemathesis makes requests that fit the document and requests that do not; after each the answer is compared
with the document (status, content type, schema, authentication), and the store must have accepted nothing:
none of these bodies is a frame.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.tokens import Principal, Tokens
from fencepost.impl.ingest import Authority, keys
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.service.acceptance import KIND_OF, judge
from fencepost.impl.ingest.service.app import Plan, collecting
from fencepost.impl.ingest.service.openapi import document
from fencepost.impl.ingest.service.requests import KINDS, token_file
from fencepost.impl.store.memory import MemoryStore

from .serving import ENV, QUICK, batch, frame, listing

TOKENS: dict[str, str] = {}
STORE = MemoryStore()


BEYOND_SCHEMAS = {
    "bad_identity",
    "bad_sequence",
    "bad_frame",
    "foreign_agent",
    "no_such_conflict",
    "bad_request",
}
"""Why a request that fits may be refused: names and notes must be printable, a range must rise, a body must
be a frame, a token must fit the agent. A schema cannot say that, so schemathesis' own check is left out."""

PATHS = document(Limits())["paths"]
OPERATIONS = [
    (method.upper(), path, mode)
    for path, methods in PATHS.items()
    for method, operation in methods.items()
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE or "parameters" in operation or "requestBody" in operation
]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = token_file(tmp_path_factory.mktemp("fuzz") / "tokens.json")
    TOKENS["agent"] = file.enrol(Principal("agent", "agent-a"), ENV)
    TOKENS["operator"] = file.enrol(Principal("operator", "ops"), ENV)
    TOKENS["reader"] = file.enrol(Principal("reader", "dashboard"), ENV)
    authority = Authority(STORE, ENV, "another", QUICK)
    authority.accept(batch(), frame())
    authority.accept(batch(), frame(value=2.0))  # a conflict, so that there is one to list
    with collecting(Plan(STORE, ENV, Tokens(file), "collector-1", QUICK)) as collector:
        yield schemathesis.openapi.from_asgi("/openapi.json", collector)


@pytest.mark.parametrize(("method", "path", "mode"), OPERATIONS)
def test_the_document_is_true(schema: Any, method: str, path: str, mode: GenerationMode) -> None:
    operation = schema[path][method]
    (need,) = operation.definition.raw.get("security", [{}])
    headers = {"Authorization": "".join(f"Bearer {TOKENS[role]}" for role in need)}

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def attack(case: Any) -> None:
        before = accepted()
        answer = case.call(headers=headers)
        sent = parse_qs(urlsplit(answer.request.url).query, keep_blank_values=True)
        assume(set(sent) == set(case.query or ()))  # an empty list is not sent, and what is left may be valid
        case.validate_response(answer, headers=headers, excluded_checks=[positive_data_acceptance])
        if mode is GenerationMode.POSITIVE and answer.status_code != 200:
            assert answer.json()["error"] in BEYOND_SCHEMAS
        assert accepted() == before

    attack()


def test_the_response_to_an_accepted_batch_matches_the_document(schema: Any) -> None:
    """No generated body is a frame, so the fuzzer never sees this response."""
    answer = judge(
        Authority(STORE, ENV, "another", QUICK), Blocklist(STORE, ENV), "agent-a", batch(), frame(), print
    )
    assert answer.body is not None
    known = schema.raw_schema["components"]["schemas"]["Accepted"]
    assert list(answer.body) == list(known["properties"]) == known["required"]


def test_every_reason_to_refuse_a_batch_is_in_the_document() -> None:
    answers = PATHS["/v1/batches"]["post"]["responses"]
    for kind in (*KIND_OF.values(), "identity_conflict", "store_unavailable", "too_many_requests"):
        assert f"{kind}: {KINDS[kind].summary}" in answers[str(KINDS[kind].status)]["description"]


def accepted() -> set[str]:
    return {key for key in listing(STORE) if key.startswith((keys.ACCEPTED, keys.RAW, keys.QUARANTINE))}
