"""How patiently publish asks: five times again, about two seconds of pauses. The asking is `impl.asking`."""

from fencepost.impl.asking import Asking, Stands
from fencepost.impl.publish.errors import StoreAway

__all__ = ["Stands", "create_all", "pages", "pause", "read", "read_all"]

_ASKING = Asking("publish", StoreAway, rounds_max=5, pause_s=0.1)

pause = _ASKING.pause
read = _ASKING.read
pages = _ASKING.pages
read_all = _ASKING.read_all
create_all = _ASKING.create_all
