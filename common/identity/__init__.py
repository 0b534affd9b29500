"""Values that tell things from others: of plain values, and of functions."""
