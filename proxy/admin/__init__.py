"""Our own listener: health, metrics and status. Nothing of it is ever answered on a data port."""
