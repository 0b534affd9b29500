"""`headrace demo`: a training that is killed and resumed, held against one that was not."""
