"""The publish protocol of docs/decisions/0010-publish-protocol.md as a machine.

Chain, Lineages and Sidecars are its building blocks: a protocol that commits through a chain of
manifests derives from them and adds its own actions.
"""

from fencepost.model.publish.chain import Chain
from fencepost.model.publish.lineages import Lineages
from fencepost.model.publish.machine import Publish
from fencepost.model.publish.sidecars import Sidecars

__all__ = ["Chain", "Lineages", "Publish", "Sidecars"]
