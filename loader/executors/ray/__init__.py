"""Tasks in actors of Ray, on this machine or others: blocks lie in Ray's object store."""
