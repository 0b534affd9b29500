"""Find out how many workers are best: `tuner` decides, `executor` measures and acts."""
