"""A store and the reference, side by side: every request goes to both, every answer must be the same.

    class FilesLockstep(StoreLockstep):
        def open(self) -> Store:
            return FileStore(self.directory())

    TestFiles = FilesLockstep.TestCase

Keys come from a pool so small that they collide, are each other's prefixes, and are folder and file at
once. Steps name ETags, versions and uploads by their place among those seen so far, never by what the
store called them, so that a failing example is code to paste into another session:

    state = FilesLockstep()
    state.put(key='a', body=b'', when='absent', content_type='text/plain', metadata={})
    state.delete(key='a', when='current', version=0)
    state.teardown()

The two may call ETags, versions, uploads and tokens as they like, but each always the same: `Names` keeps
the pairs, which is also what shows that equal bytes have equal ETags and that nothing is named twice.

What a backend is known and declared to do otherwise (`deviations`) is not asked of it:

    conditional-complete   conditions on completing an upload are ignored, or never answered with conflict
    gone-uploads           completed or aborted uploads are not reported as gone
    uploads-listing        uploads are not listed by key, or not in pages
    versions-listing       versions and markers are not listed in one order
    markers                delete markers of what never was, or the removal of markers, are answered
    differently
    deleted-groups         a group of keys is listed although all in it are deleted
    parts                  uploads of several parts (where a part has to be larger than a test wants to send)
"""

from fencepost.properties.store_lockstep.machine import StoreLockstep
from fencepost.properties.store_lockstep.sides import DEVIATIONS

__all__ = ["DEVIATIONS", "StoreLockstep"]
