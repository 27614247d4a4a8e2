"""Random draws by key: neighbourhoods, walks, noise."""
