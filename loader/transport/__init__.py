"""The transport: everything that crosses the boundary between processes, and how."""
