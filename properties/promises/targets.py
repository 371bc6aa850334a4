"""Which keys a promise is about, as text: a key, a prefix with everything below it, or a pattern.

    jobs/           everything below (also written `jobs/...`)
    state.lock      this key
    */lock          every key that matches; `*` stands for any characters, `?` for one
    (nothing)       every key

The name of the bucket may be left out.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache


@dataclass(frozen=True)
class Target:
    """Keys, by a pattern."""

    text: str

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        text = self.text.removesuffix("...")
        ends = "" if text and not text.endswith("/") and text == self.text else ".*"
        parts = [{"*": ".*", "?": "."}.get(part) or re.escape(part) for part in re.split(r"([*?])", text)]
        return re.compile("".join(parts) + ends, re.DOTALL)

    def holds(self, key: str) -> bool:
        """Return True if the key is meant, with or without the name of its bucket."""
        return _holds(self._pattern, key)

    def below(self, key: str) -> str:
        """Return the part of a key behind the fixed beginning of the target."""
        fixed = re.split(r"[*?]", self.text.removesuffix("..."))[0]
        for candidate in (key, key.partition("/")[2]):
            if candidate.startswith(fixed):
                return candidate[len(fixed) :]
        return key

    def sibling(self, name: str) -> "Target":
        """Return the folder `name` beside this one: `done/` beside `jobs/`."""
        text = self.text.removesuffix("...").rstrip("/")
        folder = text.rpartition("/")[0]
        return Target(f"{folder}/{name}/" if folder else f"{name}/")


@lru_cache(65536)
def _holds(pattern: re.Pattern[str], key: str) -> bool:
    return bool(pattern.fullmatch(key)) or bool(pattern.fullmatch(key.partition("/")[2]))


def number_in(key: str) -> int | None:
    """Return the number in the last part of a key, such as 7 of `log/0007.json`; None if it has none."""
    found = re.findall(r"\d+", key.rpartition("/")[2])
    return int(found[0]) if found else None


def without_bucket(key: str) -> str:
    """Return a key of a bucket without the bucket's name."""
    return key.partition("/")[2] or key
