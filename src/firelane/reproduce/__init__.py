"""One entry module per paper: its experiments run again, the paper's numbers beside ours."""
