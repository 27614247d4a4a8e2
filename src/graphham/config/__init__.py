"""What a user may say, and the presets."""
