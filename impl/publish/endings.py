"""How a plan can end, as values. `Published` and `Unknown` reach the user; the others lead to an error."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from fencepost.impl.publish.documents import Manifest, Placed, Version


@dataclass(frozen=True, slots=True)
class Published:
    """Visible, for ever, in `manifest` (or, when found out late, before it)."""

    manifest: Manifest
    plan: str

    @property
    def id(self) -> int:
        return self.manifest.id


@dataclass(frozen=True, slots=True)
class Unknown:
    """Published, or about to be, or never: ask `settle(plan)` later. Do not publish the same again before."""

    plan: str
    why: str
    base: int = 0
    """The id of the manifest it was built on."""


class Why(enum.Enum):
    """Why an executor stopped."""

    FENCED = "fenced"
    STALE = "stale"
    EXHAUSTED = "exhausted"
    """Its expectations hold, but others were quicker every time."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The manifest was not created. All heads had moved."""

    why: Why
    text: str
    parent: Manifest
    whole: bool = True
    """False when a part of the history since was out of sight: the plan may be in it."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A head could not be created, because `found` stands there."""

    why: Why
    table: str
    found: Version
    moved: Mapping[str, Placed] = field(default_factory=dict)
    """The heads that were created all the same."""


Ended = Published | Unknown | Refused | Blocked
