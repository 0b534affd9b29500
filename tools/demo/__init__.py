"""The command `headrace demo`: compare a training that is killed and resumed with one that is not."""
