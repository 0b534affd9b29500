"""Find the fastest number of workers: `tuner` decides, `executor` measures and changes it."""
