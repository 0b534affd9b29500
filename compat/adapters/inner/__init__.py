"""Names of Grain's private modules that programs import."""
