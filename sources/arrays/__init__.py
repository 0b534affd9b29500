"""Sources of arrays in files, whose first axis counts records: HDF5, Zarr and NumPy's `.npz`."""
