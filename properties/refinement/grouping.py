"""Runs that events name in two ways: by the run's name, or only by a link to it, such as the hash of a blob.

A key names the run, or else the trace fields do; some events name only a link. A link belongs to one run, so
the events that name both resolve those that name only the link.

    names = RunNames(linked)
    for key, fields in pairs: names.learn(key, fields)
    run = names.of(key, fields)                 # "" for an event that belongs to no run

`sim.trace.grouping` does the same by columns.
"""

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LinkedRuns:
    """The ways in which events name their run. Use the syntax that Python and RE2 share in both patterns."""

    name: str
    """The name of this grouping for `--runs`."""
    run: str
    """Finds the name of a run, in its group `run`, anywhere in a key or in trace fields."""
    link: str
    """Finds a link, in its group `link`."""


@dataclass
class RunNames:
    """The links that are known so far. The first event that names a link and its run counts."""

    linked: LinkedRuns
    by_link: dict[str, str] = field(default_factory=dict)

    def learn(self, key: str, trace_fields: str) -> None:
        run, link = _named(self.linked, key, trace_fields)
        if run and link:
            self.by_link.setdefault(link, run)

    def of(self, key: str, trace_fields: str) -> str:
        """The run of an event; empty when it belongs to none."""
        run, link = _named(self.linked, key, trace_fields)
        return run or self.by_link.get(link, "")


def _named(linked: LinkedRuns, key: str, trace_fields: str) -> tuple[str, str]:
    """The run and the link that an event names, empty where it names none."""
    run = re.search(linked.run, key) or re.search(linked.run, trace_fields)
    link = re.search(linked.link, key) or re.search(linked.link, trace_fields)
    return run["run"] if run else "", link["link"] if link else ""
