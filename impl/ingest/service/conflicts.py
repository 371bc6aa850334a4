"""The interface for operators: conflicts, their resolutions, and quarantined agents.

`fencepost.impl.ingest.operator` does the work; this module parses requests strictly and returns JSON. All its
functions block, so they run in a thread.
"""

from dataclasses import asdict, dataclass
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import operator
from fencepost.impl.ingest.service.requests import (
    IDENTITY,
    IDENTITY_TYPES,
    Refusal,
    check_owner,
    make_identity,
    parse_agent,
    parse_body,
    parse_identity,
    parse_note,
    parse_query,
    parse_sha256,
    parse_whole,
)
from fencepost.impl.store.interface import Store

PAGE_MAX = 1000
PAGE = 100
STATES = ("open", "all")

Json = dict[str, Any]


@dataclass
class Conflicts:
    """Conflicts and blocks as one collector shows them; every collector of a bucket shows the same."""

    store: Store
    env: Environment
    blocklist: operator.Blocklist

    def conflicts(self, query: bytes) -> Json:
        """A page of conflicts; `more` is true when there are others."""
        fields = parse_query(query, ("agent_id", "limit", "state"))
        agent = parse_agent(fields)[0] if "agent_id" in fields else None
        limit = parse_whole(fields.get("limit", str(PAGE)), "limit")
        if not 1 <= limit <= PAGE_MAX:
            raise Refusal("bad_request", f"limit is {limit}; send 1 to {PAGE_MAX}")
        state = fields.get("state", "open")
        if state not in STATES:
            raise Refusal("bad_request", f"state is {state[:40]!a}; send {' or '.join(STATES)}")
        page: list[Json] = []
        for seen in operator.conflicts(self.store, self.env, agent=agent):
            if state == "all" or seen.resolution is None:
                if len(page) == limit:
                    return {"conflicts": page, "more": True}
                page.append(seen.to_json())
        return {"conflicts": page, "more": False}

    def resolution(self, agent: str, query: bytes) -> Json:
        """The decision about a batch that this agent parked."""
        names = (*IDENTITY, "submitted_frame_sha256")
        fields = parse_query(query, names, names)
        identity = parse_identity(fields)
        check_owner(identity, agent)
        decided = operator.resolution_of(self.store, self.env, identity, parse_sha256(fields))
        return {"resolution": None if decided is None else asdict(decided)}

    def resolve(self, body: bytes, by: str) -> Json:
        known = {**IDENTITY_TYPES, "submitted_frame_sha256": str, "note": str}
        fields = parse_body(body, known, optional=("note",))
        identity = make_identity(*(fields[name] for name in IDENTITY))
        sha256, note = parse_sha256(fields), parse_note(fields)
        try:
            decided = operator.resolve(self.store, self.env, identity, sha256, by=by, note=note)
        except operator.NoSuchConflict:
            raise Refusal("no_such_conflict", f"there is no conflict of {identity} with {sha256}") from None
        return {"resolution": asdict(decided)}

    def blocks(self, query: bytes) -> Json:
        parse_query(query, ())
        return {"blocks": [asdict(block) for block in operator.blocks(self.store, self.env)]}

    def block(self, body: bytes, by: str) -> Json:
        known = {"agent_id": str, "boot_id": str, "note": str}
        fields = parse_body(body, known, optional=("boot_id", "note"))
        agent, boot = parse_agent(fields)
        block = operator.quarantine(self.store, self.env, agent, boot, by=by, note=parse_note(fields))
        self.blocklist.refresh()
        return asdict(block)

    def release(self, query: bytes) -> Json:
        agent, boot = parse_agent(parse_query(query, ("agent_id", "boot_id"), ("agent_id",)))
        released = operator.release(self.store, self.env, agent, boot)
        self.blocklist.refresh()
        return {"released": released}
