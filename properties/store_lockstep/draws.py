"""What steps are drawn from: pools so small that keys collide and conditions meet what they name."""

from hypothesis import strategies as st

from fencepost.impl.store import requests as ask

KEYS = ("a", "a/", "a/b", "a/b/c", "a-b", "é/x")
PREFIXES = ("", "a", "a/", "a/b", "é", "zz")
BODIES = (b"", b"0", b"one", b"two", b"three four")
WHENS = ("anything", "absent", "current", "before", "seen 0", "other")
"""`current` is the ETag that stands there, `before` stood there before it, `seen 0` was the first of all
that were seen, `other` never was."""
READS = ("", "", "current", "before", "other")
METADATA: tuple[dict[str, str], ...] = ({}, {"owner": "x"}, {"owner": "y", "stage": "2"})

keys = st.sampled_from(KEYS[:2]) | st.sampled_from(KEYS)
upload_keys = st.sampled_from(KEYS[:2])
prefixes = st.sampled_from(PREFIXES)
bodies = st.sampled_from(BODIES)
whens = st.sampled_from(WHENS)
endings = st.sampled_from(("anything", "absent", "current", "current", "before"))
reads = st.sampled_from(READS)
types = st.sampled_from(("text/plain", ask.BINARY))
metadatas = st.sampled_from(METADATA)
limits = st.sampled_from((1, 2, 3, 1000))
places = st.integers(0, 3)
"""Of a version: 0 is none, 1 the newest known. Of an upload: 0 is the newest."""
