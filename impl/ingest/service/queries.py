"""The interface for readers: what was accepted, as `fencepost.impl.ingest.query` finds it.

All functions block, so they run in a thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.impl.ingest import query
from fencepost.impl.ingest.errors import IdentityError, QueryError
from fencepost.impl.ingest.keys import agent_path
from fencepost.impl.ingest.query import Window
from fencepost.impl.ingest.service.acceptance import Acceptance
from fencepost.impl.ingest.service.requests import Refusal, parse_query, parse_whole

WINDOW = ("start_unix_ns", "end_unix_ns")
LABEL = "label."
"""A parameter `label.host=a` selects the series that have this label."""

Json = dict[str, Any]


@dataclass
class Queries:
    """Answers of one collector: of the bucket, and in `local_spool` mode of its own disk."""

    acceptance: Acceptance

    def metrics(self, raw: bytes) -> Json:
        """The metrics that are rolled up in a window."""
        fields = parse_query(raw, WINDOW, WINDOW)
        start_ns, end_ns = _times(fields)
        return _answered(lambda: {"metrics": query.metrics_in(self.acceptance.bucket, start_ns, end_ns)})

    def sums(self, raw: bytes) -> Json:
        """The sums of one metric by hour and labels."""
        fields = parse_query(raw, ("metric", *WINDOW), ("metric", *WINDOW), labels=LABEL)

        def answer() -> Json:
            local = self.acceptance.unlanded()
            return query.sums_row(query.sums_by_hour(self.acceptance.bucket, _window(fields), local=local))

        return _answered(answer)

    def points(self, raw: bytes) -> Json:
        """A page of the points of one metric."""
        known = ("metric", *WINDOW, "agent_id", "after", "limit", "accepted_until_unix_ns")
        fields = parse_query(raw, known, ("metric", *WINDOW), labels=LABEL)
        limit = parse_whole(fields.get("limit", str(query.POINTS_MAX)), "limit")
        if not 1 <= limit <= query.POINTS_MAX:
            raise Refusal("bad_request", f"limit is {limit}; send 1 to {query.POINTS_MAX}")
        until = fields.get("accepted_until_unix_ns")
        until_ns = None if until is None else parse_whole(until, "accepted_until_unix_ns")

        def answer() -> Json:
            agent = fields.get("agent_id")
            if agent is not None:
                agent_path(agent)
            page = query.points_of(
                self.acceptance.bucket,
                _window(fields),
                agent=agent,
                accepted_until_ns=until_ns,
                after=fields.get("after", ""),
                limit=limit,
                local=self.acceptance.unlanded(),
            )
            return query.page_row(page)

        return _answered(answer)


def _times(fields: dict[str, str]) -> tuple[int, int]:
    start, end = (parse_whole(fields[name], name) for name in WINDOW)
    return start, end


def _window(fields: dict[str, str]) -> Window:
    labels = {name.removeprefix(LABEL): value for name, value in fields.items() if name.startswith(LABEL)}
    return Window(fields["metric"], *_times(fields), labels)


def _answered(answer: Callable[[], Json]) -> Json:
    try:
        return answer()
    except (QueryError, IdentityError) as error:
        raise Refusal("bad_request", str(error)) from None
