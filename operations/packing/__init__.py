"""Pack documents into rows of one length: choose the row of each piece, and make the arrays."""
