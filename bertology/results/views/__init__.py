"""What people read, before any format: tables of layers, heads, groups and tasks, made from tidy rows."""
