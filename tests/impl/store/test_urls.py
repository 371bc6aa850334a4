"""A wrong URL gets one sentence that says what is wrong and what to write instead."""

import pytest

from holdfast.impl.store import Misuse, open_store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no scheme"),
        ("bucket", "no scheme"),
        ("http://bucket", "known: memory://"),
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket:notaport/x", "cannot be read"),
        ("s3://key:secret@bucket", "put no credentials"),
        ("s3://bucket?endpont=http://127.0.0.1:1", "unknown option 'endpont'"),
        ("s3://bucket?region=a&region=b", "gives an option twice"),
        ("file://var/lib", "write file:///var/lib with three slashes"),
        ("file://", "names no directory"),
        ("file:///tmp/%00", "names no directory"),
        ("file:///tmp/x?linger_ms=-1", "at least 0, not '-1'"),
        ("file:///tmp/x?linger_ms=soon", "not 'soon'"),
        ("file:///tmp/x#y", "write it as %23"),
        ("memory://name", "has no name"),
        ("memory://?versioned=perhaps", "true or false, not 'perhaps'"),
        ("memory://?versions=true", "unknown option 'versions'"),
    ],
)
def test_a_wrong_url_is_refused_in_one_line(url: str, says: str) -> None:
    with pytest.raises(Misuse) as refused:
        open_store(url)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_memory_is_opened_plain_or_versioned() -> None:
    with open_store("memory://") as plain, open_store("memory://?versioned=true") as versioned:
        assert not plain.versioned()
        assert versioned.versioned()
        assert open_store(versioned.url).versioned()
