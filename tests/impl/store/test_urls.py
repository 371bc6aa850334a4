"""A bad URL gets one sentence with the error and what to write instead."""

import os
from pathlib import Path

import pytest

from fencepost.impl.store import ABSENT, Misuse, open_store


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no scheme"),
        ("bucket", "no scheme"),
        ("http://bucket", "known: memory://"),
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket:notaport/x", "cannot be read"),
        ("s3://key:secret@bucket", "put no credentials"),
        ("s3://key:secret@bucket:notaport", "cannot be read"),
        ("s4://key:secret@bucket", "'s4://...@bucket' has no scheme we know"),
        ("file://key:secret@host/x", "three slashes"),
        ("memory://key:secret@x", "has no name"),
        ("s3://arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap", "two writers may both win"),
        ("S3://ARN:aws:s3:eu-west-1:123456789012:accesspoint/prod", "name the bucket itself"),
        ("s3://mfzwi23gnjvgw.mrap/prefix", "two writers may both win"),
        ("s3://key:secret@bucket?nope=1#x", "write it as %23"),
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
def test_a_bad_url_is_refused_in_one_line(url: str, says: str) -> None:
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


def test_a_directory_whose_name_is_no_text_is_that_directory(tmp_path: Path) -> None:
    """If this fails, the URL of an old Latin-1 folder quietly makes another one with a question mark."""
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 %"))
    with open_store(f"file://{tmp_path}/caf%E9%20%25") as store:
        assert store.put("k", b"1", when=ABSENT).done
        assert (place / "k").read_bytes() == b"1"
        assert store.url.endswith("/caf%E9%20%25")
        with open_store(store.url) as again:
            assert again.get("k").done


def test_a_directory_with_letters_of_any_kind_may_be_written_as_it_is(tmp_path: Path) -> None:
    with open_store(f"file://{tmp_path}/caf\u00e9") as store, open_store(store.url) as again:
        store.put("k", b"1", when=ABSENT)
        assert again.get("k").done
    assert (tmp_path / "caf\u00e9" / "k").exists()


def test_what_this_system_cannot_spell_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("ascii"))
    with pytest.raises(Misuse, match="locale cannot spell"):
        open_store("file:///caf\u00e9")
