"""The requests of a store of ours as events: what `--record` of the servers and workers adds to their
store.
"""

from fencepost.impl.recording.files import Recorder
from fencepost.impl.store.events import TraceFields
from fencepost.impl.store.interface import Store
from fencepost.impl.store.layers import Traced


class RecordedStore(Traced):
    """`store` with its requests and replies in the files of `recorder`, beside those of others."""

    def __init__(
        self, store: Store, recorder: Recorder, *, run: str, trace_fields: TraceFields | None = None
    ) -> None:
        super().__init__(
            store,
            recorder.write,
            process=recorder.process,
            run=run,
            incarnation=recorder.incarnation,
            trace_fields=trace_fields,
            next_op=recorder.next_op,
        )
        self._recorder = recorder

    def close(self) -> None:
        super().close()
        self._recorder.close()
