"""What maintainers run by hand; nothing in here is part of what is installed."""
