"""What a store does, read along with the model: one follower for each identity.

watch = Watch(reader)
watch.landed(request, reply)            # None, or the verdict, as soon as there is one that is final
watch.told(identity, sha256, "accepted")
"""

from fencepost.impl.ingest.keys import Identity
from fencepost.impl.ingest.trace_fields import trace_fields
from fencepost.impl.store.requests import CompleteUpload, Delete, Put, Reply, Request
from fencepost.properties.ingest.refinement import IngestRefinement
from fencepost.properties.refinement import Follower, Reader, RunNames, Verdict

SHOWN = (Put, Delete, CompleteUpload)
"""Requests that can mean something. Deleting a blob in parts is no thing."""


class Watch:
    """Follows the runs of all identities of one bucket, in the order in which requests land."""

    def __init__(self, reader: Reader, *, versioned: bool) -> None:
        self.reader = reader
        self.versioned = versioned
        self.names = RunNames(IngestRefinement.runs)
        self.followers: dict[str, Follower] = {}

    def landed(self, request: Request[Reply], reply: Reply) -> Verdict | None:
        """A request has taken effect, or was refused."""
        if not isinstance(request, SHOWN):
            return None
        key = request.key
        told = trace_fields(key, request.body) if isinstance(request, Put) else ""
        if isinstance(request, Delete) and self.versioned and not request.version:
            told = "what=everything"
        self.names.learn(key, told)
        identity = self.names.of(key, told)
        if not identity:
            return None
        condition = type(request.when).__name__.lower()
        return self._see(identity, ("landed", request.kind, key, condition, reply.outcome.value, told))

    def told(self, identity: Identity, sha256: str, what: str) -> Verdict | None:
        """An agent was told: accepted, duplicate, conflict; or live state was: live."""
        topic = "live" if what == "live" else "outcome"
        return self._see(identity.path, ("note", "note", topic, "", "", f"sha={sha256} what={what}"))

    def _see(self, identity: str, row: tuple[str, str, str, str, str, str]) -> Verdict | None:
        if identity not in self.followers:
            self.followers[identity] = Follower(self.reader)
        return self.followers[identity].see(row, "", 0)
