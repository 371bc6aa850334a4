"""What operators see and decide, as requests: conflicts, their resolutions, and who is quarantined.

`fencepost.impl.ingest.operator` does it; here its questions are read strictly and its answers made JSON.
Everything here blocks and is called in a thread.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fencepost.impl.environment import Environment
from fencepost.impl.ingest import operator
from fencepost.impl.ingest.errors import IdentityError
from fencepost.impl.ingest.identity import agent_path, boot_path
from fencepost.impl.ingest.service import asking
from fencepost.impl.ingest.service.answers import Refusal
from fencepost.impl.store.interface import Store

PAGE_MAX = 1000
PAGE = 100
NOTE_MAX = 1000
STATES = ("open", "all")

_HEX = frozenset("0123456789abcdef")
Json = dict[str, Any]


class Desk:
    """What operators do at one collector; every collector of a bucket shows the same."""

    def __init__(self, store: Store, env: Environment, blocklist: operator.Blocklist) -> None:
        self._store = store
        self._env = env
        self._blocklist = blocklist

    def conflicts(self, raw: bytes) -> Json:
        """A page of conflicts; `more` says that there are others."""
        asked = asking.query(raw, ("agent_id", "limit", "state"))
        agent = asked.get("agent_id")
        if agent is not None:
            _checked(lambda: agent_path(agent))
        limit = asking.whole(asked.get("limit", str(PAGE)), "limit")
        if not 1 <= limit <= PAGE_MAX:
            raise Refusal("bad_request", f"limit is {limit}; send 1 to {PAGE_MAX}")
        state = asked.get("state", "open")
        if state not in STATES:
            raise Refusal("bad_request", f"state is {state[:40]!a}; send {' or '.join(STATES)}")
        found: list[Json] = []
        for seen in operator.conflicts(self._store, self._env, agent=agent):
            if state == "all" or seen.resolution is None:
                if len(found) == limit:
                    return {"conflicts": found, "more": True}
                found.append(shown(seen))
        return {"conflicts": found, "more": False}

    def resolution(self, agent: str, raw: bytes) -> Json:
        """What was decided about a batch that this agent parked."""
        names = (*asking.IDENTITY, "submitted_frame_sha256")
        asked = asking.query(raw, names, names)
        numbers = (asking.whole(asked[name], name) for name in ("seq_start", "seq_end"))
        identity = asking.named(asked["agent_id"], asked["boot_id"], *numbers)
        if identity.agent != agent:
            raise Refusal("wrong_agent", f"this token belongs to another agent than {identity.agent[:80]!a}")
        decided = operator.resolution_of(
            self._store, self._env, identity, _sha256(asked["submitted_frame_sha256"])
        )
        return {"resolution": None if decided is None else asdict(decided)}

    def resolve(self, body: bytes, who: str) -> Json:
        said = _read(body, {**_IDENTITY, "submitted_frame_sha256": str, "note": str}, optional=("note",))
        identity = asking.named(*(said[name] for name in asking.IDENTITY))
        sha256 = _sha256(said["submitted_frame_sha256"])
        try:
            done = operator.resolve(self._store, self._env, identity, sha256, by=who, note=_note(said))
        except operator.NoSuchConflict:
            raise Refusal("no_such_conflict", f"there is no conflict of {identity} with {sha256}") from None
        return {"resolution": asdict(done)}

    def blocks(self, raw: bytes) -> Json:
        asking.query(raw, ())
        return {"blocks": [asdict(block) for block in operator.blocks(self._store, self._env)]}

    def block(self, body: bytes, who: str) -> Json:
        said = _read(body, {"agent_id": str, "boot_id": str, "note": str}, optional=("boot_id", "note"))
        agent, boot = _whom(said)
        block = operator.quarantine(self._store, self._env, agent, boot, by=who, note=_note(said))
        self._blocklist.refresh()
        return asdict(block)

    def release(self, raw: bytes) -> Json:
        agent, boot = _whom(asking.query(raw, ("agent_id", "boot_id"), ("agent_id",)))
        stood = operator.release(self._store, self._env, agent, boot)
        self._blocklist.refresh()
        return {"released": stood}


def shown(seen: operator.ConflictSeen) -> Json:
    """A conflict as JSON."""
    resolution = None if seen.resolution is None else asdict(seen.resolution)
    return {**asdict(seen.record), "resolution": resolution}


_IDENTITY = {"agent_id": str, "boot_id": str, "seq_start": int, "seq_end": int}
_CALLED = {str: "text", int: "a whole number"}


def _read(body: bytes, known: Mapping[str, type], optional: tuple[str, ...]) -> Json:
    """A JSON object with these fields and no others."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal("bad_request", "the body is no JSON; send an object, see /openapi.json") from None
    if not isinstance(said, dict):
        raise Refusal("bad_request", "the body is no JSON object; see /openapi.json")
    unknown = sorted(set(said) - set(known))
    if unknown:
        raise Refusal("bad_request", f"the body has {unknown[0][:40]!a}; known are {', '.join(known)}")
    for name, kind in known.items():
        if name not in said and name in optional:
            continue
        if type(said.get(name)) is not kind:
            raise Refusal("bad_request", f"{name} of the body is missing or not {_CALLED[kind]}")
        if kind is int and said[name] < 0:
            raise Refusal("bad_identity", f"{name} is negative")
    return said


def _whom(said: Mapping[str, Any]) -> tuple[str, str | None]:
    agent, boot = said["agent_id"], said.get("boot_id")
    _checked(lambda: agent_path(agent) if boot is None else boot_path(agent, boot))
    return agent, boot


def _checked(make: Any) -> None:
    try:
        make()
    except IdentityError as error:
        raise Refusal("bad_identity", str(error)) from None


def _note(said: Json) -> str:
    note = said.get("note", "")
    assert isinstance(note, str)
    if len(note) > NOTE_MAX or not note.isprintable():
        raise Refusal("bad_request", f"the note must be one printable line of at most {NOTE_MAX} characters")
    return note


def _sha256(text: str) -> str:
    if len(text) != 64 or not _HEX.issuperset(text):
        raise Refusal("bad_request", "submitted_frame_sha256 is not 64 hexadecimal digits in lower case")
    return text
