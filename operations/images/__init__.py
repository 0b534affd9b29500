"""Operations on images: decode them, and change their size, place and colours.

Bytes are decoded to arrays `[height, width, channels]`.
"""
