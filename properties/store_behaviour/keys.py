"""Keys: every one that is allowed comes back as it was given, and no two become one."""

from fencepost.impl.store import ABSENT, ANYTHING, Outcome, Store
from fencepost.properties.store_behaviour.parts import all_keys, expect, holds, stored


def stay_apart(store: Store, *keys: str) -> None:
    """Each key can be created, holds its own body, is listed, and goes away alone."""
    for key in keys:
        expect(store.put(key, key.encode(), when=ABSENT), Outcome.DONE)
    assert sorted(all_keys(store)) == sorted(keys)
    for at, key in enumerate(keys):
        holds(store, key, key.encode())
        expect(store.delete(key, when=ANYTHING), Outcome.DONE)
        holds(store, key, None)
        assert sorted(all_keys(store)) == sorted(keys[at + 1 :])


class Keys:
    """Awkward names."""

    def test_spaces_and_signs(self, store: Store) -> None:
        stay_apart(store, "a b", "a+b", "a%20b", "a%2Bb", "q?x=1&y=#", "'\"<>&;", "a:b|c*", "~", "-", "=")

    def test_backslashes(self, store: Store) -> None:
        stay_apart(store, "a\\b", "a/b", "\\", "a\\\\b")

    def test_percent_signs_are_not_decoded(self, store: Store) -> None:
        stay_apart(store, "a%2Fb", "a/b", "%", "%%", "%zz")

    def test_letters_of_all_kinds(self, store: Store) -> None:
        stay_apart(store, "ü", "日本", "ключ", "😀", "e\u0301", "\u00e9", "\ufffd")

    def test_case_counts(self, store: Store) -> None:
        stay_apart(store, "key", "KEY", "Key")

    def test_dots_in_names(self, store: Store) -> None:
        stay_apart(store, ".a", "..a", "a.", "a..b", "...", ".tmp/x")

    def test_spaces_at_the_ends(self, store: Store) -> None:
        stay_apart(store, " a", "a ", "a")

    def test_a_key_and_keys_below_it(self, store: Store) -> None:
        """On a file system: a file and a folder of one name."""
        stay_apart(store, "a", "a/b", "a/b/c")

    def test_two_slashes_are_not_one(self, store: Store) -> None:
        stay_apart(store, "a//b", "a/b", "a///b")

    def test_a_slash_in_front_counts(self, store: Store) -> None:
        stay_apart(store, "/a", "a", "//a")

    def test_a_slash_at_the_end_counts(self, store: Store) -> None:
        stay_apart(store, "a/", "a", "a//")

    def test_control_characters(self, store: Store) -> None:
        stay_apart(store, "a\x01b", "a\x1fb", "a\x7fb", "tab\t", "line\nend", "line\rend")

    def test_a_long_key(self, store: Store) -> None:
        """S3's limit is 1,024 bytes, some of which a store's own prefix may take."""
        path = "/".join(["x" * 200] * 5)
        stay_apart(store, path[:1000], path[:999])

    def test_a_long_segment(self, store: Store) -> None:
        """Most file systems stop at 255 bytes a name."""
        stay_apart(store, "s" * 600, "s" * 599, "ü" * 300)

    def test_many_at_one_level(self, store: Store) -> None:
        for n in range(30):
            stored(store, f"n{n}")
        assert len(all_keys(store)) == 30
