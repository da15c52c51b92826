"""The life of an instance, from being wanted to costing nothing. Pure: values in, values out."""
