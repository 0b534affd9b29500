"""Sources on files whose records are found through an index: TFRecord, tar, JSON lines."""
