"""`clew submit`: goals read, checked, put into the inbox and followed until they are accepted."""
