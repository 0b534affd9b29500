"""Sources whose files become more: numbered generations, written down beside the data."""
