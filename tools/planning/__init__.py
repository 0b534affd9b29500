"""`headrace plan`: how many workers, and how many nodes, hide the work of a step."""
