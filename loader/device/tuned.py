"""The numbers of the feeder that were tuned, and by what.

In: nothing. Out: seconds and counts.
"""

CLOSE_SECONDS = 5.0
"""How long `close` waits for a source that is asked for a record."""

EXIT_SECONDS = 1.0
"""How long interpreter exit waits for a source."""

BRIEF = 0.1
"""Of the time that reading took: a step that takes less holds up reading less than the switch to another thread."""

LULL_SECONDS = 0.0005
"""How long the transfer thread lets the user's thread go first, when a batch was taken and others are ready.

That thread is about to begin its step; it gives up the interpreter's lock for a moment while it does, and would wait for the
whole of a transfer's Python to get it back.
"""

KEPT = 1000
"""Steps of which `FeederStats.last` tells."""

BLOCK = 64
"""Steps whose words between hosts are deleted together."""

WAIT_MS = 200
"""Milliseconds after which one who waits for another process looks whether it should stop."""
