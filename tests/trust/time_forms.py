"""The forms in which programs compare a time of modification with a clock, and programs that do.

A form is a chain of changes of the stamp, one of the clock reading, and a comparison of the two. Nothing here
knows the world: each function works on plain datetimes too, and that is the oracle.
"""

import calendar
import datetime as dt
import email.utils
import json
import math
import os
import time
from collections.abc import Callable
from typing import Any

from dateutil import parser as dateutil_parser

from fencepost.impl.store import ABSENT, ANYTHING
from fencepost.sim.world import World

UTC = dt.UTC
BUCKET = "b"

Change = Callable[[Any], Any]
Compare = Callable[[Any, Any, float], bool]

# Changes of a moment into the same moment, cut off to the second at most.
MOMENTS: dict[str, Change] = {
    "as it is": lambda t: t,
    "in another zone": lambda t: t.astimezone(dt.timezone(dt.timedelta(hours=5))),
    "without its zone": lambda t: t.astimezone(UTC).replace(tzinfo=None),
    "cut off": lambda t: t.replace(microsecond=0),
    "later and earlier": lambda t: t + dt.timedelta(days=1) - dt.timedelta(days=1),
    "isoformat": lambda t: dt.datetime.fromisoformat(t.isoformat()),
    "str": lambda t: dt.datetime.fromisoformat(str(t)),
    "f-string": lambda t: dt.datetime.fromisoformat(f"{t}"),
    "text with Z": lambda t: dt.datetime.fromisoformat(t.astimezone(UTC).isoformat().replace("+00:00", "Z")),
    "strftime": lambda t: dt.datetime.strptime(t.strftime("%Y-%m-%dT%H:%M:%S%z"), "%Y-%m-%dT%H:%M:%S%z"),
    "HTTP date": lambda t: email.utils.parsedate_to_datetime(
        email.utils.format_datetime(t.astimezone(UTC), usegmt=True)
    ),
    "JSON": lambda t: dt.datetime.fromisoformat(json.loads(json.dumps({"at": t.isoformat()}))["at"]),
    "dateutil": lambda t: dateutil_parser.isoparse(t.isoformat()),
    "dateutil, any form": lambda t: dateutil_parser.parse(t.strftime("%d %b %Y %H:%M:%S %z")),
    "fromtimestamp": lambda t: dt.datetime.fromtimestamp(t.timestamp(), UTC),
    "whole fromtimestamp": lambda t: dt.datetime.fromtimestamp(int(t.timestamp()), UTC),
    "fields": lambda t: dt.datetime(*t.astimezone(UTC).timetuple()[:6], tzinfo=UTC),
    "combined": lambda t: dt.datetime.combine(t.date(), t.timetz()),
}

# Changes of an aware moment into seconds.
NUMBERS: dict[str, Change] = {
    "timestamp": lambda t: t.timestamp(),
    "int": lambda t: int(t.timestamp()),
    "float": lambda t: float(t.timestamp()),
    "round": lambda t: round(t.timestamp()),
    "rounded to digits": lambda t: round(t.timestamp(), 1),
    "floor": lambda t: math.floor(t.timestamp()),
    "ceil": lambda t: math.ceil(t.timestamp()),
    "milliseconds": lambda t: int(t.timestamp() * 1000) / 1000,
    "nanoseconds": lambda t: t.timestamp() * 1e9 / 1e9,
    "timegm": lambda t: calendar.timegm(t.utctimetuple()),
    "mktime": lambda t: time.mktime(t.astimezone().timetuple()),
    "text of a float": lambda t: float(f"{t.timestamp():.3f}"),
    "text of an int": lambda t: int(f"{t.timestamp():.0f}"),
    "since an epoch": lambda t: (t - dt.datetime(2000, 1, 1, tzinfo=UTC)).total_seconds() + 946_684_800,
    "minus": lambda t: 0 - (-t.timestamp()),
}


def _length(limit_s: float) -> dt.timedelta:
    return dt.timedelta(seconds=limit_s)


