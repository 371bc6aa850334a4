"""Kills writers at random moments and looks at what they left.

    python killer.py DIRECTORY KILLS SEED [VARIANT]

Every round forks a writer that overwrites and creates objects, each carrying its number in the body, the
metadata and the type, and reports what it begins and what was acknowledged. It is killed after a random
part of a few milliseconds. Then every object must be one write, whole, with its own attributes, no older
than the last acknowledged write and no newer than the last begun. Prints `ok` or the first fault.
"""

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from broken import open_variant

from fencepost.impl.store.errors import BrokenPromise
from fencepost.impl.store.requests import ABSENT, ANYTHING, Matches

OVERWRITTEN = ["head", "deep/er/head", "deep"]


def body_of(number):
    size = 1 + int(hashlib.sha256(str(number).encode()).hexdigest(), 16) % 60_000
    return (f"{number} " * (size // len(f"{number} ") + 1)).encode()


def write_on(root, variant, number, report):
    """Write until killed."""
    store = open_variant(root, variant)
    while True:
        number += 1
        key = OVERWRITTEN[number % 4] if number % 4 < 3 else f"new/{number}"
        report("begin", key, number)
        when = ABSENT if number % 4 == 3 else ANYTHING
        if number % 8 == 4:
            found = store.head(key).info
            when = Matches(found.etag) if found else ABSENT
        reply = store.put(
            key, body_of(number), when=when, content_type=f"n/{number}", metadata={"number": str(number)}
        )
        assert reply.done, reply
        report("acked", key, number)


def one_life(root, variant, number, life_s):
    """Fork a writer, kill it, and answer its report."""
    heard, output = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        write_on(
            root, variant, number, lambda *row: os.write(output, (" ".join(map(str, row)) + "\n").encode())
        )
    os.close(output)
    with os.fdopen(heard) as lines:
        first = lines.readline()
        time.sleep(life_s)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        rest = lines.read()
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    return [line.split() for line in (first + rest).splitlines()]


def judge(store, key, acked, begun):
    """The fault of the object at `key`, or None."""
    try:
        reply = store.get(key)
    except BrokenPromise as broken:
        return str(broken)
    if not reply.done:
        return f"{key} is {reply.outcome} after {acked} was acknowledged" if acked else None
    number = int(reply.body.split()[0]) if reply.body else -1
    if not acked <= number <= begun:
        return f"{key} holds {number}, acknowledged {acked}, begun {begun}"
    if reply.body != body_of(number):
        return f"{key} is torn: {len(reply.body)} bytes of {number}"
    known = (reply.info.content_type, dict(reply.info.metadata), reply.info.etag)
    wanted = (f"n/{number}", {"number": str(number)}, hashlib.md5(reply.body).hexdigest())
    return None if known == wanted else f"{key} has attributes {known}, wrote {wanted}"


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main():
    root, kills, seed, variant = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "".join(sys.argv[4:])
    stream = random.Random(seed)
    number, acked, begun = 0, {}, {}
    for kill in range(kills):
        for word, key, text in one_life(root, variant, number, stream.uniform(0, 0.015)):
            number = int(text)
            (acked if word == "acked" else begun)[key] = number
        store = open_variant(root, variant)
        for key in begun:
            if key in OVERWRITTEN or begun[key] > number - 40:
                error = judge(store, key, acked.get(key, 0), begun[key])
                if error is not None:
                    say(f"after kill {kill}: {error}")
                    return
        listed = {info.key for page in store.pages() for info in page.objects}
        if not set(acked) <= listed <= set(begun):
            say(f"after kill {kill}: the listing lacks {set(acked) - listed}, adds {listed - set(begun)}")
            return
        store.close()
    say(f"ok {len(acked)} keys, {number} writes")


if __name__ == "__main__":
    main()
