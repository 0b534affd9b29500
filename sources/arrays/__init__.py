"""Sources of arrays in files, whose first axis counts records; and tables in memory.

The files are HDF5, Zarr, xarray and NumPy's `.npz`.
"""
