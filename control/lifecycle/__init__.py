"""What an instance goes through, from being wanted to costing nothing. Pure: values in, values out."""
