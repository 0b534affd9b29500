"""The operations of a stage, connected as steps, and the inputs that are pushed into them.

A stage is a group of operations that run together in one task.
"""
