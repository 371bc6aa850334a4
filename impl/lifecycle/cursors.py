"""The cursors of a lifecycle, and how those of an action that begins are set.

Each shard of the log has one for every delay, along the ages, and one close behind the clock (see `engine`):

    lifecycle/v1/cursors/ages/604800000000000/SHARD.json
    lifecycle/v1/cursors/near/SHARD.json

A position is the time of an event and its offset within the shard, as text that sorts. A cursor names the
actions that it is swept for. An action begins with a walk. A version that the walk found not due has its
event after the beginning of the walk less the delay. So the cursors of the action are moved back to that
time, and its name is added, in one write for each. Only then may the record of the action call it complete.
"""

from collections import defaultdict
from collections.abc import Iterable
from urllib.parse import quote

from fencepost.impl.context import Context
from fencepost.impl.cursor import Cursor, Pace
from fencepost.impl.lifecycle.documents import CURSORS
from fencepost.impl.lifecycle.engine import Action
from fencepost.impl.lifecycle.policy import STANDARD_TIMING, Kind, Timing, delays
from fencepost.impl.lifecycle.safeguards import STANDARD, Safeguards

FOLDER = CURSORS
PACE = Pace(items=1_000, seconds=5.0)


def position(ts_ns: int, offset: int) -> str:
    """Return the position of an event."""
    return f"{ts_ns:020d}-{offset:015d}"


def before(ts_ns: int) -> str:
    """Before the first event of this time, and after all events of earlier ones."""
    return f"{max(ts_ns, 0):020d}"


def ages_key(delay_ns: int, shard: str) -> str:
    return f"{FOLDER}ages/{delay_ns}/{quote(shard, safe='')}.json"


def near_key(shard: str) -> str:
    return f"{FOLDER}near/{quote(shard, safe='')}.json"


def name_of(action: Action) -> str:
    return f"{action.bucket}/{action.key}"


def keys_of(action: Action, shard: str, timing: Timing = STANDARD_TIMING) -> dict[str, int]:
    """The cursors of the action in a shard, each with how far before the walk it has to begin."""
    kind = action.key.kind
    ages = {
        ages_key(delay_ns, shard): max(delay_ns, timing.lookback_ns)
        for delay_ns in delays(action.rule, kind, timing)
    }
    has_near = bool(ages) and kind is not Kind.ABORT_MPU
    return {**ages, **({near_key(shard): timing.lookback_ns} if has_near else {})}


def seed(
    context: Context,
    beginning: Iterable[Action],
    shards: Iterable[str],
    walk_began_ns: int,
    timing: Timing = STANDARD_TIMING,
    safeguards: Safeguards = STANDARD,
) -> int:
    """Set the cursors of actions that begin, or that an operator returns to events; returns how many.

    Only of these: a cursor that is moved back has its other actions look again at what they have passed.
    An action at a date has none.
    """
    floors: dict[str, int] = {}
    names: dict[str, set[str]] = defaultdict(set)
    known = list(shards)
    for action in beginning:
        for shard in known:
            for key, back_ns in keys_of(action, shard, timing).items():
                floor_ns = walk_began_ns - safeguards.delay_back(back_ns)
                floors[key] = min(floor_ns, floors.get(key, walk_began_ns))
                names[key].add(name_of(action))
    for key, floor_ns in sorted(floors.items()):
        Cursor(context, key, pace=PACE).rewind(before(floor_ns), serves=names[key], begins=True)
    return len(floors)


def is_seeded(
    context: Context, action: Action, shards: Iterable[str], timing: Timing = STANDARD_TIMING
) -> bool:
    """Return True if every cursor of the action names it; otherwise its record must not call it complete."""
    for shard in shards:
        for key in keys_of(action, shard, timing):
            cursor = Cursor(context, key, pace=PACE)
            cursor.start()
            if name_of(action) not in cursor.serves:
                return False
    return True
