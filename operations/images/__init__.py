"""Operations on images: decode bytes to arrays `[height, width, channels]`, and change their size, place and colours."""
