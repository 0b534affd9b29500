"""Output formats of a conversion: ArrayRecord, bytes, Parquet and tokens."""