# Comparisons of two moments: true if `m` is older than the limit.
COMPARISONS: dict[str, Compare] = {
    "stamp < clock - limit": lambda m, n, s: m < n - _length(s),
    "clock - limit > stamp": lambda m, n, s: n - _length(s) > m,
    "not stamp > clock - limit": lambda m, n, s: not m > n - _length(s),
    "not stamp >= clock - limit": lambda m, n, s: not m >= n - _length(s),
    "stamp + limit < clock": lambda m, n, s: m + _length(s) < n,
    "stamp + limit <= clock": lambda m, n, s: m + _length(s) <= n,
    "clock > stamp + limit": lambda m, n, s: n > m + _length(s),
    "clock - stamp > limit": lambda m, n, s: n - m > _length(s),
    "not clock - stamp < limit": lambda m, n, s: not n - m < _length(s),
    "limit < clock - stamp": lambda m, n, s: _length(s) < n - m,
    "stamp - clock < -limit": lambda m, n, s: m - n < -_length(s),
    "abs": lambda m, n, s: abs(m - n) > _length(s),
    "twice the number": lambda m, n, s: 2 * n.timestamp() > m.timestamp() + n.timestamp() + s,
    "total_seconds": lambda m, n, s: (n - m).total_seconds() > s,
    "total_seconds, turned": lambda m, n, s: -(m - n).total_seconds() > s,
    "quotient": lambda m, n, s: (n - m) / _length(s) > 1,
    "whole quotient": lambda m, n, s: (n - m) // _length(s) >= 1,
    "divmod": lambda m, n, s: divmod(n - m, _length(s))[0] >= 1,
    "half": lambda m, n, s: (n - m) / 2 > _length(s / 2),
    "double": lambda m, n, s: 2 * (n - m) > _length(2 * s),
    "days and seconds": lambda m, n, s: (n - m).days * 86_400 + (n - m).seconds > s,
    "minutes": lambda m, n, s: (n - m).total_seconds() // 60 > s // 60,
    "max": lambda m, n, s: max(m, n - _length(s)) != m,
    "min": lambda m, n, s: min(m + _length(s), n) != n,
    "sorted": lambda m, n, s: sorted([n - _length(s), m, n])[1] != m,
    "what is left": lambda m, n, s: (m + _length(s) - n).total_seconds() < 0,
    "same text": lambda m, n, s: m.isoformat() < (n - _length(s)).isoformat(),
    "text of seconds": lambda m, n, s: f"{m:%Y%m%d%H%M%S}" < (n - _length(s)).strftime("%Y%m%d%H%M%S"),
}

# Comparisons of two numbers of seconds.
OF_NUMBERS: dict[str, Compare] = {
    "stamp < clock - limit": lambda m, n, s: m < n - s,
    "clock - limit > stamp": lambda m, n, s: n - s > m,
    "not stamp >= clock - limit": lambda m, n, s: not m >= n - s,
    "stamp + limit < clock": lambda m, n, s: m + s < n,
    "clock - stamp > limit": lambda m, n, s: n - m > s,
    "limit < clock - stamp": lambda m, n, s: s < n - m,
    "abs": lambda m, n, s: abs(m - n) > s,
    "minutes": lambda m, n, s: (n - m) / 60 > s / 60,
    "whole minutes": lambda m, n, s: (n - m) // 60 > s // 60,
    "twice": lambda m, n, s: 2 * n > m + n + s,
    "a part of the way": lambda m, n, s: m + (n - m) * 0.25 > m + s * 0.25,
    "max": lambda m, n, s: max(m, n - s) != m,
    "what is left": lambda m, n, s: m + s - n < 0,
}

# Comparisons of days; the limit is counted in whole days.
OF_DAYS: dict[str, Compare] = {
    "dates": lambda m, n, s: m.date() < n.date() - _length(s),
    "date of today": lambda m, n, s: m.date() < dt.date.today() - _length(s),  # noqa: DTZ011 - a form that programs use
    "days": lambda m, n, s: (n - m).days > s // 86_400,
    "ordinals": lambda m, n, s: n.toordinal() - m.toordinal() > s // 86_400,
    "texts of days": lambda m, n, s: m.strftime("%Y%m%d") < (n - _length(s)).strftime("%Y%m%d"),
    "days between dates": lambda m, n, s: (n.date() - m.date()).days > s // 86_400,
    "another day": lambda m, n, s: (
        m.date() != (n - _length(s) + dt.timedelta(days=1)).date() and n - m > _length(s)
    ),
}

CLOCKS: dict[str, Callable[[], Any]] = {
    "now(UTC)": lambda: dt.datetime.now(UTC),
    "now()": lambda: dt.datetime.now().astimezone(),
    "utcnow()": lambda: dt.datetime.utcnow().replace(tzinfo=UTC),  # noqa: DTZ003 - a form that programs use
    "time()": lambda: dt.datetime.fromtimestamp(time.time(), UTC),
    "time_ns()": lambda: dt.datetime.fromtimestamp(time.time_ns() / 1e9, UTC),
    "clock_gettime()": lambda: dt.datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), UTC),
    "gmtime()": lambda: dt.datetime.fromtimestamp(calendar.timegm(time.gmtime()), UTC),
}


def old(stamp: Change, clock: Change, compare: Compare, limit_s: float) -> Callable[[Any, Any], bool]:
    """Return a test of a moment and a reading by these changes and this comparison."""
    return lambda m, n: bool(compare(stamp(m), clock(n), limit_s))


