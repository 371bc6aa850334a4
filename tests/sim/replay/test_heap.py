"""A replay keeps freed memory where the C library can, and goes on where it cannot."""

import ctypes
import platform

import pytest

from fencepost.sim.replay.heap import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the settings are those of glibc")
def test_glibc_accepts_every_setting() -> None:
    """Without the settings each column faults its pages in again."""
    assert keep_freed_memory.__wrapped__()


def test_another_c_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library without `mallopt` must not end a replay."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not keep_freed_memory.__wrapped__()
