"""Files by path: which there are, whether they changed, and open ones on loan."""
