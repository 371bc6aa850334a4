"""Strict parsing of requests: the sender, the batch they name, and JSON bodies; and the kinds of refusal.

`fencepost.impl.http.refusals` explains the table. An agent deletes a batch on 200 alone; what it does
otherwise is in the column `then`.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from fencepost.impl.http import refusals
from fencepost.impl.http.numbers import whole_number
from fencepost.impl.http.refusals import Kind
from fencepost.impl.http.tokens import Headers, Principal, Roles, TokenFile, Tokens
from fencepost.impl.ingest.errors import IdentityError
from fencepost.impl.ingest.keys import SEQ_MAX, Identity, agent_path, boot_path

KINDS: Mapping[str, Kind] = {
    **refusals.COMMON,
    "bad_identity": Kind(400, "park", "The identity is missing, repeated, or not well formed."),
    "bad_frame": Kind(400, "park", "The body is not a whole frame."),
    "foreign_agent": Kind(403, "stop", "The token belongs to another agent, or not to an agent."),
    "not_operator": Kind(403, "stop", "The token does not belong to an operator."),
    "not_reader": Kind(403, "stop", "The token does not belong to a reader or an operator."),
    "quarantined": Kind(403, "park", "An operator has quarantined this agent or boot."),
    "no_such_conflict": Kind(404, "stop", "There is no conflict about this identity."),
    "backlog": Kind(503, "retry", "Too many accepted batches wait on the disk of this collector."),
    "identity_conflict": Kind(409, "park", "Other bytes were accepted under this identity."),
    "bad_sequence": Kind(422, "park", "The sequence range is impossible."),
    "mismatch": Kind(422, "park", "The frame names another identity than the request."),
}


class Refusal(refusals.Refusal):
    kinds = KINDS


BINARY = "application/octet-stream"
IDENTITY = ("agent_id", "boot_id", "seq_start", "seq_end")
IDENTITY_TYPES = {"agent_id": str, "boot_id": str, "seq_start": int, "seq_end": int}
NOTE_MAX = 1000
ROLES = ("agent", "operator", "reader")

_HEX = frozenset("0123456789abcdef")
_TYPE_NAMES = {str: "text", int: "a whole number"}


def token_file(path: str | os.PathLike[str]) -> TokenFile[Principal]:
    return TokenFile(Path(path), "fencepost.ingest_tokens.v1", Roles(*ROLES), "fencepost ingest enrol")


def authenticated(role: str, headers: Headers, tokens: Tokens[Principal]) -> str:
    """The name of the sender, whose token must have this role."""
    owner = tokens.authenticate(headers)
    if owner.role == role:
        return owner.name
    if role == "agent":
        raise Refusal(
            "foreign_agent", f"this token is of the role {owner.role}; batches need an agent's token"
        )
    if role == "reader":
        if owner.role == "operator":
            return owner.name
        raise Refusal(
            "not_reader", "this token is an agent's; queries need a reader's or an operator's token"
        )
    raise Refusal(
        "not_operator", f"this token is of the role {owner.role}; conflicts need an operator's token"
    )


def check_owner(identity: Identity, agent: str) -> None:
    if identity.agent != agent:
        raise Refusal("foreign_agent", f"this token belongs to another agent than {identity.agent[:80]!a}")


def parse_query(
    raw: bytes, known: tuple[str, ...], needed: tuple[str, ...] = (), *, labels: str = ""
) -> dict[str, str]:
    """The parameters of the query: all known, none repeated, none of `needed` missing.

    Parameters whose names begin with `labels` are known, too.
    """
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=16,
        )
    except ValueError:
        raise Refusal("bad_request", "the query is not of the form name=value&name=value in UTF-8") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal("bad_identity", "the query repeats a parameter; give each once")
    unknown = sorted(name for name in set(found) - set(known) if not (labels and name.startswith(labels)))
    if unknown:
        raise Refusal("bad_request", f"the query has {unknown[0][:40]!a}; known are {', '.join(known)}")
    missing = [name for name in needed if name not in found]
    if missing:
        raise Refusal("bad_identity", f"the query lacks {missing[0]}; needed are {', '.join(needed)}")
    return found


def parse_identity(parameters: Mapping[str, str]) -> Identity:
    """The batch that the parameters of a query name."""
    start, end = (parse_whole(parameters[name], name) for name in ("seq_start", "seq_end"))
    return make_identity(parameters["agent_id"], parameters["boot_id"], start, end)


def make_identity(agent_id: str, boot_id: str, seq_start: int, seq_end: int) -> Identity:
    if seq_end < seq_start:
        raise Refusal("bad_sequence", f"seq_end {seq_end} is before seq_start {seq_start}")
    if seq_end > SEQ_MAX:
        raise Refusal("bad_sequence", f"seq_end {seq_end} is greater than {SEQ_MAX}")
    try:
        return Identity(agent_id, boot_id, seq_start, seq_end)
    except IdentityError as error:
        raise Refusal("bad_identity", str(error)) from None


def parse_whole(text: str, name: str) -> int:
    """A whole number in decimal digits, and nothing around them."""
    number = whole_number(text, 10**20 - 1)
    if number is None:
        raise Refusal("bad_identity", f"{name} is {text[:40]!a}; send a whole number in up to 20 digits")
    return number


def parse_body(body: bytes, known: Mapping[str, type], optional: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object with these fields and no others."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal("bad_request", "the body is not JSON; send an object, see /openapi.json") from None
    if not isinstance(fields, dict):
        raise Refusal("bad_request", "the body is not a JSON object; see /openapi.json")
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise Refusal("bad_request", f"the body has {unknown[0][:40]!a}; known are {', '.join(known)}")
    for name, kind in known.items():
        if name not in fields and name in optional:
            continue
        if type(fields.get(name)) is not kind:
            raise Refusal("bad_request", f"{name} of the body is missing or not {_TYPE_NAMES[kind]}")
        if kind is int and fields[name] < 0:
            raise Refusal("bad_identity", f"{name} is negative")
    return fields


def parse_agent(fields: Mapping[str, Any]) -> tuple[str, str | None]:
    """An agent, and one boot of it or None for all."""
    agent, boot = fields["agent_id"], fields.get("boot_id")
    try:
        agent_path(agent) if boot is None else boot_path(agent, boot)
    except IdentityError as error:
        raise Refusal("bad_identity", str(error)) from None
    return agent, boot


def parse_note(fields: Mapping[str, Any]) -> str:
    note = fields.get("note", "")
    assert isinstance(note, str)
    if len(note) > NOTE_MAX or not note.isprintable():
        raise Refusal("bad_request", f"the note must be one printable line of at most {NOTE_MAX} characters")
    return note


def parse_sha256(fields: Mapping[str, Any]) -> str:
    text = str(fields["submitted_frame_sha256"])
    if len(text) != 64 or not _HEX.issuperset(text):
        raise Refusal("bad_request", "submitted_frame_sha256 is not 64 hexadecimal digits in lower case")
    return text
