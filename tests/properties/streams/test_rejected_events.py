"""Runs that the observed machine of streams refuses, event by event; each has an accepted neighbour."""

import pytest

from fencepost.properties.refinement import Automaton, EventRow
from fencepost.properties.streams.refinement import StreamsRefinement
from tests.properties.ingest.shown_events import follow
from tests.properties.streams.shown_events import landed

AUTOMATON = Automaton(StreamsRefinement())


def manifest(
    life: int,
    owner: int,
    count: int,
    last: tuple[int, int] | None,
    state: str = "live",
    when: str = "matches",
) -> EventRow:
    """A write of the manifest; `last` is the place and the owner of the segment listed last."""
    listed = f" start={last[0]} listed={last[1]}" if last is not None else ""
    fields = f"incarnation=i{life} owner={owner} state={state} segments={count}{listed}"
    return landed("put", "manifest.json", when, fields)


def created(life: int) -> EventRow:
    return manifest(life, 1, 0, None, when="absent")


def segment(kind: str, life: int, owner: int, place: int) -> EventRow:
    key = f"segments/i{life}.{owner:08d}-{place:016d}.seg"
    fields = f"incarnation=i{life} owner={owner} start={place}" if kind == "put" else ""
    return landed(kind, key, "absent" if kind == "put" else "anything", fields)


GONE = landed("delete", "manifest.json", "matches")
ONE_LISTED = (created(1), segment("put", 1, 1, 0), manifest(1, 1, 1, (0, 1)))
BURIED = (*ONE_LISTED, manifest(1, 1, 1, (0, 1), "tombstone"))
UPLOADED_TWICE = (created(1), segment("put", 1, 1, 0), segment("put", 1, 1, 5))

REFUSED = {
    "a recreate over a tombstone whose data is not deleted": (
        (*BURIED, segment("delete", 1, 1, 0), manifest(2, 1, 0, None)),
        (*BURIED, manifest(2, 1, 0, None)),
    ),
    "a manifest deleted before the data that it lists": (
        (*BURIED, segment("delete", 1, 1, 0), GONE),
        (*BURIED, GONE),
    ),
    "an owner that takes the stream and lists a segment of the one before in one write": (
        (*ONE_LISTED[:2], manifest(1, 2, 0, None), segment("put", 1, 2, 0), manifest(1, 2, 1, (0, 2))),
        (*ONE_LISTED[:2], manifest(1, 2, 1, (0, 1))),
    ),
    "another segment in the place of the one listed last": (
        (*UPLOADED_TWICE, manifest(1, 1, 1, (0, 1)), manifest(1, 1, 1, (0, 1))),
        (*UPLOADED_TWICE, manifest(1, 1, 1, (0, 1)), manifest(1, 1, 1, (5, 1))),
    ),
    "a takeover that changes the segment listed last": (
        (*UPLOADED_TWICE, manifest(1, 1, 1, (0, 1)), manifest(1, 2, 1, (0, 1))),
        (*UPLOADED_TWICE, manifest(1, 1, 1, (0, 1)), manifest(1, 2, 1, (5, 1))),
    ),
    "a tombstone that lists less than the manifest did": (
        BURIED,
        (*ONE_LISTED, manifest(1, 1, 0, None, "tombstone")),
    ),
    "a segment created over itself": (
        (created(1), segment("put", 1, 1, 0)),
        (created(1), segment("put", 1, 1, 0), segment("put", 1, 1, 0)),
    ),
    "a segment of an incarnation that never began": (
        (created(1), segment("put", 1, 1, 0)),
        (created(1), segment("put", 2, 1, 0)),
    ),
    "an owner that skips an epoch": (
        (created(1), manifest(1, 2, 0, None)),
        (created(1), manifest(1, 3, 0, None)),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_run_is_refused_and_its_neighbour_is_not(case: str) -> None:
    accepted, refused = REFUSED[case]
    assert follow(AUTOMATON, list(accepted)) is None
    verdict = follow(AUTOMATON, list(refused))
    assert verdict is not None
    assert verdict.verdict == "violated"
