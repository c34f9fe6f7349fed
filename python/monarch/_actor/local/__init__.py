"""What runs inside one process: its server, its actors with their loops, and what those own."""
