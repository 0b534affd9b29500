"""The command line: `millrace …`."""
