"""Operations on videos and sound: decode chosen frames or seconds of files to arrays."""
