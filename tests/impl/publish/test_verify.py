"""Verification accepts everything that runs leave behind and names damage."""

import dataclasses
from contextlib import suppress

from fencepost.impl.publish import Catalog, verify
from fencepost.impl.publish.documents import read_manifest
from fencepost.impl.store import ANYTHING

from .scripted import Crashed, Scripted, graph, without


def test_a_sound_catalog_has_no_faults() -> None:
    store = graph()
    catalog = Catalog.open(store)
    catalog.write(lambda txn: txn.append("knows", [{"id": 1, "a": 1, "b": 2}]))
    found = verify(catalog)
    assert (found.manifests, found.faults) == (5, ())


def test_commits_of_the_origin_are_no_fault_of_a_branch() -> None:
    """It pins a version of a lineage of main. Later versions of that block no writer of the branch."""
    main = Catalog.open(graph())
    main.create_branch("dev")
    for id_ in (3, 4, 5):
        main.write(lambda txn, id_=id_: txn.append("person", [{"id": id_, "name": "new"}]))  # type: ignore[misc] # mypy infers no type for the default
    dev = main.on("dev")
    assert verify(dev).faults == verify(main).faults == ()
    main.create_branch("next")
    following = main.on("next")
    following.write(lambda txn: txn.append("person", [{"id": 6, "name": "next"}]))
    main.merge("next")
    for id_ in (7, 8):
        following.write(lambda txn, id_=id_: txn.append("person", [{"id": id_, "name": "next"}]))  # type: ignore[misc] # as above
    assert verify(main).faults == verify(following).faults == ()


def test_each_damage_is_named() -> None:
    store = graph()
    catalog = Catalog.open(store, safeguards=without("inbound-check-on-removal"))
    catalog.write(lambda txn: txn.append("knows", [{"id": 1, "a": 1, "b": 2}]))
    catalog.write(lambda txn: txn.delete("person", [2]))
    assert any("knows.b points at row 2 of person" in fault for fault in verify(catalog).faults)

    store = graph()
    (fragment,) = [key for key in store.contents() if key.startswith("data/person")]
    store.delete(fragment, when=ANYTHING)
    assert any(fragment in fault for fault in verify(Catalog.open(store)).faults)

    store = graph()
    Catalog.open(store)
    store.delete("branch/main/manifest/00000000000000000002.json", when=ANYTHING)
    assert any("manifest 2 is missing" in fault for fault in verify(Catalog.open(store)).faults)

    store = graph()
    store.delete("branch/main/manifest/00000000000000000001.json", when=ANYTHING)
    assert any("manifest 1 is missing" in fault for fault in verify(Catalog.open(store)).faults)

    store = graph()
    key = "branch/main/manifest/00000000000000000003.json"
    manifest = read_manifest(store.contents()[key])
    store.put(key.replace("3", "4"), dataclasses.replace(manifest, id=4, epoch=1).body(), when=ANYTHING)
    faults = verify(Catalog.open(store, mode="read")).faults
    assert any("published more than once" in fault for fault in faults)
    assert any("behind 2 of the one before" in fault for fault in faults)


def test_an_unexplained_head_is_named() -> None:
    store = graph()
    script = Scripted(store)
    script.crash_before("put", "branch/main/manifest/")
    victim = Catalog.open(script, mode="join", safeguards=without("sidecar-before-heads"))
    with suppress(Crashed):
        victim.write(lambda txn: txn.append("person", [{"id": 3, "name": "Cyd"}]))
    catalog = Catalog.open(store, mode="join")
    assert any("has no sidecar; run repair" in fault for fault in verify(catalog).faults)
    catalog.repair()
    assert verify(catalog).faults == ()


def test_a_concurrent_cleanup_is_no_fault() -> None:
    store = graph()
    script = Scripted(store)
    catalog = Catalog.open(script, mode="join")
    for number in range(3, 9):
        catalog.write(lambda txn, n=number: txn.overwrite("place", [{"id": n, "name": "there"}]))
    store.env.sleep(1000)  # so that fragments are deleted as well
    script.before("get", "data/", lambda: Catalog.open(store, mode="join").cleanup(1))
    assert verify(catalog).faults == ()
    assert script.spent
    (fragment,) = [key for key in store.contents() if key.startswith("data/place")]
    store.delete(fragment, when=ANYTHING)
    assert any(fragment in fault for fault in verify(catalog).faults)
