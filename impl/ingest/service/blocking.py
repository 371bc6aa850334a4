"""Keeps a collector's list of the quarantined fresh, so that judging a batch asks the store nothing."""

import logging

from holdfast.impl.ingest.errors import IngestError
from holdfast.impl.ingest.operator import Blocklist
from holdfast.impl.ingest.service.periodic import Periodic
from holdfast.impl.store.errors import StoreError

_LOG = logging.getLogger("holdfast.ingest")

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
        except (StoreError, IngestError) as wrong:
            # Without the store nothing is accepted anyway, and what was known stays known.
            _LOG.warning("the list of the quarantined is not fresh: %s", wrong)
