"""What makes maps, as loops compiled by numba for a CPU, with the same results as the functions of `echelon.world`."""
