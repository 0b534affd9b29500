"""What is written: ArrayRecord, Parquet, files of tokens."""
