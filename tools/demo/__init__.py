"""The command `headrace demo`: compare a training killed and resumed with one that is not."""
