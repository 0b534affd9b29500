"""The operations of a stage (operations that run in one task), connected so that each passes results to the next."""
