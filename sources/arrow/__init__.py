"""Sources on Apache Arrow: Parquet files, Hugging Face datasets and Lance tables."""
