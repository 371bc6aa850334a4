"""The refusals and limits of a server, for the server and for its description."""

from collections.abc import Mapping
from typing import ClassVar

from fencepost.impl.http.limits import Limits
from fencepost.impl.http.refusals import COMMON, Kind, Refusal
from fencepost.impl.http.tokens import Forbidden
from fencepost.impl.publish.errors import (
    Damaged,
    Forgotten,
    HeadAhead,
    Invalid,
    Overdue,
    PublishError,
    StaleView,
)

LIMITS = Limits(requests=2000, client_requests=2000)
WAIT_S = 30.0
"""Seconds for which an order is attempted."""
WAIT_S_MAX = 300.0
TEXT_MAX = 2000
"""Characters of an author or a message."""

KINDS: Mapping[str, Kind] = {
    **COMMON,
    **Forbidden.kinds,
    "invalid": Kind(422, "park", "The catalog does not allow the change; nothing was published."),
    "stale": Kind(409, "park", "What the change depends on was changed: begin again on the newest manifest."),
    "overdue": Kind(409, "retry", "Cleanup lags too far behind the commits; nothing was published."),
    "forgotten": Kind(410, "park", "The request was perhaps published: what would show it was cleaned up."),
    "undecided": Kind(503, "retry", "Perhaps published: send the same request again, here or elsewhere."),
    "damaged": Kind(500, "stop", "The catalog needs its operator; nothing was published."),
}

ERRORS: tuple[tuple[type[PublishError], str], ...] = (
    (Forgotten, "forgotten"),
    (Invalid, "invalid"),
    (StaleView, "stale"),
    (Overdue, "overdue"),
    (Damaged, "damaged"),
    (HeadAhead, "damaged"),
)
"""Errors of publish, with the kinds that clients see; the first that fits."""


class CatalogRefusal(Refusal):
    kinds: ClassVar[Mapping[str, Kind]] = KINDS
