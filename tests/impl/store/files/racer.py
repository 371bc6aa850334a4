"""A process of its own that does to a directory what standard input requests, a line at a time.

python racer.py DIRECTORY [VARIANT]
create KEY BODY     -> the outcome
add KEY TIMES       -> done, after so many increments by if-match
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from broken import open_variant

from fencepost.impl.store.requests import ABSENT, Matches, Outcome


def add(store, key, times):
    for _ in range(times):
        while True:
            seen = store.get(key)
            after = str(int(seen.body) + 1).encode()
            if store.put(key, after, when=Matches(seen.info.etag)).outcome is Outcome.DONE:
                break


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main():
    store = open_variant(*sys.argv[1:])
    for line in sys.stdin:
        verb, key, argument = line.split()
        if verb == "create":
            say(store.put(key, argument.encode(), when=ABSENT).outcome.value)
        else:
            add(store, key, int(argument))
            say("done")


if __name__ == "__main__":
    main()
