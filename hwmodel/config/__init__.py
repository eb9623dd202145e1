"""Reading what users write: strict YAML, overrides, validation with lines, machines, and writing it back."""
