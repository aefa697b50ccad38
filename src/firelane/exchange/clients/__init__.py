"""What is known of clients: their sessions and connections, what they may do, which needs they are granted."""
