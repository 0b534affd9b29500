"""Batches planned from lengths (`BudgetBatch`): their order on shards, and their source."""
