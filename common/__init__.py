"""Small helpers that several packages use: validation of arguments, messages, values that identify, random numbers by key."""
