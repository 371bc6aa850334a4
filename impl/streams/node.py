"""One node: creates, appends to, reads, closes, forks and deletes the streams of a prefix.

node = Node(open_store(url), env, Settings(node="a"), SqliteState(folder))
node.create("/builds/1", Configuration("text/plain"))
node.append("/builds/1", b"started\n", content_type="text/plain").offset

context     the manifests that the node knows, and the bytes of segments
appends     own, accept, seal, upload, list
creation    creations and forks
reads       reads by offset
retention   what reaps deleted and expired streams
"""

from dataclasses import replace

from fencepost.impl.streams.appends import Appends
from fencepost.impl.streams.context import StreamContext
from fencepost.impl.streams.creation import Creation
from fencepost.impl.streams.manifest import Manifest
from fencepost.impl.streams.reads import Reads


class Node(StreamContext):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.appends, reads = Appends(self), Reads(self)
        creation = Creation(self, self.appends, reads)
        self.create, self.fork = creation.create, creation.fork
        self.append, self.own, self.flush = self.appends.append, self.appends.own, self.appends.flush
        self.read_from, self.tail_of = reads.read_from, reads.tail_of

    def delete(self, name: str) -> None:
        """Flag the row, publish the tombstone. With forks the stream is hidden, and its data stays."""
        stream = self.visible(name, fresh=True)
        manifest = self.check_visible(stream)
        if not manifest.forks:
            self.state.flag(name, manifest.incarnation)

        def bury(found: Manifest | None) -> Manifest | None:
            if (
                found is None
                or found.incarnation != manifest.incarnation
                or found.is_tombstone
                or found.hidden
            ):
                return None
            return replace(found, hidden=True) if found.forks else replace(found, tombstone_ns=self.now_ns())

        after = self.update(stream, bury)
        if after is not None and after.hidden:
            self.state.drop(name, manifest.incarnation)
        with stream.lock:
            stream.let_go()
        self.on_change(name)

    def close(self) -> None:
        self.state.close()
