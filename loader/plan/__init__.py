"""A pipeline, checked and divided into leaves and stages. Pure: no I/O, no thread, no clock."""
