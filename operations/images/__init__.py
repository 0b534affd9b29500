"""Operations on images: bytes to arrays of height × width × channels, other sizes, random crops and flips."""
