"""Layers that compose over any store: each is a store itself and holds the one below.

Order matters and reads inside out: `Metered(Retrying(Faulty(store, ...)))` counts the caller's
requests, `Retrying(Metered(...))` counts the requests sent.
"""

from fencepost.impl.store.faults import Effect, Fault
from fencepost.impl.store.interface import Layer
from fencepost.impl.store.layers.faulty import Faulty
from fencepost.impl.store.layers.metered import Cost, Metered
from fencepost.impl.store.layers.retrying import Retrying
from fencepost.impl.store.layers.throttled import Throttled
from fencepost.impl.store.layers.traced import Traced

__all__ = ["Cost", "Effect", "Fault", "Faulty", "Layer", "Metered", "Retrying", "Throttled", "Traced"]
