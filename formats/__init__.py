"""How records lie in files: framing, indices, samples. No source, and nothing that knows one."""
