"""Datasets of LeRobot: frames of episodes in Parquet files, pictures of cameras in video files."""
