"""Orders of chains of dataset methods: index maps, applied one after another."""
