"""What every layer shares: it is a store, and it stands on one."""

from fencepost.impl.store.interface import Store


class Layer(Store):
    """Passes on what is not about requests; `send` and `send_all` are a layer's own."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.url = inner.url
        self.env = inner.env

    def verify(self) -> None:
        self.inner.verify()

    def close(self) -> None:
        self.inner.close()

    def versioned(self) -> bool:
        return self.inner.versioned()
