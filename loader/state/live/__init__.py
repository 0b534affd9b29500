"""Changes of weights, omitted records, batch sizes and tokens of batches while a run goes on."""
