"""The numbers of this room, all chosen: together they keep what is promised, that the search ends within 30 seconds."""

WARM_SECONDS = 0.4
"""After a change, before anything is measured: what was made before it is delivered, and tasks grow to their length."""

STRETCH_SECONDS = 1.0
"""For which the speed is measured."""

LEAST_TASKS, LONGEST_SECONDS = 8, 4.0
"""A stretch goes on until so many tasks came, but no longer than that."""

POLL_SECONDS = 0.05
"""Between two looks at what is not ready yet."""

TUNING_SECONDS = 24.0
"""After which nothing more is tried. The last stretch may take some seconds more."""