# Programs. A cleaner deletes data that is old, and a slow writer refers to it afterwards.

Find = Callable[[Any], Any]
"""Returns the time of modification of the data as an aware datetime; None if there is none."""


def listed(s3: Any) -> Any:
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix="data").get("Contents", [])
    return found[0]["LastModified"] if found else None


def headed(s3: Any) -> Any:
    try:
        return s3.head_object(Bucket=BUCKET, Key="data")["LastModified"]
    except s3.exceptions.ClientError:
        return None


def fetched(s3: Any) -> Any:
    try:
        return s3.get_object(Bucket=BUCKET, Key="data")["LastModified"]
    except s3.exceptions.ClientError:
        return None


def header(s3: Any) -> Any:
    try:
        found = s3.head_object(Bucket=BUCKET, Key="data")["ResponseMetadata"]["HTTPHeaders"]
    except s3.exceptions.ClientError:
        return None
    return email.utils.parsedate_to_datetime(found["last-modified"])


def versions(s3: Any) -> Any:
    found = s3.list_object_versions(Bucket=BUCKET, Prefix="data").get("Versions", [])
    return found[0]["LastModified"] if found else None


ON_BOTO3: dict[str, Find] = {
    "list_objects_v2": listed,
    "head_object": headed,
    "get_object": fetched,
    "header": header,
    "list_object_versions": versions,
}


def on_boto3(
    world: World,
    test: Callable[[Any, Any], bool],
    *,
    find: Find = listed,
    now: Callable[[], Any] = CLOCKS["now(UTC)"],
    clock_first: bool = False,
    fixed: bool = False,
) -> None:
    """Declare the program on boto3; with `fixed` it writes a mark before it deletes."""
    world.boto3_bucket(BUCKET)
    s3 = world.boto3_client("s3")
    condition = {"IfNoneMatch": "*"} if fixed else {}

    def put(key: str, body: bytes) -> bool:
        try:
            s3.put_object(Bucket=BUCKET, Key=key, Body=body, **condition)
        except s3.exceptions.ClientError:
            return False
        return True

    def write() -> None:
        s3.put_object(Bucket=BUCKET, Key="data", Body=b"1")
        put("meta", b"1")

    def clean() -> None:
        early = now() if clock_first else None
        modified = find(s3)
        if modified is None or not test(modified, early or now()):
            return
        if fixed and not put("meta", b"deleted"):
            return
        s3.delete_object(Bucket=BUCKET, Key="data")

    world.spawn(write, name="writer", restart=False)
    world.spawn(clean, name="cleaner", restart=False)
    _promise(world)


def _promise(world: World) -> None:
    world.always(
        "meta has its data",
        lambda view: view.get(f"{BUCKET}/meta") != b"1" or view.get(f"{BUCKET}/data") is not None,
    )


def on_store(world: World, test: Callable[[Any, Any], bool], *, lists: bool, fixed: bool = False) -> None:
    """Declare the same program on the store interface."""
    store = world.store()

    def write() -> None:
        store.put(f"{BUCKET}/data", b"1", when=ANYTHING)
        store.put(f"{BUCKET}/meta", b"1", when=ABSENT if fixed else ANYTHING)

    def clean() -> None:
        if lists:
            found = store.list(f"{BUCKET}/data").objects
            info = found[0] if found else None
        else:
            info = store.head(f"{BUCKET}/data").info
        if info is None:
            return
        modified = dt.datetime.fromtimestamp(info.modified_ns / 1e9, UTC)
        if not test(modified, dt.datetime.fromtimestamp(store.env.now_ns() / 1e9, UTC)):
            return
        if fixed and not store.put(f"{BUCKET}/meta", b"deleted", when=ABSENT).done:
            return
        store.delete(f"{BUCKET}/data", when=ANYTHING)

    world.spawn(write, name="writer", restart=False)
    world.spawn(clean, name="cleaner", restart=False)
    _promise(world)


def on_files(world: World, test: Callable[[Any, Any], bool], *, fixed: bool = False) -> None:
    """Declare a program that breaks a lock file by its age."""
    folder = world.filesystem()

    def hold() -> None:
        (folder / "lock").write_bytes(b"")
        held = (folder / "lock").exists()
        world.note("lost", not held)

    def sweep() -> None:
        try:
            about = os.stat(folder / "lock")  # noqa: PTH116 - a form that programs use
        except FileNotFoundError:
            return
        modified = dt.datetime.fromtimestamp(about.st_mtime, UTC)
        if test(modified, dt.datetime.now(UTC)) and not fixed:
            (folder / "lock").unlink()

    world.spawn(hold, name="holder", restart=False)
    world.spawn(sweep, name="sweeper", restart=False)
    world.always("the lock is there", lambda view: not any(view.notes("lost")))
