"""Changes of weights, omitted records, batch sizes and tokens of batches during a run."""
