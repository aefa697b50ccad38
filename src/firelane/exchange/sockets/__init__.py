"""How bytes come and go: sockets of clients, a bridge to another broker, clients inside the process."""
