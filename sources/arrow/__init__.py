"""Sources on Apache Arrow: Parquet files and Hugging Face datasets."""
