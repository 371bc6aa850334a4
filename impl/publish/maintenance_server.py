"""The HTTP server beside a maintainer: what its rounds did, and what waits for cleanup.

    GET /status.json    the last round, and the sums of all rounds
    GET /metrics        the same for Prometheus

There is also what `fencepost.impl.http.service` adds. It reads nothing from the store but for `/readyz`.
"""

from collections.abc import Iterator
from dataclasses import asdict
from threading import Lock
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fencepost.impl.http.metrics import Family
from fencepost.impl.http.service import Service, json_response
from fencepost.impl.publish.maintenance import Round
from fencepost.impl.store.interface import Store

_PREFIX = "fencepost_catalog_maintain_"


class MaintenanceServer(Service):
    def __init__(self, store: Store) -> None:
        self._sums = dict.fromkeys(("rounds", "settled", "compacted", "lost", "deleted", "failed"), 0)
        self._last: Round | None = None
        self._noting = Lock()  # held over a few lines
        super().__init__(
            "catalog_maintain", {"/status.json": {"GET": self._status}}, verify=store.verify, openapi=dict
        )
        self.metrics.families(self._families)

    def note(self, done: Round) -> None:
        """Count a round that has ended."""
        with self._noting:
            self._last = done
            for name, more in (
                ("rounds", 1),
                ("settled", done.settled),
                ("compacted", len(done.compacted)),
                ("lost", len(done.lost)),
                ("deleted", done.cleaned.objects if done.cleaned else 0),
            ):
                self._sums[name] += more

    def note_failure(self) -> None:
        """Count a round that met an error."""
        with self._noting:
            self._sums["failed"] += 1

    async def _status(self, _: Request) -> Response:
        with self._noting:
            found: dict[str, Any] = {"sums": dict(self._sums)}
            found["last"] = None if self._last is None else asdict(self._last)
        return json_response(found)

    def _families(self) -> Iterator[Family]:
        with self._noting:
            sums, debts = dict(self._sums), dict(self._last.debts) if self._last else {}
        texts = {
            "rounds": "Rounds that ended.",
            "settled": "Unfinished plans of dead writers that were ended.",
            "compacted": "Tables that were compacted.",
            "lost": "Tables, branches and cleanups at which others were first.",
            "deleted": "Objects that were deleted.",
            "failed": "Rounds that met an error.",
        }
        for name, text in texts.items():
            yield Family(f"{_PREFIX}{name}_total", text, (), {(): sums[name]})
        waiting: dict[tuple[str, ...], float] = {
            (name,): float(debt.manifests) for name, debt in debts.items()
        }
        yield Family(
            "fencepost_catalog_debt_manifests", "Manifests after the boundary.", ("branch",), waiting
        )
        plans = float(max((debt.plans for debt in debts.values()), default=0))
        yield Family("fencepost_catalog_debt_plans", "Unfinished plans of all branches.", (), {(): plans})
