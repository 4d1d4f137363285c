"""Systems that a GPU runs as one kernel, written in Triton. Each names its dense form, which gives the same bits."""
