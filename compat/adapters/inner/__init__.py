"""Names in Grain's private modules (`grain._src`) that programs import."""
