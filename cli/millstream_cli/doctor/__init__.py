"""`millstream doctor`: what an installation has, and what the world around it answers."""
