"""The paper on sensors' models again: so far which models are worth having, beyond its own."""
