"""Creates objects while `watching.c` looks on, and tells what it saw.

    LD_PRELOAD=watching.so python watched.py DIRECTORY < CASES > FINDINGS

A case is [folder, variant, key, body, call, errno, times]: the next `times` of `call` fail with `errno`. Each
folder has one store throughout, of the variant named first. A finding is how the put ended, the calls that
were made, what stands at the key afterwards, and how many open files and drafts were left behind.
"""

import ctypes
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from broken import open_variant

from fencepost.impl.store.errors import StoreError
from fencepost.impl.store.requests import ABSENT

watching = ctypes.CDLL(None)
watching.watched.restype = ctypes.c_char_p


def open_files():
    """Folders do not count: a store keeps them."""
    return sum(fd.exists() and not fd.is_dir() for fd in Path("/proc/self/fd").iterdir())


def ending(store, key, body):
    try:
        return store.put(key, body, when=ABSENT).outcome.value
    except StoreError as error:
        return f"{type(error).__name__}: {str(error).replace(store.path, 'DIRECTORY')}"


def calls():
    return [
        (name, int(fd), int(detail))
        for name, fd, detail in (line.split() for line in watching.watched().decode().splitlines())
    ]


def case(stores, root, folder, variant, key, body, call, error, times):
    if folder not in stores:
        stores[folder] = open_variant(f"{root}/{folder}", variant, linger_ms=0)
        stores[folder].put("first", b"", when=ABSENT)
    store = stores[folder]
    open_before = open_files()
    watching.watch(call.encode(), error, times)
    ended = ending(store, key, body.encode())
    seen = calls()
    found = store.get(key)
    return {
        "ended": ended,
        "calls": seen,
        "stands": found.body.decode() if found.done else None,
        "etag": found.info.etag if found.done else None,
        "left_open": open_files() - open_before,
        "left_lying": len(list(Path(store.path, ".fencepost/tmp").iterdir())),
    }


if __name__ == "__main__":
    known = {}
    json.dump([case(known, sys.argv[1], *words) for words in json.load(sys.stdin)], sys.stdout)
