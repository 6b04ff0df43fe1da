"""varve: a flash storage stack in user space."""
