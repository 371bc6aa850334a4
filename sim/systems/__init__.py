"""The systems of Fencepost: protocols with a model, an implementation, and all that connects the two.

To add one, write its package here and add its descriptor to `SYSTEMS`: see docs/guides/add-a-system.md. A
package elsewhere is added for one command by `FENCEPOST_SYSTEMS=package.module`, or several with commas
between.
"""

import os

from fencepost.impl.store.errors import Misuse
from fencepost.sim.systems import ingest, lifecycle, objects, publish, streams
from fencepost.sim.systems.system import Mutant, System, Workload, load

_SHIPPED: tuple[System, ...] = (
    publish.SYSTEM,
    ingest.SYSTEM,
    objects.SYSTEM,
    streams.SYSTEM,
    lifecycle.SYSTEM,
)
SYSTEMS: dict[str, System] = {system.name: system for system in _SHIPPED}
"""By name."""
for _module in filter(None, os.environ.get("FENCEPOST_SYSTEMS", "").split(",")):
    try:
        _added: System = load(f"{_module}:SYSTEM")
    except (ImportError, AttributeError, ValueError) as _error:
        raise Misuse(
            f"FENCEPOST_SYSTEMS names {_module}, which cannot be loaded: {_error}; correct or unset it"
        ) from _error
    SYSTEMS[_added.name] = _added

WORKLOADS: dict[str, Workload] = {
    name: workload for system in SYSTEMS.values() for name, workload in system.workloads.items()
}
"""By the name that scenario files give."""
