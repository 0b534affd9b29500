"""Find the number of workers that is fastest: `tuner` decides, `executor` measures and acts."""
