"""The publish protocol of docs/decisions/0010-publish-protocol.md as a machine.

Chain, Lineages and Sidecars are its building blocks: a protocol that commits through a chain of
manifests derives from them and adds its own actions.
"""

from holdfast.model.publish.chain import Chain
from holdfast.model.publish.lineages import Lineages
from holdfast.model.publish.machine import Publish
from holdfast.model.publish.sidecars import Sidecars

__all__ = ["Chain", "Lineages", "Publish", "Sidecars"]
