"""Keeps a collector's list of the quarantined fresh, so that judging a batch asks the store nothing."""

import logging

from fencepost.impl.ingest.errors import IngestError
from fencepost.impl.ingest.operator import Blocklist
from fencepost.impl.ingest.service.periodic import Periodic
from fencepost.impl.store.errors import StoreError

_LOG = logging.getLogger("fencepost.ingest")

REFRESH_S = 10.0


class Refresher:
    """Reads the list now, and every `every_s` from now on."""

    def __init__(self, blocklist: Blocklist, every_s: float = REFRESH_S) -> None:
        self._blocklist = blocklist
        self._once()
        self._again = Periodic("ingest-blocklist", lambda _: self._once(), every_s)

    def close(self) -> None:
        self._again.close()

    def _once(self) -> None:
        try:
            self._blocklist.refresh()
        except (StoreError, IngestError) as error:
            # Without the store nothing is accepted anyway, and what was known stays known.
            _LOG.warning("the list of the quarantined is not fresh: %s", error)
