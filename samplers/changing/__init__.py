"""Orders that change at a position: records are appended, or left out."""
