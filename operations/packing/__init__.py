"""Pack documents into rows of one length: choose the row of each piece of a document, and make the rows' arrays."""
