"""Claims about drifting tasks: filter, smoother, extended filter, EM."""
