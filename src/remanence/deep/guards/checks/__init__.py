"""What a guard looks at before it promises anything."""
