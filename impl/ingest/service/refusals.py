"""The kinds of refusal of a collector; `fencepost.impl.http.refusals` explains the table.

An agent deletes a batch on 200 alone. What it does otherwise is in the column `then`.
"""

from collections.abc import Mapping

from fencepost.impl.http import refusals
from fencepost.impl.http.refusals import Kind

KINDS: Mapping[str, Kind] = {
    **refusals.COMMON,
    "bad_identity": Kind(400, "park", "The identity is missing, repeated, or not well formed."),
    "bad_frame": Kind(400, "park", "The body is not a whole frame."),
    "foreign_agent": Kind(403, "stop", "The token belongs to another agent, or not to an agent."),
    "not_operator": Kind(403, "stop", "The token does not belong to an operator."),
    "quarantined": Kind(403, "park", "An operator has quarantined this agent or boot."),
    "no_such_conflict": Kind(404, "stop", "There is no conflict about this identity."),
    "identity_conflict": Kind(409, "park", "Other bytes were accepted under this identity."),
    "bad_sequence": Kind(422, "park", "The sequence range is impossible."),
    "mismatch": Kind(422, "park", "The frame names another identity than the request."),
}


class Refusal(refusals.Refusal):
    kinds = KINDS
