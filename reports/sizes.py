"""Numbers of bytes as people write and read them."""

import re

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def byte_size(count: int) -> str:
    """`1.5 GiB`."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def parse_bytes(text: str) -> int:
    """`500M`, `4G`, `1.5GiB`, `100000` as a number of bytes; ValueError names the accepted forms."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = float(match[1]) * UNITS[match[2].upper()] if match else 0
    if size < 1:
        raise ValueError(f"{text!r} is no size; write 500M or 4G")
    return round(size)
