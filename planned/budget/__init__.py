"""Batches that are planned from lengths (`BudgetBatch`): their order on any number of shards, and a source that makes them."""
