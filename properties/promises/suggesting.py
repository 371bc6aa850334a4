"""Which promises fit a program, by the names of its keys: for programs that declare no property."""

import re
from collections.abc import Iterable

from fencepost.properties.promises.targets import number_in, without_bucket

LOCKS = re.compile(r"(^|[^a-z])(lock|lease|leader|mutex)s?([^a-z]|$)", re.IGNORECASE)
MANIFESTS = re.compile(
    r"(^|[^a-z])(manifest|meta|index|catalog|latest|current|snapshot|pointer|head)s?([^a-z]|$)", re.IGNORECASE
)
JOBS = re.compile(r"^(.*/)?(jobs|tasks|queue|pending|todo)/", re.IGNORECASE)


def suggested(keys: Iterable[str]) -> list[str]:
    """Return the texts of the promises that may fit, the general one first."""
    found = ["register"]
    named = sorted({without_bucket(key) for key in keys if key})
    for key in named:
        if (jobs := JOBS.match(key)) is not None:
            found.append(f"queue={jobs.group(0)}")
        elif LOCKS.search(key.rpartition("/")[2]):
            found.append(f"lock={key},released=no")
        elif MANIFESTS.search(key.rpartition("/")[2]):
            found.append(f"manifest={key}")
    numbered: dict[str, list[int]] = {}
    for key in named:
        number = number_in(key)
        folder = key.rpartition("/")[0]
        if number is not None and folder and not JOBS.match(key):
            numbered.setdefault(folder, []).append(number)
    found += [f"log={folder}/" for folder, numbers in numbered.items() if len(set(numbers)) > 1]
    return list(dict.fromkeys(found))
