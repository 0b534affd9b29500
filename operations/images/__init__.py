"""Operations on images: decode bytes to arrays `[height, width, channels]`, resize, crop and flip."""
