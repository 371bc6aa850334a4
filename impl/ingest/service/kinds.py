"""Every answer that is not a plain success: its kind, its status, and what the client should do.

The kind is for programs and is never renamed; the message is for people: what is wrong, where, what to do.

    {"error": "body_too_large", "message": "the body has more than 8388608 bytes; send smaller batches"}

An agent deletes a batch on 200 alone. What it does otherwise is in the last column:

    retry    later, perhaps at another collector: the batch may still be accepted
    park     put the batch aside and tell somebody: as it is, it will never be accepted
    stop     every batch would be refused like this one: the configuration must change first
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Then = Literal["retry", "park", "stop"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One line of the table."""

    status: int
    then: Then
    summary: str


KINDS: Mapping[str, Kind] = {
    "bad_request": Kind(400, "park", "The request cannot be read."),
    "bad_identity": Kind(400, "park", "The identity is missing, given twice, or not well formed."),
    "bad_frame": Kind(400, "park", "The body is no whole frame."),
    "unauthenticated": Kind(401, "stop", "The bearer token is missing or unknown."),
    "wrong_agent": Kind(403, "stop", "The token belongs to another agent, or not to an agent."),
    "not_operator": Kind(403, "stop", "The token does not belong to an operator."),
    "quarantined": Kind(403, "park", "An operator has quarantined this agent or boot."),
    "no_such_conflict": Kind(404, "stop", "There is no conflict about this identity."),
    "not_found": Kind(404, "stop", "There is nothing at this address."),
    "method_not_allowed": Kind(405, "stop", "The address has no such method."),
    "too_slow": Kind(408, "retry", "The request did not arrive in time."),
    "identity_conflict": Kind(409, "park", "Other bytes were accepted under this identity."),
    "length_required": Kind(411, "park", "The request says neither how long it is nor that it is chunked."),
    "body_too_large": Kind(413, "park", "The body is larger than this collector takes."),
    "unsupported_encoding": Kind(415, "park", "The body is encoded, or is not application/octet-stream."),
    "bad_sequence": Kind(422, "park", "The sequence range is impossible."),
    "mismatch": Kind(422, "park", "The frame names another identity than the request."),
    "too_many_requests": Kind(429, "retry", "This agent has too many requests under way."),
    "internal": Kind(500, "retry", "The collector failed; its log says how."),
    "busy": Kind(503, "retry", "The collector has too many requests or connections under way."),
    "draining": Kind(503, "retry", "The collector is about to stop."),
    "store_unavailable": Kind(503, "retry", "The store does not answer, or nobody knows what it did."),
}
