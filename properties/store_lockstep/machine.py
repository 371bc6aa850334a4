"""The machine: steps of all kinds, in any order, and a look at everything now and in the end."""

import shutil

from hypothesis.stateful import rule

from fencepost.properties.store_lockstep.draws import KEYS
from fencepost.properties.store_lockstep.listings import Listings
from fencepost.properties.store_lockstep.objects import Objects
from fencepost.properties.store_lockstep.uploads import Uploads


class StoreLockstep(Objects, Listings, Uploads):
    """Subclass it with a backend: `open` gives an empty store."""

    @rule()
    def look(self) -> None:
        """Everything there is: the whole listing in small pages, and every object."""
        self.list("", "", "", 2, to_the_end=True)
        for key in KEYS:
            self.get(key, 0, None, "", "", 0)

    def teardown(self) -> None:
        try:
            if self._agree:
                self.look()
        finally:
            self.store.close()
            for folder in self._folders:
                shutil.rmtree(folder)
