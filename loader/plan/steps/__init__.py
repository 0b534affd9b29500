"""Steps: ranges of steps that a run skips, and facts about steps that need no reading."""
