"""The numbers of the feeder that were tuned, and by what.

In: nothing. Out: seconds and counts.
"""

CLOSE_SECONDS = 5.0
"""How long `close` waits for a source that is asked for a record."""

EXIT_SECONDS = 1.0
"""How long interpreter exit waits for a source."""

KEPT = 1000
"""Steps of which `FeederStats.last` tells."""

BLOCK = 64
"""Steps whose words between hosts are deleted together."""

WAIT_MS = 200
"""Milliseconds after which one who waits for another process looks whether it should stop."""
