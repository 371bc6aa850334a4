"""The keys of a catalog's objects. Numbers have 20 digits, so that they sort as text."""

import re

from fencepost.impl.publish.documents import Pin
from fencepost.impl.publish.errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
RECOVERY = "recovery/"
RETIRED = "retired/"
DATA = "data/"
TABLES = "table/"
BRANCHES = "branch/"


def check_name(name: object, what: str) -> str:
    """Return `name` if it is plain enough to be a part of keys."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{what} name {name!r}: use up to 100 letters, digits, '.', '_', '-', starting with none of '.-'"
        )
    return name


def manifests(branch: str) -> str:
    return f"{BRANCHES}{branch}/manifest/"


def boundary(branch: str) -> str:
    return f"{BRANCHES}{branch}/boundary.json"


def sidecar(plan: str) -> str:
    return f"{RECOVERY}{plan}.json"


def retired(branch: str) -> str:
    return f"{RETIRED}{branch}/"


def record(branch: str, base: int, newest: int, plan: str) -> str:
    """The record of a retired plan: its writer may still create manifests after `base` and up to `newest`."""
    return f"{retired(branch)}{base:020d}-{newest:020d}-{plan}.json"


def ids_of_record(key: str) -> range:
    """The ids of manifests that a record holds."""
    base, newest, _ = key.rsplit("/", 1)[-1].split("-", 2)
    return range(int(base) + 1, int(newest) + 1)


def versions(location: str) -> str:
    return f"{TABLES}{location}/version/"


def lineages(table: str) -> str:
    return f"{TABLES}{table}~"


def version(pin: Pin) -> str:
    return f"{versions(pin.location)}{pin.version:020d}.json"


def pin_of_version(key: str) -> Pin:
    location, _, name = key.removeprefix(TABLES).split("/")
    return Pin(location, int(name.removesuffix(".json")))


def lineage(table: str, plan: str) -> str:
    """The location of a lineage. It contains the plan that created it, so no location is used twice."""
    return f"{table}~{plan}"


def table_of_lineage(location: str) -> str:
    return location.rsplit("~", 1)[0]


def plan_of_lineage(location: str) -> str:
    return location.rsplit("~", 1)[-1]


def fragment(table: str, plan: str, part: str) -> str:
    return f"{DATA}{table}/{plan}-{part}.parquet"


def plan_of_fragment(key: str) -> str:
    return key.rsplit("/", 1)[-1].split("-", 1)[0]
