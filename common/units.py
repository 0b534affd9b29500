"""Format counts, bytes, seconds and shares for people."""

from __future__ import annotations


def format_seconds(seconds: float) -> str:
    """Format a number of seconds with a suitable unit.

    >>> format_seconds(0.00214), format_seconds(3.5), format_seconds(0.00003), format_seconds(0.0)
    ('2.1 ms', '3.5 s', '30 µs', '0 µs')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.{0 if seconds >= 99.5 * size else 1}f} {unit}"
    return f"{seconds * 1e6:.0f} µs"


def format_bytes(nbytes: float) -> str:
    """Format a number of bytes with a suitable unit.

    >>> format_bytes(800), format_bytes(9_633_792), format_bytes(2e12)
    ('800 B', '9.6 MB', '2.0 TB')
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes:.0f} B"


def format_count(count: float) -> str:
    """Format a count, an average or a rate.

    >>> format_count(1234.5), format_count(45.67), format_count(0.5)
    ('1,234', '46', '0.50')
    """
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}" if count >= 1 else f"{count:.2f}"


def format_share(share: float) -> str:
    """Format a share, 0 to 1, as a percentage.

    >>> format_share(0.254)
    '25 %'
    """
    return f"{100 * share:.0f} %"
