"""Why a step waits for its batch: measured, judged, and told with what would change it."""
