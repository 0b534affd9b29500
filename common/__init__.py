"""Small helpers that several rooms use: validation of arguments, messages, values that identify, random numbers by key."""
