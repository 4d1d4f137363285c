"""Parts of an observation that a GPU makes as one kernel, written in Triton. Each names its dense form."""
