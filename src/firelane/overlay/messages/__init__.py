"""Messages between sites: each is kept until all have it, comes once, and in order. No sockets and no clock."""
