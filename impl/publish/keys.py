"""Where everything stands below the root of a catalog. Numbers have 20 digits, so that they sort as text."""

import re

from fencepost.impl.publish.documents import Pin
from fencepost.impl.publish.errors import Invalid

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
RECOVERY = "recovery/"
DATA = "data/"
TABLES = "table/"
BRANCHES = "branch/"


def check_name(name: object, what: str) -> str:
    """Names become parts of keys, so they are kept plain."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Invalid(
            f"{what} name {name!r}: use up to 100 letters, digits, '.', '_', '-', starting with none of '.-'"
        )
    return name


def number(value: int) -> str:
    return f"{value:020d}"


def manifests(branch: str) -> str:
    return f"{BRANCHES}{branch}/manifest/"


def boundary(branch: str) -> str:
    return f"{BRANCHES}{branch}/boundary.json"


def sidecar(plan: str) -> str:
    return f"{RECOVERY}{plan}.json"


def versions(location: str) -> str:
    return f"{TABLES}{location}/version/"


def version(pin: Pin) -> str:
    return f"{versions(pin.location)}{number(pin.version)}.json"


def lineage(table: str, plan: str) -> str:
    """The location of a lineage: bears the plan that made it, so no name is ever used twice."""
    return f"{table}~{plan}"


def fragment(table: str, plan: str, part: str) -> str:
    return f"{DATA}{table}/{plan}-{part}.parquet"


def plan_of_fragment(key: str) -> str:
    return key.rsplit("/", 1)[-1].split("-", 1)[0]


def table_of_lineage(location: str) -> str:
    return location.rsplit("~", 1)[0]


def plan_of_lineage(location: str) -> str:
    return location.rsplit("~", 1)[-1]
