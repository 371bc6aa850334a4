"""What a store shows of an object compares and reads like the plain value, inside of a world and after it."""

from fencepost.impl.store import ABSENT
from fencepost.impl.store.requests import ObjectInfo
from fencepost.sim.explore import audit
from fencepost.sim.world import NO_FAULTS, World


def infos() -> list[ObjectInfo]:
    """The same object seen twice, and another one, as a process of an audited program sees them."""
    found: list[ObjectInfo] = []

    def program(world: World) -> None:
        store = world.store()

        def look() -> None:
            store.put("k", b"1", when=ABSENT)
            store.put("l", b"22", when=ABSENT)
            found[:] = [info for key in ("k", "k", "l") if (info := store.head(key).info) is not None]
            assert found[0] == found[1]
            assert found[0] != found[2]
            assert len(set(found)) == 2

        world.spawn(look, name="p")

    assert audit(program, budget=NO_FAULTS).counterexamples == ()
    return found


def test_two_looks_at_one_object_are_equal_and_hash_alike() -> None:
    one, again, other = infos()
    assert one == again != other
    assert hash(one) == hash(again)


def test_a_time_of_modification_is_read_after_the_audit_as_well() -> None:
    one, again, _ = infos()
    assert one.modified_ns == again.modified_ns > 0
