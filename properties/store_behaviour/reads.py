"""Reading: ranges and conditions."""

from fencepost.impl.store import ANYTHING, Outcome, Store
from fencepost.properties.store_behaviour.objects import OTHER
from fencepost.properties.store_behaviour.parts import expect, info_of, stored

TEN = b"0123456789"


def part(store: Store, start: int = 0, stop: int | None = None) -> bytes:
    reply = store.get("k", start=start, stop=stop)
    assert info_of(reply).size == len(TEN), "a range tells the size of the whole object"
    return reply.body


class Reads:
    """Get and head of what is there."""

    def test_ranges_inside(self, store: Store) -> None:
        stored(store, "k", TEN)
        assert part(store, 2, 5) == b"234"
        assert part(store, 0, 1) == b"0"
        assert part(store, 9, 10) == b"9"
        assert part(store, 0, 10) == TEN

    def test_a_range_without_a_stop_goes_to_the_end(self, store: Store) -> None:
        stored(store, "k", TEN)
        assert part(store, 7) == b"789"

    def test_a_range_over_the_end_is_cut(self, store: Store) -> None:
        stored(store, "k", TEN)
        assert part(store, 8, 99) == b"89"
        assert part(store, 0, 11) == TEN

    def test_a_range_from_the_end_is_past_it(self, store: Store) -> None:
        stored(store, "k", TEN)
        expect(store.get("k", start=10), Outcome.PAST_END)
        expect(store.get("k", start=10, stop=12), Outcome.PAST_END)
        expect(store.get("k", start=99, stop=100), Outcome.PAST_END)

    def test_any_range_of_an_empty_object_is_past_its_end(self, store: Store) -> None:
        stored(store, "k", b"")
        expect(store.get("k", start=0, stop=1), Outcome.PAST_END)

    def test_a_range_of_nothing_is_missing(self, store: Store) -> None:
        expect(store.get("k", start=1, stop=2), Outcome.MISSING)

    def test_a_range_carries_the_whole_objects_etag(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        assert info_of(store.get("k", start=3, stop=4)).etag == etag

    def test_only_if(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        assert info_of(store.get("k", only_if=etag)).etag == etag
        expect(store.get("k", only_if=OTHER), Outcome.CHANGED)

    def test_only_if_where_nothing_is(self, store: Store) -> None:
        expect(store.get("k", only_if=OTHER), Outcome.MISSING)

    def test_only_if_with_a_range(self, store: Store) -> None:
        """Reads a large object in pieces that are sure to be of one version."""
        etag = stored(store, "k", TEN)
        assert store.get("k", start=1, stop=3, only_if=etag).body == b"12"
        expect(store.get("k", start=1, stop=3, only_if=OTHER), Outcome.CHANGED)

    def test_unless(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        expect(store.get("k", unless=etag), Outcome.UNCHANGED)
        assert store.get("k", unless=OTHER).body == TEN

    def test_unless_where_nothing_is(self, store: Store) -> None:
        expect(store.get("k", unless=OTHER), Outcome.MISSING)

    def test_unless_after_a_delete(self, store: Store) -> None:
        etag = stored(store, "k", TEN)
        store.delete("k", when=ANYTHING)
        expect(store.get("k", unless=etag), Outcome.MISSING)
