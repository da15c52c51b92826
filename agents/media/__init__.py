"""Pictures that requests bring, decoded in processes of their own: what is made to harm a decoder harms that alone."""
