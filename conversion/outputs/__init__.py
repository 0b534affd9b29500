"""Outputs of a conversion: ArrayRecord, Parquet, files of tokens."""
