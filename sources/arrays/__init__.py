"""Sources of arrays in files, whose first axis counts records: HDF5, Zarr, xarray and NumPy's `.npz`; and tables in memory."""
