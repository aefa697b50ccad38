"""The RDDS paper again: `evaluation` runs its experiments; `models` tries what it leaves to the future."""
