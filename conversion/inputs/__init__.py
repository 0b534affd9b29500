"""Where records come from: files of many formats, and sources."""
