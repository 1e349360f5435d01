"""What a session changes in files, and the way back."""
