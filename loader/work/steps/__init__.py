"""The operations of a stage, connected as steps, and the inputs that are pushed into them."""
