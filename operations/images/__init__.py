"""Operations on images: decode bytes to arrays [height, width, channels], resize, and crop and flip at random."""
