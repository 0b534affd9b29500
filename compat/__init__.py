"""Other libraries' names and states over ours; nothing else knows them."""
