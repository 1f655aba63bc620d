"""States of methods that learn with several settings side by side and use the one that predicts best."""
